//! The lines that tell a model, when its conversation goes on, which outputs are stored.

use std::cmp::Reverse;

use ctxfs_core::model::Component;
use ctxfs_engine::{Engine, EngineError, ListedArtifact};
use ctxfs_view::Title;

/// The most bytes of all lines.
const MOST: usize = 1536;
/// The bytes kept free for the last line.
const LAST: usize = 40;

/// An output, in the order in which outputs are told: the newest first.
struct Pointer {
    created: i64,
    line: String,
}

/// Returns the lines about the outputs of the conversation `id`: the newest that fit. `None` if it
/// has no outputs.
pub(super) fn of(engine: &Engine, id: &Component) -> Result<Option<String>, EngineError> {
    let listing = engine.list_artifacts(id, |artifact| pointer(engine, id, artifact))?;
    let mut rows = listing.rows;
    if rows.is_empty() {
        return Ok(None);
    }
    rows.sort_by_key(|row| Reverse(row.created));
    let mut text =
        "[ctxfs] Outputs of earlier calls of this conversation are stored whole. Read them \
         instead of running the calls again; each has a `.summary` beside it. The newest first:\n"
            .to_owned();
    let mut told = 0;
    for row in &rows {
        if text.len() + row.line.len() > MOST - LAST {
            break;
        }
        text.push_str(&row.line);
        told += 1;
    }
    let last = match rows.len() - told {
        0 => String::new(),
        rest => format!("and {rest} more beside them\n"),
    };
    Ok(Some(text + &last))
}

fn pointer(engine: &Engine, id: &Component, artifact: &ListedArtifact) -> Pointer {
    let ListedArtifact { path, stat, record } = artifact;
    let file = engine.options.place(id, path).file();
    let title = Title::of(&record.provenance).map(|title| title.to_string());
    let parts = [
        title.or_else(|| record.provenance.tool_name()),
        record.provenance.exit_code.map(|code| format!("exit {code}")),
        Some(format!("{} bytes", stat.size)),
        record.incomplete().map(|_| "INCOMPLETE".to_owned()),
        Some(file),
    ];
    let line = parts.into_iter().flatten().collect::<Vec<String>>().join("  ");
    let line = line.replace(char::is_control, " ") + "\n";
    Pointer { created: record.created, line }
}
