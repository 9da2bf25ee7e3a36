//! Listing the artifacts of the conversation.

use std::cmp::Reverse;

use serde_json::{Value, json};

use crate::context::number;
use crate::shelf::OpenShelf;
use ctxfs_core::model::ContextRef;
use ctxfs_view::context_ref;

/// The rows of an answer, unless its caller says otherwise.
const ROWS: u64 = 50;
/// The most rows of an answer.
const MOST_ROWS: u64 = 200;

/// Returns the references of all artifacts, newest first.
pub(super) fn artifacts(open: &OpenShelf) -> Result<Vec<ContextRef>, String> {
    let (engine, id) = (&open.engine, open.conversation.id());
    let listing = engine.list_artifacts(id, |artifact| {
        let place = engine.options.place(id, &artifact.path);
        let analysis = artifact.record.analysis.as_ref();
        context_ref(&artifact.record, &place, artifact.stat.size, analysis)
    });
    let mut rows = listing.map_err(|error| error.to_string())?.rows;
    rows.sort_by(|one, other| {
        let key = |row: &ContextRef| (Reverse(row.created_at), row.id.clone());
        key(one).cmp(&key(other))
    });
    Ok(rows)
}

/// Returns a page of the listing that `arguments` ask for.
pub(super) fn listed(open: &OpenShelf, arguments: &Value) -> Result<Value, String> {
    let since = number(arguments, "since")?.unwrap_or(0);
    let limit = number(arguments, "limit")?.unwrap_or(ROWS).clamp(1, MOST_ROWS) as usize;
    let kind = arguments["kind"].as_str();
    let after = arguments["cursor"].as_str().map(cursor).transpose()?;
    let mut rows = artifacts(open)?;
    rows.retain(|row| {
        let is_after = after
            .is_none_or(|(time, id)| (Reverse(row.created_at), &*row.id) > (Reverse(time), id));
        is_after && row.created_at >= since as i64 && kind.is_none_or(|kind| row.kind == kind)
    });
    let more = rows.len() > limit;
    rows.truncate(limit);
    let last = rows.last().filter(|_| more);
    let next = last.map(|last| format!("{} {}", last.created_at, last.id));
    let mut page = json!({"artifacts": rows});
    if let Some(next) = next {
        page["next"] = next.into();
    }
    Ok(page)
}

fn cursor(text: &str) -> Result<(i64, &str), String> {
    let parts = text.split_once(' ').and_then(|(time, id)| Some((time.parse().ok()?, id)));
    parts.ok_or_else(|| format!("`{text}` is no cursor of an earlier answer"))
}
