use std::sync::LazyLock;

use crate::errors::owner::rule::Side::{Above, Below};
use crate::errors::owner::rule::{OwnerRules, rule};

// A stack frame of Node, with the place in its file.
const JS_FRAME: &str =
    r"^\s+at (?:[^()]*\()?((?:file://)?[^()\s:]*[^()\s]*\.[cm]?[jt]sx?:\d+:\d+)\)?$";
// A line that is neither indented nor part of a stack trace.
const FLUSH: &str = r"^[^\s#|]";

// The forms in which programs print the place of an error, the most precise first.
pub(super) static PLACES: OwnerRules = LazyLock::new(|| {
    vec![
        // rustc.
        rule(Below, 6, "--> ", r"^\s*--> (\S+:\d+:\d+)").until(r"^\s*$"),
        rule(Above, 2, "panicked at", r"panicked at (\S+:\d+:\d+):$"),
        // vitest.
        rule(Below, 40, "\u{276f}", r"^\s*\u{276f} (?:.* )?(\S+:\d+:\d+)").until(r"^\u{23af}"),
        // rolldown.
        rule(Below, 6, "\u{256d}", r"\u{256d}\u{2500}\[ ?(\S+:\d+:\d+)"),
        // terraform.
        rule(Below, 8, " line ", r"^\W*(on \S+ line \d+[^:]*)"),
        // pytest: the place below its `E` lines.
        rule(Below, 40, ".py:", r"^(\S+\.py:\d+): \w+").of(r"^E  ").until(r"^_{3,} "),
        // A Python traceback: its last frame that is no library's and has a file.
        rule(Above, 80, "File \"", r#"^\s*(File ".+", line \d+(?:, in \S+)?)$"#)
            .not(r#"/site-packages/|/lib/python|File "<"#)
            .until(r"^\s*Traceback |^[^\s|]"),
        // The cell of a notebook.
        rule(Above, 40, "Cell In[", r"^(Cell In\[\d+\], line \d+)").of(r"^\w+(Error|Exception)\b"),
        // Java: the first frame that is no library's.
        rule(
            Below,
            60,
            "\tat ",
            r"^\s+at (?:\w+/)?(?:[\w$]+\.)*[\w$<>]+\((\w+\.(?:java|kt|scala|groovy):\d+)\)",
        )
        .not(r"\sat (?:\w+/)?(java|javax|jdk|sun|com\.sun|org\.junit|org\.opentest4j|org\.apache\.maven|org\.gradle)\b")
        .until(FLUSH),
        // Node: likewise.
        rule(Below, 40, " at ", JS_FRAME).not(r"node_modules|node:|internal/").until(FLUSH),
        // AVA and Node: the line of the source that they quote.
        rule(Above, 10, ".", r"^\s*(\S+\.[cm]?[jt]sx?:\d+)$").of(r"^\s*\w*(Error|Exception)\b"),
        rule(Below, 8, "\u{203a} ", r"^\s+\u{203a} (?:.+ \()?(\S+\.[cm]?[jt]sx?:\d+:\d+)\)?$"),
        // Sanitizers, gdb, valgrind.
        rule(Below, 2, ") at ", r"^(?:0x\w+ in )?\w+ \(.*\) at (\S+:\d+)$"),
        rule(Below, 40, "#", r"^\s*#\d+ .*(?: at |\s)(\S+\.\w+:\d+)(?::\d+)?\)?$")
            .not(r"/sysdeps/|nptl|libsanitizer|/rustc/|sanitizer_common"),
        rule(Below, 12, " 0x", r"^==\d+==\s+(?:at|by) 0x\w+: .* \((\S+\.\w+:\d+)\)$"),
        // Go: the first frame that is not of Go itself.
        rule(Below, 40, ".go:", r"^\t(\S+\.go:\d+)").not(r"/go(-[\d.]+)?/src/"),
        // Ruby, RSpec.
        rule(Below, 30, ".rb:", r"^\s*(?:from |# )?(\S+\.rb:\d+)").not(r"^\s*#? ?/usr/|/gems/"),
        // PHPUnit.
        rule(Below, 8, ".php:", r"^(\S+\.php:\d+)$").not("/vendor/"),
        // Linkers.
        rule(Below, 4, "referenced by", r"referenced by .*\((\S+\.\w+:\d+)\)"),
        rule(Below, 4, "referenced by", r"referenced by .*?([\w./-]+\.\w+:\d+)"),
        // Perl's test programs.
        rule(Below, 3, " line ", r"^#\s+at (\S+ line \d+)"),
    ]
});
