//! The rank of an error line, judged by the line alone.

use std::sync::LazyLock;

use regex::bytes::RegexSet;
use regex::bytes::RegexSetBuilder;

/// The rank of an error line, most telling first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// The reason for a failure: an innermost cause, a failed assertion, a panic.
    Cause,
    /// An error that a tool found: a compiler's error, a fatal message, a missing file.
    Error,
    /// The exit of the program.
    Exit,
    /// A log line or remark about something that went wrong on the way.
    Report,
    /// Names and counts of failures, headings, progress.
    Tally,
    /// An exception that is explained by another one.
    Outer,
    /// The first line of a stack trace: a cause, unless a deeper cause follows.
    Heading,
    /// A deeper cause in a stack trace: the cause, unless a deeper one follows.
    Trace,
}

impl Rank {
    /// The number of ranks under which lines are kept: all but `Heading` and `Trace`.
    pub(super) const COUNT: usize = 6;

    /// Returns the rank to keep a line under if no deeper cause follows.
    pub(super) fn kept(self) -> Self {
        match self {
            Self::Heading | Self::Trace => Self::Cause,
            other => other,
        }
    }
}

/// Returns the rank of `line`, if it looks like an error.
pub(super) fn rank(line: &[u8]) -> Option<Rank> {
    let first = SET.matches(line).into_iter().next()?;
    RULES[first].0
}

/// The size of a thread's lazy DFA for [`SET`]. Source code mentions errors of every kind, and its
/// states exceed the default of 2 MB: the cache would be cleared all the time.
const AUTOMATON_BYTES: usize = 3 << 20;

static SET: LazyLock<RegexSet> = LazyLock::new(|| {
    let patterns = RULES.map(|(_, pattern)| pattern);
    let set = RegexSetBuilder::new(patterns).unicode(false).dfa_size_limit(AUTOMATON_BYTES).build();
    set.expect("the patterns of this file")
});

/// The rules: the first pattern that matches decides. `None` means that the line is no error.
///
/// Patterns that match only errors come first, then those of lines that are no errors, then words
/// that usually indicate an error. Only lines with one of `prefilter::FRAGMENTS` are matched.
const RULES: [(Option<Rank>, &str); 65] = [
    // A row of `ls -l`, `find -ls` or `tar -tv`.
    (None, r"^\s*(\d+\s+)*[-bcdlps]([r-][w-][xsS-]){2}[r-][w-][xtT-][.+@]?\s"),
    // Causes.
    (Some(Rank::Trace), r"^\s*(\[?Caused by:|Caused by:|\[cause\]:|Wrapped by:) *\S"),
    (Some(Rank::Tally), r"^Caused by:\s*$"),
    (Some(Rank::Cause), r"^E {3,}\S"),
    (Some(Rank::Cause), r"(?i)\bassert(ion)?( `.*`| '.*'| .*)? failed\b"),
    (Some(Rank::Cause), r"(?i)expected:? ?<.*> but was:? ?<|AssertionFailed|ComparisonFailure"),
    (Some(Rank::Cause), r"panicked at .*[^:]$"),
    (Some(Rank::Tally), r"panicked at "),
    (Some(Rank::Cause), r"^(panic|fatal error): \S|^\s+\w+_test\.go:\d+: \S"),
    (Some(Rank::Cause), r"^\s*(Assertion|assertion)Error\b|^\s*expect\(.*\)\.\w"),
    (
        Some(Rank::Heading),
        r#"^Exception in thread "|^(\[ERROR\] )?([a-z_]\w*\.)+[A-Z]\w*(Exception|Error)(:|$)"#,
    ),
    (
        Some(Rank::Heading),
        r"^(Uncaught |Unhandled )?(\[?[A-Z]\w*(Error|Exception)\b( \[\w+\])?): \S",
    ),
    (Some(Rank::Cause), r"^[A-Z]\w*(Error|Exception)$|^terminate called|^\s+what\(\): "),
    // Errors that tools found.
    (
        Some(Rank::Tally),
        r"^error: (aborting due to|could not compile|test failed|\d+ targets? failed)",
    ),
    (Some(Rank::Exit), r"did not complete successfully: exit code"),
    (Some(Rank::Error), r"^#\d+ [\d.]+ (ERROR|error|Error): \S"),
    (Some(Rank::Error), r"^\s*error(\[\w+\])?: \S"),
    (Some(Rank::Error), r"^\S+?:\d+(:\d+)?: (fatal )?error: \S|^\S+: (fatal )?error[ :]\S"),
    (Some(Rank::Error), r"\(\d+,\d+\): error |^\s+\d+:\d+\s+error\s|: error TS\d+: "),
    (Some(Rank::Error), r"^\[ERROR\] \S+\.\w+:\[\d+,\d+\]"),
    (None, r"\.go:\d+(:\d+)?: (warning|note)|^\s+\S+\.go:\d+ \+0x"),
    (Some(Rank::Error), r"^(vet: )?\.{0,2}/?[\w./-]+\.go:\d+:\d+: \S"),
    (
        Some(Rank::Error),
        r"undefined reference to|^fatal: \S|^Error: \S|^ERROR: \S|^Error response from daemon",
    ),
    (Some(Rank::Error), r"^npm (ERR!|error) (code|errno|[^A].*(not found|rror:|ailed|issing))"),
    (Some(Rank::Tally), r"^npm (ERR!|error)"),
    (
        Some(Rank::Error),
        r"command not found$|: not found$|: (No such file or directory|Permission denied)\b",
    ),
    (
        Some(Rank::Error),
        r"Segmentation fault|core dumped|\bSIG(SEGV|ABRT|KILL)\b|^Killed|\b\d+ Killed\b|\bOOM ?Killed|\bOut of memory\b|out of memory",
    ),
    (Some(Rank::Error), r"\b(CrashLoop|ImagePull)BackOff\b|\bErrImagePull\b|Error from server"),
    // Exits.
    (None, r"(?i)exit(ed)?( with)?( code| status)+:? ?=?0\b"),
    (Some(Rank::Exit), r"(?i)\bexit(ed)?( with)?( error)?( code| status)+[:=]? ?-?[1-9]\d*"),
    (Some(Rank::Exit), r"^g?make(\[\d+\])?: \*\*\* |returned (a )?non-zero|\bexited with -?[1-9]"),
    // Counts of failures.
    (Some(Rank::Tally), r"(?i)\b[1-9]\d*( \w+)? (failed|failures?|failing|errors?)\b([^-]|$)"),
    (Some(Rank::Tally), r"(?i)\b(failures?|failed|errors?)[:=] ?[1-9]\d*\b"),
    // Not errors.
    (
        None,
        r"(?i)\b(0|no|zero|without|without any)( \w+)? (errors?|failures?|failed|failing|exceptions?|panics?)\b",
    ),
    (
        None,
        r#"(?i)(errors?|failures?|failed|failing|exceptions?|panics?|err|timeouts?)(_?count)?["']?\s*[:=]\s*["']?(0\b|none\b|null\b|nil\b|false\b|no$|""|\[\]|\{\}|,|$)"#,
    ),
    (None, r"^[a-z0-9_.+-]+$"),
    (None, r"\.\.\. ?(ok|ignored)$|^\s*(PASS|PASSED|ok)\b|\bPASS(ED)?\b"),
    (
        None,
        r"^\s*(import|from|use|using|package|require|pub|fn|def|class|return|throw|raise|except|catch|try|const|let|var|if|elif|else|match|case|type|interface|enum|struct|impl|func|public|private|protected|static|export|async|await|assert|self|this|mod)\b[^:]*[;{}(),:]?$",
    ),
    (None, r"^\s*(raise|throw|return|except|assert|def|fn|import|from|use|#include)\b"),
    (
        None,
        r"^\s*(//|/\*|\* |#+ |--- a/|\+\+\+ b/)|^\s+at \S|^\s+File |^\s*\d+[:|-]\s.*[;{}]$|^[\w./-]+:\d+:.*[;{}]$",
    ),
    (
        None,
        r"(?i)\b(warn|warning|debug|info|trace|notice)\b.*\b(retry|retrying|recovered|ignored|ignoring)\b",
    ),
    // Tests by name.
    (
        Some(Rank::Tally),
        r"^\s*--- FAIL: |^\s*FAIL(ED)?\b|\bFAIL(ED)?$|\bFAILED\b|\bBUILD FAIL|<<< (FAILURE|ERROR)!|^not ok\b|^\s*\xe2\x97\x8f .* \xe2\x80\xba ",
    ),
    (Some(Rank::Tally), r"^Traceback \(most recent call last\)|^\s*Traceback \(most"),
    // Log levels.
    (
        Some(Rank::Report),
        r#"(?i)\b(level|severity|lvl|loglevel|levelname|log\.level)"?\s*[=:]\s*"?(error|fatal|critical|panic|severe|err|crit|alert|emergency)\b"#,
    ),
    (Some(Rank::Report), r#"(?i)"status"\s*:\s*"(error|failed|failure|fatal)""#),
    (
        Some(Rank::Report),
        r"(^|[\s\[<|(:])(ERROR|FATAL|CRITICAL|SEVERE|PANIC|ERR|EXCEPTION)([\s\]>|):!]|$)",
    ),
    (
        Some(Rank::Report),
        r"(^|[\s\]])(\[(error|fatal|crit|critical|alert|emerg)\]|(ERRO|FATA)\[)|\[[\w.:]+:(error|crit|emerg|alert)\]",
    ),
    // Web servers and clients.
    (
        Some(Rank::Report),
        r#"\bHTTP(/\d(\.\d)?)?"?:? (error |status |code )*5\d\d\b|(?i)\bstatus([_ ]?code)?"?\s*[:=]?\s*5\d\d\b"#,
    ),
    // Messages.
    (Some(Rank::Report), r"\b[A-Z]?\w*(Error|Exception|Failure)\b(: ?[^\s:]|(\(| \[| -) ?\S)"),
    (Some(Rank::Report), r#""(error|exception|errorMessage|error_message)"\s*:\s*["{\[]?[^\s"]"#),
    (
        Some(Rank::Report),
        r"(^|[\s\]:])([Ee]rror|[Ff]atal|[Pp]anic|[Ee]xception|[Ff]ailure)(: ?[^\s:]|( -| -+>) ?\S)",
    ),
    (
        Some(Rank::Report),
        r"(?i)\berror (while|when|during|in|at|on|reading|writing|loading|parsing|connecting|code|occurred|from|executing|processing|opening|creating|running)\b",
    ),
    (Some(Rank::Report), r"(?i)\ban? (\w+ )?(error|exception) (occurred|was thrown|has occurred)"),
    (
        Some(Rank::Report),
        r"(^|[\s:\]])([Ff]ailed|[Ff]ailing|FAILED) (to|with|at|because|in|while|on)\b|: failed\b|\bfailed:? \S.*|[Cc]ommand failed",
    ),
    (Some(Rank::Report), r"(^|: )([Cc]annot|[Cc]an't|[Cc]ould not|[Uu]nable to) \S"),
    (
        Some(Rank::Report),
        r"(?i)\btimed? ?out\b( after| waiting| exceeded| error| expired| of \d| while| reached|: [a-z]|$|\.(\s|$))",
    ),
    (
        Some(Rank::Report),
        r"(?i)\b(request|connection|read|write|operation|socket|gateway|lock|query|test|deadline|handshake|idle) time(d )?-?out\b($|[^=_:s]|: \D)",
    ),
    (
        Some(Rank::Report),
        r"(?i)\bconnection (refused|reset)\b|\baccess denied\b|\bpermission denied\b",
    ),
    (Some(Rank::Report), r"\bUncaught\b|\b[Uu]nhandled\b|\b[Ss]egmentation [Ff]ault\b"),
    (
        Some(Rank::Report),
        r"\bNo such (file|container|image|host|process|device)\b|\b(file|module|package|host|image|page|resource) not found\b|\bNot[Ff]ound\b",
    ),
    (Some(Rank::Report), r"^goroutine \d+ \[.*panic|\bpanic(ked)?\b: ?\S"),
    (Some(Rank::Report), r"\b(CRITICAL|[Cc]ritical) error\b|\bFATAL\b|^make: "),
    (Some(Rank::Report), r"\bkilled by signal\b|\bKilled process\b|\bKilled$"),
    (Some(Rank::Report), r"(^|\s)([a-z]\w*\.)+[A-Z]\w*(Exception|Error)\b"),
    // Other lines of test runners.
    (Some(Rank::Tally), r"^\s*(failures|errors|FAILURES|ERRORS):?$|^=+ (FAILURES|ERRORS) =+$"),
];
