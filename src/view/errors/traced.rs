//! The step that failed in the output of a tracer: the call whose failure the program then reports,
//! for strace, or the last command, for `set -x`.
//!
//! In such an output, many calls fail as a matter of course: a program looks for a file in several
//! places, and for the translation of the message that it is about to print.

use std::io;

use bstr::ByteSlice as _;

use crate::errors::context::{ContextReader, ErrorContext};
use ctxfs_core::materialize::Pattern;
use ctxfs_core::model::{ErrorLine, ErrorRank, Subject};

// Number of lines at the end of a trace that tell how the program ended.
const END_LINES: usize = 5;
const END_BYTES: u64 = 256;
// Maximum length in bytes of what a program reports.
const REPORT_BYTES: usize = 16 << 10;
// Minimum length in bytes of a name that is recognized in a report.
const MIN_NAME: usize = 3;

/// Returns the line of the step that made a traced program fail. Returns `None` if the output has
/// no trace, or if the program succeeded.
pub(super) fn failed_step(
    subject: &Subject<'_>,
    reader: &mut ContextReader<'_>,
) -> io::Result<Option<ErrorLine>> {
    let (analysis, length) = (subject.analysis, subject.content.len());
    if analysis.bytes != length || length == 0 {
        return Ok(None);
    }
    let has_failed = subject.record.provenance.exit_code.is_some_and(|code| code != 0);
    let end = subject.content.bytes(length.saturating_sub(END_BYTES), END_BYTES as usize)?;
    if !has_failed && !end.contains_str("exit") {
        return Ok(None);
    }
    let (line, offset, rank) = (analysis.lines, length - 1, ErrorRank::Cause);
    let last = ErrorLine { line, offset, length: 1, rank, times: 1, last: None };
    let lines = reader.read(&last)?;
    let found = if from_end(&lines).take(END_LINES).any(|line| FAILED.is_match(line)) {
        failed_call(&lines)
    } else if has_failed {
        last_command(&lines)
    } else {
        None
    };
    Ok(found.map(|distance| {
        let (offset, length) = lines.place_above(distance);
        ErrorLine { line: line - distance as u64, offset, length, ..last }
    }))
}

fn from_end(lines: &ErrorContext) -> impl Iterator<Item = &str> {
    std::iter::once(lines.own()).chain(lines.above())
}

/// Returns the distance from the end of the failed call that fits best what the program printed
/// after it. A call fits if the report has the name that it was given, if the report has the reason
/// why it failed, and if its failure is unusual. Of calls that fit alike, the last one is best.
fn failed_call(lines: &ErrorContext) -> Option<usize> {
    let (mut report, mut best) = (String::new(), None);
    for (distance, line) in from_end(lines).enumerate() {
        if let Some(reason) = CALL.group(line, 1) {
            let name = NAME.group(line, 1).filter(|name| name.len() >= MIN_NAME);
            let is_named = name.is_some_and(|name| report.contains(name));
            let fits = [is_named, report.contains(reason), !USUAL.is_match(line)];
            let fit = fits.into_iter().filter(|fits| *fits).count();
            if best.is_none_or(|(other, _)| fit > other) {
                best = Some((fit, distance));
            }
        } else if (REPORT.is_match(line) || !STEP.is_match(line)) && report.len() < REPORT_BYTES {
            report.push_str(line);
        }
    }
    best.map(|(_, distance)| distance)
}

// Returns the distance from the end of the last command of a shell that prints its commands, if
// the output ends with it.
fn last_command(lines: &ErrorContext) -> Option<usize> {
    let mut ends = from_end(lines).enumerate().skip_while(|(_, line)| EXIT.is_match(line));
    ends.next().filter(|(_, line)| COMMAND.is_match(line)).map(|(distance, _)| distance)
}

static FAILED: Pattern = Pattern::new(r"^(\S+ +)*(exit_group\([1-9]|\+\+\+ exited with [1-9])");
static CALL: Pattern = Pattern::with(" = -1 E", r"\w+\(.* = -1 E\w+ \((.+)\)$");
static NAME: Pattern = Pattern::with("\"", r#""[^"]*?([^"/]+)/*""#);
static USUAL: Pattern = Pattern::with(
    " = -1 E",
    r" = -1 E(NOENT|AGAIN|EXIST|NOTTY|INTR|CHILD|INVAL|SPIPE|NODATA|NOTSUP|NXIO)\b",
);
static REPORT: Pattern = Pattern::with("(2, ", r"\bwritev?\(2, ");
static STEP: Pattern = Pattern::new(r"^(\[pid +\d+\] |[\d:.]+ +)*(\w+\(|\+\+\+ |--- |<\.\.\. )");
static COMMAND: Pattern = Pattern::with("+ ", r"^\++ \S");
static EXIT: Pattern = Pattern::with("+ ", r"^\++ (exit|return)\b");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    fn step(text: &str, exit_code: i32) -> Option<String> {
        let mut fixture = Fixture::analysed(text);
        fixture.record.provenance.exit_code = Some(exit_code);
        let subject = fixture.subject();
        let found = failed_step(&subject, &mut ContextReader::new(subject.content)).unwrap()?;
        let line = text.lines().nth(found.line as usize - 1).unwrap();
        assert!(text[found.offset as usize..].starts_with(line), "{found:?}");
        Some(line.to_owned())
    }

    const LOOKUPS: &str = "access(\"/etc/ld.so.preload\", R_OK) = -1 ENOENT (No such file or directory)\nopenat(AT_FDCWD, \"/etc/ld.so.cache\", O_RDONLY) = 3\n";
    const SETTINGS: &str =
        "openat(AT_FDCWD, \"/etc/shop.toml\", O_RDONLY) = -1 ENOENT (No such file or directory)\n";
    const LOCALE: &str = "openat(AT_FDCWD, \"/usr/share/locale/en/libc.mo\", O_RDONLY) = -1 ENOENT (No such file or directory)\n";
    const END: &str = "exit_group(1) = ?\n+++ exited with 1 +++\n";

    #[test]
    fn the_call_that_a_program_reports_made_it_fail() {
        let refused =
            "connect(3, {sin_port=htons(9)}, 16) = -1 ECONNREFUSED (Connection refused)\n";
        let named = "write(2, \"shop: shop.toml: No such file or\"..., 40) = 40\n";
        let cut = "write(2, \"shop: cannot read its settings: \"..., 56) = 56\n";
        let merged = "write(2, \"shop: no connection: Connecti\"..., 56shop: no connection: Connection refused\n) = 56\n";
        for (text, wanted) in [
            (format!("{LOOKUPS}{SETTINGS}{LOCALE}{named}{END}"), SETTINGS),
            (format!("{LOOKUPS}{SETTINGS}{cut}{END}"), SETTINGS),
            (format!("{LOOKUPS}{SETTINGS}{refused}{LOCALE}{merged}{END}"), refused),
            (format!("{LOOKUPS}{refused}{LOCALE}{cut}{END}"), refused),
        ] {
            assert_eq!(step(&text, 1).as_deref(), Some(wanted.trim_end()), "{text}");
        }
        let success = END.replace('1', "0");
        assert_eq!(step(&format!("{LOOKUPS}{SETTINGS}{success}"), 0), None);
    }

    #[test]
    fn the_last_command_of_a_silent_script_failed() {
        let script = "+ mkdir -p build\n+ cd build\n+ test -f release.tar.gz\n";
        assert_eq!(step(script, 1).as_deref(), Some("+ test -f release.tar.gz"));
        let exits = format!("{script}+ exit 3\n");
        assert_eq!(step(&exits, 3).as_deref(), Some("+ test -f release.tar.gz"));
        assert_eq!(step(script, 0), None);
        assert_eq!(step(&format!("{script}done\n"), 1), None);
    }
}
