//! The forms in which programs tell what an error belongs to.

use std::sync::LazyLock;

use regex::Regex;

use crate::view::errors::owner::OwnerRule;
use crate::view::errors::owner::Side;
use crate::view::errors::owner::Side::Above;
use crate::view::errors::owner::Side::Below;

/// A rule with its patterns compiled.
pub(super) struct Compiled {
    pub(super) of: Option<Regex>,
    pub(super) side: Side,
    pub(super) within: usize,
    pub(super) form: Regex,
    pub(super) not: Option<Regex>,
    pub(super) until: Option<Regex>,
}

/// A place in a file: `src/main.rs:3:9`, `Cart.java:[3,9]`, `File "a.py", line 3`.
pub(super) static PLACE: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r#"[\w\])]\.[A-Za-z]\w*(:\d+\b|[:(]\[?\d+[,)])|File ".+", line \d+|\b(at|in|on) \S+ line \d+"#,
    )
});

/// The rules for places, those that tell most first.
pub(super) static PLACES: LazyLock<Vec<Compiled>> = LazyLock::new(|| compiled(&PLACE_RULES));
/// The rules for names.
pub(super) static NAMES: LazyLock<Vec<Compiled>> = LazyLock::new(|| compiled(&NAME_RULES));

/// A stack frame of Node, with the place in its file.
const JS_FRAME: &str =
    r"^\s+at (?:[^()]*\()?((?:file://)?[^()\s:]*[^()\s]*\.[cm]?[jt]sx?:\d+:\d+)\)?$";
/// A line that is neither indented nor part of a stack trace.
const FLUSH: &str = r"^[^\s#|]";

const PLACE_RULES: [OwnerRule; 18] = [
    // rustc.
    rule(Below, 6, r"^\s*--> (\S+:\d+:\d+)").until(r"^\s*$"),
    rule(Above, 2, r"panicked at (\S+:\d+:\d+):$"),
    // vitest.
    rule(Below, 40, r"^\s*\u{276f} (?:.* )?(\S+:\d+:\d+)").until(r"^\u{23af}"),
    // rolldown.
    rule(Below, 6, r"\u{256d}\u{2500}\[ ?(\S+:\d+:\d+)"),
    // terraform.
    rule(Below, 8, r"^\W*(on \S+ line \d+[^:]*)"),
    // pytest: the place below its `E` lines.
    rule(Below, 40, r"^(\S+\.py:\d+): \w+").of(r"^E  ").until(r"^_{3,} "),
    // A Python traceback: its last frame that is no library's.
    rule(Above, 80, r#"^\s*(File ".+", line \d+(?:, in \S+)?)$"#)
        .not(r"/site-packages/|/lib/python|<frozen ")
        .until(r"^\s*Traceback |^[^\s|]"),
    // Java: the first frame that is no library's.
    rule(Below, 60, r"^\s+at (?:\w+/)?(?:[\w$]+\.)*[\w$<>]+\((\w+\.(?:java|kt|scala|groovy):\d+)\)")
        .not(r"\sat (?:\w+/)?(java|javax|jdk|sun|com\.sun|org\.junit|org\.opentest4j|org\.apache\.maven|org\.gradle)\b")
        .until(FLUSH),
    // Node: likewise.
    rule(Below, 40, JS_FRAME).not(r"node_modules|node:|internal/").until(FLUSH),
    // Sanitizers, gdb, valgrind.
    rule(Below, 2, r"^(?:0x\w+ in )?\w+ \(.*\) at (\S+:\d+)$"),
    rule(Below, 40, r"^\s*#\d+ .*(?: at |\s)(\S+\.\w+:\d+)(?::\d+)?\)?$")
        .not(r"/sysdeps/|nptl|libsanitizer|/rustc/|sanitizer_common"),
    rule(Below, 12, r"^==\d+==\s+(?:at|by) 0x\w+: .* \((\S+\.\w+:\d+)\)$"),
    // Go.
    rule(Below, 40, r"^\t(\S+\.go:\d+)"),
    // Ruby, RSpec.
    rule(Below, 30, r"^\s*(?:from |# )?(\S+\.rb:\d+)").not(r"^\s*#? ?/usr/|/gems/"),
    // PHPUnit.
    rule(Below, 8, r"^(\S+\.php:\d+)$").not("/vendor/"),
    // Linkers.
    rule(Below, 4, r"referenced by .*\((\S+\.\w+:\d+)\)"),
    rule(Below, 4, r"referenced by .*?([\w./-]+\.\w+:\d+)"),
    // Perl's test programs.
    rule(Below, 3, r"^#\s+at (\S+ line \d+)"),
];

const NAME_RULES: [OwnerRule; 21] = [
    rule(Above, 3, r"^thread '(.+?)' (?:\(\d+\) )?panicked at").not("^thread 'main'"),
    rule(Above, 400, r"^_{3,} (.+?) _{3,}$").of(r"^E  ").until(r"^=+ .* =+$"),
    rule(Above, 80, r"^((?:FAIL|ERROR): .+)$").until(r"^={20,}$|^Ran \d+ tests"),
    rule(Above, 40, r"^\s*\u{25cf} (.+)$"),
    rule(Above, 4, r"^\s*[\u{2716}\u{2718}] (.+?)(?: [(\[][\d.]+ ?m?s[)\]])?$"),
    rule(Above, 3, r"^ {6,}(\S.*):$").of(r"^ {4,}\S"),
    rule(Above, 30, r"^\s*--- FAIL: (\S+)"),
    rule(Above, 400, r"^(\S.*)$").of(r"^\s+\d+:\d+\s+(error|warning)\s"),
    rule(Above, 60, r"^---- (.+) stdout ----$"),
    rule(Above, 20, r"^(\S+:\d+:\d+): +required from here$"),
    rule(Above, 6, r"^\[ERROR\] (\S+)(?: --)? +Time elapsed")
        .of(r"^[\w.]+(Error|Exception|Failure)"),
    rule(Above, 40, r"^TASK \[(.+)\]").of(r"^\S*(fatal|failed): \["),
    rule(Above, 12, r"^\s*not ok \d+ - (.+)$"),
    rule(Above, 8, r"^#\s+Failed test '(.+)'$"),
    rule(Above, 6, r"^\s*\d+\) (.+)$").not(r"\) (Failure|Error):$").until(r"^$"),
    rule(Above, 12, r"^\s*\d+\) (.+)$").of(r"^\s+expected: |Failure/Error"),
    rule(Above, 5, r"^\s*(\w+(?:::\w+)*#\w+)")
        .of(r"^\s*(Expected|Failed|[A-Z]\w+(Error|Exception)):?"),
    rule(Above, 8, r"^In (\S+ line \d+):$"),
    rule(Above, 1, r"^(?:\[pid +\d+\] )?(\w+\(.*)$").of(r"^--- SIG"),
    rule(Above, 2, r"^depth=\d+ (.+)$").of(r"^verify error"),
    rule(Below, 4, r"STATEMENT:\s+(.+)$").of(r"\b(ERROR|FATAL):"),
];

const fn rule(side: Side, within: usize, form: &'static str) -> OwnerRule {
    OwnerRule { of: None, side, within, form, not: None, until: None }
}

impl OwnerRule {
    const fn of(self, of: &'static str) -> Self {
        Self { of: Some(of), ..self }
    }

    const fn not(self, not: &'static str) -> Self {
        Self { not: Some(not), ..self }
    }

    const fn until(self, until: &'static str) -> Self {
        Self { until: Some(until), ..self }
    }
}

fn compiled(rules: &[OwnerRule]) -> Vec<Compiled> {
    let compile = |rule: &OwnerRule| Compiled {
        of: rule.of.map(regex),
        side: rule.side,
        within: rule.within,
        form: regex(rule.form),
        not: rule.not.map(regex),
        until: rule.until.map(regex),
    };
    rules.iter().map(compile).collect()
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a pattern of this file")
}
