//! The rules that rank error lines. Each rule judges a line by its text alone.

use std::sync::LazyLock;

use crate::materialize::failure::rule_set::RuleSet;
use crate::model::ErrorRank;

/// The rank of an error line, judged from the line alone. For a line of a stack trace, the final
/// rank depends on later lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rank {
    Is(ErrorRank),
    // The first line of a stack trace. It is the cause, unless a deeper cause follows.
    Heading,
    // A deeper cause in a stack trace. It is the cause, unless an even deeper cause follows.
    Trace,
}

impl Rank {
    // Returns the rank that applies if no deeper cause follows.
    pub(super) fn kept(self) -> ErrorRank {
        match self {
            Self::Heading | Self::Trace => ErrorRank::Cause,
            Self::Is(rank) => rank,
        }
    }
}

// The line is not an error, whatever words it contains.
const NO: Option<Rank> = None;
const CAUSE: Option<Rank> = Some(Rank::Is(ErrorRank::Cause));
const ERROR: Option<Rank> = Some(Rank::Is(ErrorRank::Error));
const EXIT: Option<Rank> = Some(Rank::Is(ErrorRank::Exit));
const LOGGED: Option<Rank> = Some(Rank::Is(ErrorRank::Logged));
const REPORT: Option<Rank> = Some(Rank::Is(ErrorRank::Report));
const TALLY: Option<Rank> = Some(Rank::Is(ErrorRank::Tally));
const OUTER: Option<Rank> = Some(Rank::Is(ErrorRank::Outer));
const HEADING: Option<Rank> = Some(Rank::Heading);
const TRACE: Option<Rank> = Some(Rank::Trace);

pub(super) fn rank(line: &[u8]) -> Option<Rank> {
    RULES[SET.first(line)?].0
}

pub(super) fn patterns() -> impl Iterator<Item = &'static str> {
    RULES.iter().map(|(_, pattern)| *pattern)
}

static SET: LazyLock<RuleSet> = LazyLock::new(|| RuleSet::new(patterns()));

/// The rules. The first pattern that matches gives the rank; `None` means that the line is not an
/// error.
///
/// First come patterns that match only errors, then patterns for lines that are not errors, and
/// then words that usually indicate an error. A line is matched only if it contains one of
/// `prefilter::FRAGMENTS`.
const RULES: [(Option<Rank>, &str); 94] = [
    // A row of `ls -l`, `find -ls` or `tar -tv`.
    (NO, r"^\s*(\d+\s+)*[-bcdlps]([r-][w-][xsS-]){2}[r-][w-][xtT-][.+@]?\s"),
    // Passed tests with any name, a cron call, and a YAML setting.
    (
        NO,
        r"\bPASSED\b\s*(\[ *\d+%\])?$|^\s*(ok|PASS|PASSED|\xe2\x9c\x93|\xe2\x9c\x94)\s|^\S+\.\w\w::[\w:]+(\[.*\])?$|\bCMD \(|^\s*[\w.-]+: \x22?(error|failed|fatal)\x22?$|^\s*['\x22]?\w*(error|failure)s?['\x22]?: ?(null|undefined|none|false|0|\[\]|\{\}|''|\x22\x22),?$",
    ),
    // Harmless log levels. klog begins a line with the letter of the level.
    (NO, r"^[IWD]\d{4} \d\d:\d\d:\d\d"),
    (NO, r"^.{0,60}?\b(WARN|WARNING|INFO|DEBUG|TRACE|NOTICE)\b[\]: |/-]|^debug\d: "),
    (REPORT, r"(?i)\b(giving up|gave up|(attempts|retries) (failed|exhausted))\b"),
    (
        NO,
        r"(?i)\bretrying\b|\bretries left\b|\battempt \d+\b|^\W*warning: \S|\b(ignored|ignoring|skipped|skipping|reconnecting|recovered|advisory)[.)]*$|\b(ignored|skipped)[,;] [a-z]|, ignoring: |^configure: failed program was:",
    ),
    // Warnings of Python and Node, and tests that are expected to fail for now.
    (NO, r"^(\(node:\d+\) (\[\w+\] )?)?\w*Warning: \S|:\d+: \w*Warning: \S|\(PENDING: "),
    // Exit of a process, as printed by a tracer.
    (NO, r"\+\+\+ exited with \d+ \+\+\+$"),
    (
        NO,
        r"\bconftest\.|^\s*Running `|# TODO\b|\bEXPECTEDFAIL\b|^\W*\d+ (known|expected) failures?\W*$|\becho [\x22']",
    ),
    // System calls as printed by a tracer. Only unusual failures are informative.
    (
        OUTER,
        r"^(\[pid +\d+\] |[\d:.]+ +)*\w+\(.* = -1 E(NOENT|AGAIN|EXIST|NOTTY|INTR|CHILD|INVAL|SPIPE|NODATA|NOTSUP|NXIO)\b",
    ),
    (REPORT, r"^(\[pid +\d+\] |[\d:.]+ +)*\w+\(.* = -1 E\w+"),
    (NO, r"^(\[pid +\d+\] |\d+ +)?\w+\(.*"),
    (LOGGED, r"^[EF]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ \S+:\d+\]"),
    (NO, r"^g?make(\[\d+\])?: .*Error \d+ \(ignored\)"),
    (OUTER, r"current transaction is aborted"),
    // Lines that only state that something failed.
    (
        TALLY,
        r"^\W*error: subprocess-exited-with-error|^# Looks like |\bNon-zero exit status|\b[Bb]uild failed in [\d.]+ ?m?s\b",
    ),
    (REPORT, r"\bLOG:  .*\bexited with exit code \d"),
    // Causes.
    (TRACE, r"^\s*(\[?Caused by:|Caused by:|\[cause\]:|Wrapped by:) *\S"),
    (TALLY, r"^Caused by:\s*$"),
    (CAUSE, r"^E {3,}\S"),
    (CAUSE, r"(?i)\bassert(ion)?( `.*`| '.*'| .*)? failed\b"),
    (CAUSE, r"(?i)expected:? ?<.*> but was:? ?<|AssertionFailed|ComparisonFailure"),
    (CAUSE, r"panicked at .*[^:]$"),
    (TALLY, r"panicked at "),
    (CAUSE, r"^(panic|fatal error): \S|^\s+\w+_test\.go:\d+: \S"),
    // Perl.
    (ERROR, r"^\s*#\s+Failed test( '|$)"),
    (ERROR, r"^(# )?(Can't|Cannot|Could not|Undefined|Died|syntax error)\b.* at \S+ line \d+\.?$"),
    (CAUSE, r"^\s*(Assertion|assertion)Error\b|^\s*expect\(.*\)\.\w"),
    (
        HEADING,
        r#"^\s*Exception in thread "|^(\[ERROR\] )?([a-z_]\w*\.)+[A-Z]\w*(Exception|Error)(:|$)"#,
    ),
    (HEADING, r"^(Uncaught |Unhandled )?(\[?[A-Z]\w*(Error|Exception)\b( \[\w+\])?): \S"),
    (HEADING, r"^\s+(Uncaught |Unhandled )?([A-Z]\w*)?(Error|Exception)( \[\w+\])?: \S"),
    (CAUSE, r"^[A-Z]\w*(Error|Exception)$|^terminate called|^\s+what\(\): "),
    // Errors found by tools.
    (
        CAUSE,
        r"^==\d+==\s*ERROR: \w+|^\s*Failed asserting|^\s*Failure/Error: |^\s+expected: \S|^\s*Expected: \S",
    ),
    (
        ERROR,
        r"^\S+:\d+:\d+: runtime error: \S|^ ! \[(remote )?rejected\]|^CONFLICT \(|\b[A-Z]{1,4}\d{3,5} \(error\): \S",
    ),
    (ERROR, r"^\S+?:\d+(:\d+)?: .*\berror ?: \S|\bDepends: .* but |unmet dependencies:"),
    (ERROR, r"^==\d+== Invalid (read|write) of size"),
    (
        ERROR,
        r"^(fatal|failed): \[.+\]: (FAILED|UNREACHABLE)!|(?i)^(\w+ ){0,2}error (near|at|on|in) line \d+",
    ),
    (TALLY, r"^error: (aborting due to|could not compile|test failed|\d+ targets? failed)"),
    (EXIT, r"did not complete successfully: exit code"),
    (ERROR, r"^#\d+ [\d.]+ (ERROR|error|Error): \S|^[a-z][\w.-]*: ERROR: \S"),
    (ERROR, r"^\s*error(\[\w+\])?: \S"),
    (ERROR, r"^\s*\S+?:\d+(:\d+)?: (fatal )?error: \S|^\S+: (fatal )?error[ :] ?\S"),
    // German, which has few letters that are not ASCII. Other languages are in `languages`.
    (ERROR, r"(^|[\s:])([Ff]ehler|Schwerwiegend): \S"),
    (ERROR, r"^\s+(= note: )?(\S*ld|gcc|g\+\+|cc|clang): (fatal )?error: \S"),
    // OpenSSH, ImageMagick, ffmpeg.
    (
        ERROR,
        r"^Permissions \d+ for .* are too open|: bad permissions$|^Bad owner or permissions on ",
    ),
    (ERROR, r"@ (error|fatal)/\w+\.c/\w+/\d+\.?$|: Invalid data found when processing input$"),
    (ERROR, r"\(\d+,\d+\): error |^\s+\d+:\d+\s+error\s|: error TS\d+: |^\S+:\d+:\d+ - error "),
    (ERROR, r"^\[ERROR\] \S+\.\w+:\[\d+,\d+\]"),
    (NO, r"\.go:\d+(:\d+)?: (warning|note)|^\s+\S+\.go:\d+ \+0x"),
    (ERROR, r"^(vet: )?\.{0,2}/?[\w./-]+\.go:\d+:\d+: \S"),
    (ERROR, r"undefined reference to|^fatal: \S|^Error: \S|^ERROR: \S|^Error response from daemon"),
    (ERROR, r"^npm (ERR!|error) (code|errno|[^A].*(not found|rror:|ailed|issing))"),
    (TALLY, r"^npm (ERR!|error)"),
    (ERROR, r"command not found$|: not found$|: (No such file or directory|Permission denied)\b"),
    (
        ERROR,
        r"Segmentation fault|core dumped|\b(signal|by|(terminated|killed|exited|died|crashed|failed) with|---) \(?SIG(SEGV|ABRT|KILL|BUS|ILL|FPE)\b|^Killed|\b\d+ Killed\b|\bOOM ?Killed|\bOut of memory\b|out of memory",
    ),
    (ERROR, r"\b(CrashLoop|ImagePull)BackOff\b|\bErrImagePull\b|Error from server"),
    // Exits.
    (NO, r"(?i)exit(ed)?( with)?( code| status)+:? ?=?0\b"),
    (EXIT, r"(?i)\bexit(ed)?( with)?( error)?( code| status)+[:=]? ?-?[1-9]\d*"),
    (EXIT, r"^g?make(\[\d+\])?: \*\*\* |returned (a )?non-zero|\bexited with -?[1-9]"),
    // Counts of failures.
    (
        TALLY,
        r"\b[1-9]\d*( \w+)? ([Ff]ailed|[Ff]ailures?|[Ff]ailing|[Ee]rrors?|FAILED|FAILURES?|ERRORS)\b([^-=:]|$)",
    ),
    (TALLY, r"(?i)\b(failures?|failed|errors?)[:=] ?[1-9]\d*\b"),
    // Not errors.
    (
        NO,
        r"(?i)\b(0|no|zero|without|without any)( \w+)? (errors?|failures?|failed|failing|exceptions?|panics?)\b",
    ),
    (
        NO,
        r#"(?i)(errors?|failures?|failed|failing|exceptions?|panics?|err|timeouts?)(_?count)?["']?\s*[:=]\s*["']?(0\b|none\b|null\b|nil\b|false\b|no$|""|\[\]|\{\}|,|$)"#,
    ),
    (NO, r"^[a-z0-9_.+-]+$"),
    (NO, r"\.\.\. ?(ok|ignored)$|^\s*(PASS|PASSED|ok)\b|\bPASS(ED)?\b"),
    (
        NO,
        r"^\s*(import|from|use|using|package|require|pub|fn|def|class|return|throw|raise|except|catch|try|const|let|var|if|elif|else|match|case|type|interface|enum|struct|impl|func|public|private|protected|static|export|async|await|assert|self|this|mod)\b[^:]*[;{}(),:]?$",
    ),
    (NO, r"^\s*(raise|throw|return|except|assert|def|fn|import|from|use|#include)\b"),
    (
        NO,
        r"^\s*(//|/\*|\* |#+ |--- a/|\+\+\+ b/)|^\s+at \S|^\s+File |^\s*\d+[:|-]\s.*[;{}]$|^[\w./-]+:\d+:.*[;{}]$",
    ),
    (
        NO,
        r"(?i)\b(warn|warning|debug|info|trace|notice)\b.*\b(retry|retrying|recovered|ignored|ignoring)\b",
    ),
    // Tests by name.
    (
        TALLY,
        r"^\s*--- FAIL: |^_+ ERROR collecting |^ERROR \S+( - |$)|^\s*FAIL(ED)?\b|\bFAIL(ED)?$|\bFAILED\b|\bBUILD FAIL|<<< (FAILURE|ERROR)!|^not ok\b|^\s*\xe2\x97\x8f .* \xe2\x80\xba ",
    ),
    (TALLY, r"^Traceback \(most recent call last\)|^\s*Traceback \(most"),
    // Log levels.
    (
        LOGGED,
        r#"(?i)(^|[^-\w])(level|severity|lvl|loglevel|levelname|log\.level)"?\s*[=:]\s*"?(error|fatal|critical|panic|severe|err|crit|alert|emergency)\b"#,
    ),
    (LOGGED, r#"(?i)^\s*\{.*"status"\s*:\s*"(error|failed|failure|fatal)""#),
    (REPORT, r#"(?i)"status"\s*:\s*"(error|failed|failure|fatal)""#),
    (LOGGED, r"(^|[\s\[<|(:])(ERROR|FATAL|CRITICAL|SEVERE|PANIC|ERR|EXCEPTION)([\s\]>|):!/]|$)"),
    (
        LOGGED,
        r"(^|[\s\]])(\[(error|fatal|crit|critical|alert|emerg)\]|(ERRO|FATA)\[)|\[[\w.:]+:(error|crit|emerg|alert)\]",
    ),
    // Web servers and clients.
    (
        LOGGED,
        r#"\bHTTP(/\d(\.\d)?)?"?:? (error |status |code )*5\d\d\b|(?i)(^|[^`\w])status([_ ]?code)?("?\s*:\s*|=|\s+)"?5\d\d\b"#,
    ),
    // Messages.
    (REPORT, r"\b[A-Z]?\w*(Error|Exception|Failure)\b(: ?[^\s:]|(\(| \[| -) ?\S)"),
    (REPORT, r#""(error|exception|errorMessage|error_message)"\s*:\s*["{\[]?[^\s"]"#),
    (
        REPORT,
        r"(^|[\s\]:])([Ee]rror|[Ff]atal|[Pp]anic|[Ee]xception|[Ff]ailure)(: ?[^\s:]|( -| -+>) ?\S)",
    ),
    (
        REPORT,
        r"(?i)\berror (while|when|during|in|at|on|reading|writing|loading|parsing|connecting|code|occurred|from|executing|processing|opening|creating|running)\b",
    ),
    (REPORT, r"(?i)\ban? (\w+ )?(error|exception) (occurred|was thrown|has occurred)"),
    (
        REPORT,
        r"(^|[\s:\]])([Ff]ailed|[Ff]ailing|FAILED) (to|with|at|because|in|while|on)\b|: failed\b|\bfailed: \S|\bfailed( \(.*\))?$|[Cc]ommand failed",
    ),
    (REPORT, r"(^|: )([Cc]annot|[Cc]an't|[Cc]ould not|[Uu]nable to) \S"),
    (
        REPORT,
        r"(?i)\btimed? ?out\b( after| waiting| exceeded| error| expired| of \d| while| reached|: [a-z]|$|\.(\s|$))",
    ),
    (
        REPORT,
        r"(?i)\b(request|connection|read|write|operation|socket|gateway|lock|query|test|deadline|handshake|idle) time(d )?-?out\b($|[^=_:s]|: \D)",
    ),
    (REPORT, r"(?i)\bconnection (refused|reset)\b|\baccess denied\b|\bpermission denied\b"),
    (REPORT, r"\bUncaught\b|\b[Uu]nhandled\b|\b[Ss]egmentation [Ff]ault\b"),
    (
        REPORT,
        r"\bNo such (file|container|image|host|process|device)\b|\b(file|module|package|host|image|page|resource) not found\b|\bNot[Ff]ound\b",
    ),
    (REPORT, r"^goroutine \d+ \[.*panic|\bpanic(ked)?\b: ?\S"),
    (REPORT, r"\b(CRITICAL|[Cc]ritical) error\b|\bFATAL\b|^make: "),
    (REPORT, r"\bkilled by signal\b|\bKilled process\b|\bKilled$"),
    (REPORT, r"(^|\s)([a-z]\w*\.)+[A-Z]\w*(Exception|Error)\b"),
    // Other lines of test runners.
    (TALLY, r"^\s*(failures|errors|FAILURES|ERRORS):?$|^=+ (FAILURES|ERRORS) =+$"),
];

#[cfg(test)]
mod tests {
    use regex::bytes::RegexSetBuilder;

    use super::*;

    #[test]
    fn one_set_of_all_patterns_finds_the_same() {
        let patterns = RULES.map(|(_, pattern)| pattern);
        let all = RegexSetBuilder::new(patterns).unicode(false).build().unwrap();
        let texts = [
            include_str!("testdata/cargo-test.txt"),
            include_str!("testdata/go-test.txt"),
            include_str!("testdata/java.txt"),
            include_str!("testdata/kubectl.txt"),
            include_str!("testdata/log.txt"),
            include_str!("testdata/names.txt"),
            include_str!("testdata/pytest.txt"),
            include_str!("testdata/rustc.txt"),
            include_str!("rules.rs"),
        ];
        for line in texts.iter().flat_map(|text| text.lines()) {
            let first = all.matches(line.as_bytes()).into_iter().next();
            assert_eq!(SET.first(line.as_bytes()), first, "{line}");
        }
    }
}
