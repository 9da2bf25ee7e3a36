//! The lists of a server, fetched at its introduction and after each change. The old list is used
//! until the new one has arrived, so a slow server does not delay the others.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::value::RawValue;

use crate::lists::ListKind;
use crate::raw_object::{RawObject, elements, quoted};
use crate::server_request;
use crate::upstream::Upstream;

// Limits of a list. A longer list is truncated, and a warning is logged.
const MAX_PAGES: usize = 1000;
const MAX_ROWS: usize = 20_000;
// The limit for templates is lower, because a URI is compared with every template.
const MAX_TEMPLATES: usize = 1000;
const MAX_BYTES: usize = 64 << 20;

#[derive(Debug, Clone)]
pub(crate) struct CatalogRow {
    pub(crate) key: String,
    pub(crate) raw: Box<RawValue>,
}

pub(crate) type Rows = Arc<Vec<CatalogRow>>;

/// The most recently fetched lists of a server. Fetching does not lock them: readers see the
/// previous list until the new one is complete.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    lists: Mutex<[Rows; ListKind::ALL.len()]>,
    renewals: Mutex<[Renewal; ListKind::ALL.len()]>,
}

/// The progress of fetching a changed list. `Due` means that the list changed again during the
/// fetch, so the fetched list may be outdated.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Renewal {
    #[default]
    Done,
    Running,
    Due,
}

impl Catalog {
    pub(crate) fn rows(&self, kind: ListKind) -> Rows {
        Arc::clone(&self.lists.lock()[kind as usize])
    }

    pub(crate) async fn fetch(&self, upstream: &Upstream, kind: ListKind) -> Result<(), String> {
        let rows = Arc::new(all(upstream, kind).await?);
        self.lists.lock()[kind as usize] = rows;
        Ok(())
    }

    /// Records that a list changed. Returns true if the caller must fetch it, and false if a fetch
    /// is already running.
    pub(crate) fn begin_renewal(&self, kind: ListKind) -> bool {
        let renewal = &mut self.renewals.lock()[kind as usize];
        let is_free = *renewal == Renewal::Done;
        *renewal = if is_free { Renewal::Running } else { Renewal::Due };
        is_free
    }

    /// Records that a list was fetched. Returns true if the list changed during the fetch and the
    /// caller must fetch it again.
    pub(crate) fn end_renewal(&self, kind: ListKind) -> bool {
        let renewal = &mut self.renewals.lock()[kind as usize];
        let is_due = *renewal == Renewal::Due;
        *renewal = if is_due { Renewal::Running } else { Renewal::Done };
        is_due
    }
}

/// Fetches all pages of a list. If several rows have the same key, only the first is kept. Fetching
/// stops at a page that names no next page. It also stops if the next page was already read, or if
/// a page has rows but no new ones.
async fn all(upstream: &Upstream, kind: ListKind) -> Result<Vec<CatalogRow>, String> {
    let (mut rows, mut bytes, mut cursor) = (Vec::new(), 0, None::<String>);
    let (mut keys, mut cursors) = (HashSet::new(), HashSet::new());
    let most_rows = if kind == ListKind::Templates { MAX_TEMPLATES } else { MAX_ROWS };
    for _ in 0..MAX_PAGES {
        let parameters = match &cursor {
            Some(cursor) => format!("{{\"cursor\":{}}}", quoted(cursor)),
            None => "{}".to_owned(),
        };
        let result = server_request::result(upstream, kind.method(), &parameters).await?;
        let page = RawObject::parse(&result).unwrap_or_default();
        let listed = page.get(kind.member()).and_then(elements).unwrap_or_default();
        let (before, is_empty) = (rows.len(), listed.is_empty());
        for raw in listed {
            let Some(key) = RawObject::parse(raw).and_then(|row| row.text(kind.key())) else {
                continue;
            };
            if !keys.insert(blake3::hash(key.as_bytes())) {
                continue;
            }
            bytes += raw.get().len();
            if rows.len() == most_rows || bytes > MAX_BYTES {
                return Ok(cut(upstream, kind, rows));
            }
            rows.push(CatalogRow { key: key.into_owned(), raw: raw.to_owned() });
        }
        let is_new = is_empty || rows.len() > before;
        match page.text("nextCursor") {
            Some(next)
                if is_new && !next.is_empty() && cursors.insert(blake3::hash(next.as_bytes())) =>
            {
                cursor = Some(next.into_owned());
            }
            _ => return Ok(rows),
        }
    }
    Ok(cut(upstream, kind, rows))
}

fn cut(upstream: &Upstream, kind: ListKind, rows: Vec<CatalogRow>) -> Vec<CatalogRow> {
    let (name, count) = (&upstream.name, rows.len());
    tracing::warn!("{name}: lists too many {}: only {count} are used", kind.member());
    rows
}
