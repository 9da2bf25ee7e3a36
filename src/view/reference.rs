//! `.ref.json` and `manifest.json`: references to artifacts for a model to remember.

use std::io;
use std::io::Write;

use crate::number::counted;
use crate::{ClosedCounts, RenderError, Rendered, Title, clean, kind};
use ctxfs_core::model::{Analysis, ContextRef, Place, Record, Subject};

// Maximum number of characters in a hint.
const HINT_CHARS: usize = 300;

/// Returns the reference to an artifact of `size` bytes. The hint is built from facts in `analysis`
/// only.
pub fn context_ref(
    record: &Record,
    place: &Place,
    size: u64,
    analysis: Option<&Analysis>,
) -> ContextRef {
    let mime = record.provenance.mime.clone().or_else(|| analysis.map(|found| found.mime.clone()));
    ContextRef {
        id: place.reference(),
        kind: kind_of(place.path()).to_owned(),
        mime_type: mime,
        byte_size: Some(size),
        created_at: record.created,
        hint: clean::cleaned(&hint(record, size, analysis), HINT_CHARS),
    }
}

pub(super) fn render(subject: &Subject<'_>, out: &mut dyn Write) -> Result<Rendered, RenderError> {
    let size = subject.size();
    let reference = context_ref(subject.record, subject.place, size, Some(subject.analysis));
    serde_json::to_writer(&mut *out, &reference).map_err(io::Error::from)?;
    out.write_all(b"\n")?;
    Ok(Rendered { notice: None, whole: subject.analysis.bytes == subject.content.len() })
}

/// Writes references in the given order as a JSON array, one on each line. Stops at the first
/// error.
pub fn manifest<E: From<io::Error>>(
    references: impl Iterator<Item = Result<ContextRef, E>>,
    out: &mut dyn Write,
) -> Result<(), E> {
    out.write_all(b"[")?;
    let mut before = "\n";
    for reference in references {
        out.write_all(before.as_bytes())?;
        serde_json::to_writer(&mut *out, &reference?).map_err(io::Error::from)?;
        before = ",\n";
    }
    Ok(out.write_all(if before == "\n" { b"]\n" } else { b"\n]\n" })?)
}

/// Returns a reference that represents everything in `conversation` that the reader has no
/// permission to read. Returns `None` if there is nothing of that kind.
pub fn ref_to_closed(conversation: &str, closed: ClosedCounts) -> Option<ContextRef> {
    let hint = format!("{}, and not listed", closed.text()?);
    Some(ref_to_unlisted(format!("ctx://{conversation}"), "closed", &hint))
}

/// Returns a reference that represents a place in `conversation` that could not be read.
pub fn ref_to_unread(conversation: &str, path: &str, why: &str) -> ContextRef {
    let hint = format!("could not be read, and is not listed: {why}");
    ref_to_unlisted(format!("ctx://{conversation}/{path}"), "unread", &hint)
}

fn ref_to_unlisted(id: String, kind: &str, hint: &str) -> ContextRef {
    ContextRef {
        id,
        kind: kind.to_owned(),
        mime_type: None,
        byte_size: None,
        created_at: 0,
        hint: clean::cleaned(hint, HINT_CHARS),
    }
}

fn kind_of(path: &str) -> &'static str {
    match path.split('/').next() {
        Some("history") => "history",
        Some("catalog") => "catalog",
        _ => "artifact",
    }
}

/// Returns how a call ended: `exit 101, 3 errors, incomplete`. Empty if nothing is known. The errors
/// are the lines of its output that look like errors, according to `analysis`.
pub fn outcome(record: &Record, analysis: Option<&Analysis>) -> String {
    let errors = analysis.map_or(0, |found| found.errors.count);
    let parts = [
        record.provenance.exit_code.map(|code| format!("exit {code}")),
        (errors > 0).then(|| counted(errors, "error")),
        record.incomplete().map(|_| "incomplete".to_owned()),
    ];
    parts.into_iter().flatten().collect::<Vec<String>>().join(", ")
}

// Formats a hint: `cargo test (shell/exec 9f3k): 412,908 bytes of text, 8,112 lines, exit 101, 3
// errors`. Without a title it begins with `shell/exec 9f3k: ...`.
fn hint(record: &Record, size: u64, analysis: Option<&Analysis>) -> String {
    let tool = record.provenance.tool_name().map(|tool| format!("{tool} ")).unwrap_or_default();
    let call = format!("{tool}{}", record.call());
    let name = match Title::of(&record.provenance) {
        Some(title) => format!("{title} ({call})"),
        None => call,
    };
    let of = analysis.map(|found| format!(" of {}", kind::brief(found))).unwrap_or_default();
    let counted_lines = analysis.filter(|found| !found.is_binary() && found.bytes == size);
    let parts = [
        Some(format!("{name}: {}{of}", counted(size, "byte"))),
        counted_lines.map(|found| counted(found.lines, "line")),
        Some(outcome(record, analysis)).filter(|outcome| !outcome.is_empty()),
    ];
    parts.into_iter().flatten().collect::<Vec<String>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::View;
    use crate::fixture::Fixture;
    use ctxfs_core::model::{ArtifactState, Provenance};

    fn example() -> Fixture {
        let provenance = Provenance {
            tool: Some("exec".to_owned()),
            server: Some("shell".to_owned()),
            exit_code: Some(0),
            ..Provenance::default()
        };
        Fixture::new("x".repeat(396_685) + "\n" + &"y\n".repeat(8_111)).provenance(provenance)
    }

    #[test]
    fn a_reference_is_one_line() {
        let want = "{\"id\":\"ctx://c7/artifacts/tool/9f3k.txt\",\"kind\":\"artifact\",\
                    \"mimeType\":\"text/plain\",\"byteSize\":412908,\"createdAt\":1763755200000,\
                    \"hint\":\"shell/exec 9f3k: 412,908 bytes of text, 8,112 lines, exit 0\"}\n";
        assert_eq!(example().text(&View::Ref), want);
    }

    #[test]
    fn a_hint_begins_with_the_command() {
        let mut fixture = example();
        let mut hint = |args: &str| {
            fixture.record.provenance.args = Some(args.to_owned());
            context_ref(&fixture.record, &fixture.place, 412_908, Some(&fixture.analysis)).hint
        };
        let rest = "(shell/exec 9f3k): 412,908 bytes of text, 8,112 lines, exit 0";
        assert_eq!(hint(r#"{"command": ["make", "all"]}"#), format!("make all {rest}"));
        assert_eq!(hint(r#"{"path": "src/a.rs"}"#), format!("path src/a.rs {rest}"));
    }

    #[test]
    fn a_hint_counts_the_errors_of_a_failure() {
        let mut fixture = Fixture::new("one\nERROR: no such table\nERROR: no such table\n");
        fixture.record.provenance.exit_code = Some(101);
        fixture.analysis.errors.count = 2;
        let hint = hint(&fixture.record, 46, Some(&fixture.analysis));
        assert_eq!(hint, "9f3k: 46 bytes of text, 3 lines, exit 101, 2 errors");
    }

    #[test]
    fn hints_leave_out_what_is_not_known() {
        let mut fixture = Fixture::new(b"\0".to_vec());
        fixture.at("artifacts/terminal/s1.log");
        fixture.record.state = ArtifactState::Incomplete("no room".to_owned());
        let hint = |fixture: &Fixture| hint(&fixture.record, 1, Some(&fixture.analysis));
        assert_eq!(hint(&fixture), "s1: 1 byte of application/octet-stream, incomplete");
        fixture.record.provenance.call = Some("c\n1".to_owned());
        let reference = context_ref(&fixture.record, &fixture.place, 1, None);
        assert_eq!(reference.hint, "c\u{240a}1: 1 byte, incomplete");
        assert_eq!(reference.mime_type, None);
    }

    #[test]
    fn a_manifest_is_valid_json() {
        let written = |fixtures: &[Fixture]| {
            let mut out = Vec::new();
            let references =
                fixtures.iter().map(|one| Ok(context_ref(&one.record, &one.place, 1, None)));
            manifest::<io::Error>(references, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written(&[]), "[]\n");
        let mut other = example();
        other.at("history/messages.jsonl");
        let text = written(&[example(), other]);
        let parsed: Vec<ContextRef> = serde_json::from_str(&text).unwrap();
        assert_eq!(parsed.len(), 2);
        assert_eq!(parsed[1].kind, "history");
        assert_eq!(text.lines().count(), 4);
        let unread = ref_to_unread("c7", "artifacts/x", "Permission denied");
        assert_eq!((&*unread.id, &*unread.kind), ("ctx://c7/artifacts/x", "unread"));
        assert_eq!(ref_to_closed("c7", ClosedCounts::default()), None);
    }
}
