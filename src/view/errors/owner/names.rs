//! The test, file or step that an error belongs to, if another line names it.
//!
//! Programs print it above (the name of a test, the path above a linter's rows) or below (`-->`,
//! stack frames). Each rule knows one form. Frames of libraries are skipped.

use std::sync::LazyLock;

use crate::errors::owner::rule::Side::{Above, Below};
use crate::errors::owner::rule::{OwnerRules, rule};

// The forms in which programs print the name of a test or step.
pub(super) static NAMES: OwnerRules = LazyLock::new(|| {
    vec![
        rule(Above, 3, "panicked at", r"^thread '(.+?)' (?:\(\d+\) )?panicked at")
            .not("^thread 'main'"),
        rule(Above, 400, "___ ", r"^_{3,} (.+?) _{3,}$").of(r"^E  ").until(r"^=+ .* =+$"),
        rule(Above, 80, ": ", r"^((?:FAIL|ERROR): \S+ \(.+)$").until(r"^={20,}$|^Ran \d+ tests"),
        rule(Above, 40, "\u{25cf}", r"^\s*\u{25cf} (.+)$"),
        rule(Above, 4, "\u{2716}", r"^\s*\u{2716} (.+?)(?: [(\[][\d.]+ ?m?s[)\]])?$"),
        rule(Above, 4, "\u{2718}", r"^\s*\u{2718} (.+?)(?: [(\[][\d.]+ ?m?s[)\]])?$"),
        rule(Above, 3, ":", r"^ {6,}(\S.*):$").of(r"^ {4,}\S"),
        rule(Above, 30, "--- FAIL", r"^\s*--- FAIL: (\S+)"),
        rule(Above, 400, "", r"^(\S.*)$").of(r"^\s+\d+:\d+\s+(error|warning)\s"),
        rule(Above, 60, " stdout ---", r"^---- (.+) stdout ----$"),
        rule(Above, 20, "required from", r"^(\S+:\d+:\d+): +required from here$"),
        rule(Above, 6, "Time elapsed", r"^\[ERROR\] (\S+)(?: --)? +Time elapsed")
            .of(r"^[\w.]+(Error|Exception|Failure)"),
        rule(Above, 40, "TASK [", r"^TASK \[(.+)\]").of(r"^\S*(fatal|failed): \["),
        rule(Above, 12, "not ok", r"^\s*not ok \d+ - (.+)$"),
        rule(Above, 8, "Failed test", r"^#\s+Failed test '(.+)'$"),
        rule(Above, 6, ") ", r"^\s*\d+\) (.+)$").not(r"\) (Failure|Error):$").until(r"^$"),
        rule(Above, 12, ") ", r"^\s*\d+\) (.+)$").of(r"^\s+expected: |Failure/Error"),
        rule(Above, 5, "#", r"^\s*(\w+(?:::\w+)*#\w+)")
            .of(r"^\s*(Expected|Failed|[A-Z]\w+(Error|Exception)):?"),
        rule(Above, 8, " line ", r"^In (\S+ line \d+):$"),
        rule(Above, 1, "(", r"^(?:\[pid +\d+\] )?(\w+\(.*)$").of(r"^--- SIG"),
        rule(Above, 2, "depth=", r"^depth=\d+ (.+)$").of(r"^verify error"),
        rule(Below, 4, "STATEMENT:", r"STATEMENT:\s+(.+)$").of(r"\b(ERROR|FATAL):"),
        // The error that has this cause, in Node.
        rule(Above, 60, ": ", r"^\s*(?:\[cause\]: )?(\[?[\w.]*(?:Error|Exception)\b.*)$")
            .of(r"^\s*\[cause\]: "),
        // AVA.
        rule(Above, 12, " in ", r"^\s*(?:Unhandled rejection|Uncaught exception) in (\S+)$"),
        // The unit that the kernel took a process from.
        rule(Below, 4, "systemd", r"systemd\[\d+\]: (\S+\.(?:service|scope|slice)): ")
            .of(r"Out of memory|Killed process|oom-kill"),
        // terraform.
        rule(Below, 4, "with ", r"^\W*with (\S+\.\S+),$").of(r"^\W*Error: "),
        // nbconvert.
        rule(Above, 200, "[NbConvertApp]", r"^\[NbConvertApp\] Converting notebook (\S+)")
            .of(r"^\w+(Error|Exception)\b"),
    ]
});

// Headings that scripts print above their steps, for errors that no other rule knows.
pub(super) static STEPS: OwnerRules = LazyLock::new(|| {
    let heading = r"^(?:# )?(?:={2,3}|-{3}|>{2,3}|\*{3}) ([\w./].{0,80}?)(?: [=*<-]{2,3})?$";
    vec![
        rule(Above, 200, " ", heading)
            .not(r"^=== (RUN|CONT|PAUSE|NAME) |^--- (PASS|FAIL|SKIP): |^--- (a/|before|after|SIG)"),
    ]
});
