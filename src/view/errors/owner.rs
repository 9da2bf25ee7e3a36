//! The test, file or step that an error belongs to, if another line names it.
//!
//! Programs print the owner above the error (the name of a test, the path above a linter's rows) or
//! below it (`-->`, stack frames). Each rule covers one form. Frames in libraries are skipped.

use std::ops::ControlFlow;
use std::sync::LazyLock;

use crate::errors::context::ErrorContext;
use crate::errors::json;
use crate::errors::owner::Side::{Above, Below};
use ctxfs_core::materialize::Pattern;

const OWNER_CHARS: usize = 160;
// Matches a line that is neither indented nor part of a stack trace.
const FLUSH: &str = r"^[^\s#|]";

/// Returns the owner of an error: the name of a test or step, a place in a file, or both. Returns
/// `None` if neither a line nearby nor a field of the line itself names one.
pub(crate) fn owner(lines: &ErrorContext) -> Option<String> {
    let owner = json::line_owner(lines.whole()).or_else(|| owner_nearby(lines))?;
    let text: String = owner.chars().take(OWNER_CHARS).collect();
    (!text.is_empty() && !lines.own().contains(&text)).then_some(text)
}

fn owner_nearby(lines: &ErrorContext) -> Option<String> {
    let place = if PLACE.is_match(lines.own()) { None } else { first_owner(&PLACES, lines) };
    let name = first_owner(&NAMES, lines).or_else(|| first_owner(&STEPS, lines));
    let parts: Vec<&str> = name.into_iter().chain(place).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn first_owner<'l>(rules: &LazyLock<Vec<OwnerRule>>, lines: &'l ErrorContext) -> Option<&'l str> {
    rules.iter().find_map(|rule| rule.apply(lines))
}

// Matches the place of an error: `src/main.rs:3:9`, `Cart.java:[3,9]`, `File "a.py", line 3`.
pub(super) static PLACE: Pattern = Pattern::new(
    r#"[\w\])]\.[A-Za-z]\w*(:\d+\b|[:(]\[?\d+[,)])|File ".+", line \d+|\b(at|in|on) \S+ line \d+"#,
);

/// A form in which a line names the owner of an error near it.
///
/// The first group of `form` is the owner. The rule applies to error lines that match `of`, or to
/// all if there is no `of`. The rule searches up to `within` lines above or below the error. It
/// skips lines that match `not`, and stops at a line that matches `until`.
#[derive(Debug)]
struct OwnerRule {
    of: Option<Pattern>,
    side: Side,
    within: usize,
    form: Pattern,
    not: Option<Pattern>,
    until: Option<Pattern>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Above,
    Below,
}

// Compiled when the first error is classified.
type OwnerRules = LazyLock<Vec<OwnerRule>>;

fn rule(side: Side, within: usize, literal: &'static str, form: &'static str) -> OwnerRule {
    let form = Pattern::with(literal, form);
    OwnerRule { of: None, side, within, form, not: None, until: None }
}

impl OwnerRule {
    fn of(self, of: &'static str) -> Self {
        Self { of: Some(Pattern::new(of)), ..self }
    }

    fn not(self, not: &'static str) -> Self {
        Self { not: Some(Pattern::new(not)), ..self }
    }

    fn until(self, until: &'static str) -> Self {
        Self { until: Some(Pattern::new(until)), ..self }
    }

    // Checks the literal first, so that most errors need no other pattern to be compiled.
    fn apply<'l>(&self, lines: &'l ErrorContext) -> Option<&'l str> {
        let is_above = self.side == Side::Above;
        let may_match = self.form.may_match(lines.text(is_above, self.within));
        let is_for = || self.of.as_ref().is_none_or(|of| of.is_match(lines.own()));
        if !may_match || !is_for() {
            return None;
        }
        if is_above { self.nearest(lines.above()) } else { self.nearest(lines.below()) }
    }

    fn nearest<'l>(&self, lines: impl Iterator<Item = &'l str>) -> Option<&'l str> {
        let matches = |pattern: &Option<Pattern>, line: &str| {
            pattern.as_ref().is_some_and(|pattern| pattern.is_match(line))
        };
        let found = lines.take(self.within).try_for_each(|line| {
            if let Some(found) = self.form.group(line, 1).filter(|_| !matches(&self.not, line)) {
                return ControlFlow::Break(Some(found.trim()));
            }
            let ends = matches(&self.until, line);
            if ends { ControlFlow::Break(None) } else { ControlFlow::Continue(()) }
        });
        found.break_value().flatten()
    }
}

// The forms in which programs print the name of a test or step.
static NAMES: OwnerRules = LazyLock::new(|| {
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
        // Node: the error that has this cause.
        rule(Above, 60, ": ", r"^\s*(?:\[cause\]: )?(\[?[\w.]*(?:Error|Exception)\b.*)$")
            .of(r"^\s*\[cause\]: "),
        // AVA.
        rule(Above, 12, " in ", r"^\s*(?:Unhandled rejection|Uncaught exception) in (\S+)$"),
        // The systemd unit whose process the kernel killed.
        rule(Below, 4, "systemd", r"systemd\[\d+\]: (\S+\.(?:service|scope|slice)): ")
            .of(r"Out of memory|Killed process|oom-kill"),
        // terraform.
        rule(Below, 4, "with ", r"^\W*with (\S+\.\S+),$").of(r"^\W*Error: "),
        // nbconvert.
        rule(Above, 200, "[NbConvertApp]", r"^\[NbConvertApp\] Converting notebook (\S+)")
            .of(r"^\w+(Error|Exception)\b"),
        // The command of a shell that prints its commands.
        rule(Above, 12, "+ ", r"^\+{1,2} ([\w./~'\x22-].*)$").of("^[^+]"),
    ]
});

// Headings that scripts print above their steps, for errors that match no other rule.
static STEPS: OwnerRules = LazyLock::new(|| {
    let heading = r"^(?:# )?(?:={2,3}|-{3}|>{2,3}|\*{3}) ([\w./].{0,80}?)(?: [=*<-]{2,3})?$";
    vec![
        rule(Above, 200, " ", heading)
            .not(r"^=== (RUN|CONT|PAUSE|NAME) |^--- (PASS|FAIL|SKIP): |^--- (a/|before|after|SIG)"),
    ]
});

// Matches a stack frame of Node and captures the place in the file.
const JS_FRAME: &str =
    r"^\s+at (?:[^()]*\()?((?:file://)?[^()\s:]*[^()\s]*\.[cm]?[jt]sx?:\d+:\d+)\)?$";

// The forms in which programs print the place of an error, most precise first.
static PLACES: OwnerRules = LazyLock::new(|| {
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
        // pytest: the place below its `E` lines, and the import above them that failed.
        rule(Above, 5, ".py:", r"^(\S+\.py:\d+): in \S").of(r"^E  "),
        rule(Below, 40, ".py:", r"^(\S+\.py:\d+): \w+").of(r"^E  ").until(r"^_{3,} "),
        // A Python traceback: the last frame outside of libraries that has a file.
        rule(Above, 80, "File \"", r#"^\s*(File ".+", line \d+(?:, in \S+)?)$"#)
            .not(r#"/site-packages/|/lib/python|File "<"#)
            .until(r"^\s*Traceback |^[^\s|]"),
        // The cell of a notebook.
        rule(Above, 40, "Cell In[", r"^(Cell In\[\d+\], line \d+)").of(r"^\w+(Error|Exception)\b"),
        // Java: the first frame outside of libraries.
        rule(
            Below,
            60,
            "\tat ",
            r"^\s+at (?:\w+/)?(?:[\w$]+\.)*[\w$<>]+\((\w+\.(?:java|kt|scala|groovy):\d+)\)",
        )
        .not(r"\sat (?:\w+/)?(java|javax|jdk|sun|com\.sun|org\.junit|org\.opentest4j|org\.apache\.maven|org\.gradle)\b")
        .until(FLUSH),
        // Node: the file that requires a missing module.
        rule(Below, 2, "- ", r"^- (\S*[/\\]\S+)$").of("Cannot find (module|package)"),
        // Node: the first frame outside of libraries.
        rule(Below, 40, " at ", JS_FRAME).not(r"node_modules|node:|internal/").until(FLUSH),
        // AVA and Node: the place of the quoted source line.
        rule(Above, 10, ".", r"^\s*(\S+\.[cm]?[jt]sx?:\d+)$").of(r"^\s*\w*(Error|Exception)\b"),
        rule(Below, 8, "\u{203a} ", r"^\s+\u{203a} (?:.+ \()?(\S+\.[cm]?[jt]sx?:\d+:\d+)\)?$"),
        // Sanitizers, gdb, valgrind.
        rule(Below, 2, ") at ", r"^(?:0x\w+ in )?\w+ \(.*\) at (\S+:\d+)$"),
        rule(Below, 40, "#", r"^\s*#\d+ .*(?: at |\s)(\S+\.\w+:\d+)(?::\d+)?\)?$")
            .not(r"/sysdeps/|nptl|libsanitizer|/rustc/|sanitizer_common"),
        rule(Below, 12, " 0x", r"^==\d+==\s+(?:at|by) 0x\w+: .* \((\S+\.\w+:\d+)\)$"),
        // Go: the first frame outside of Go's own source.
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

#[cfg(test)]
mod tests;
