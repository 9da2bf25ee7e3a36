//! The lists of a server: asked for when it is introduced, and again when they have changed. Until
//! the new one is there, the old one holds: a server that does not answer keeps nobody waiting.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::value::RawValue;

use crate::raw_object::{RawObject, elements, quoted};
use crate::server_request;
use crate::upstream::Upstream;

/// The most pages and rows of a list, and the most bytes of them. A server that says more is cut
/// short, and the log says so.
const MOST_PAGES: usize = 1000;
const MOST_ROWS: usize = 20_000;
/// The most templates, of which each is compared with a URI.
const MOST_TEMPLATES: usize = 1000;
const MOST_BYTES: usize = 64 << 20;

/// A kind of list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CatalogKind {
    Tools,
    Prompts,
    Resources,
    Templates,
}

/// A row of a list.
#[derive(Debug, Clone)]
pub(super) struct Row {
    /// Its name, or its URI or template.
    pub(super) key: String,
    /// The row as the server wrote it.
    pub(super) raw: Box<RawValue>,
}

/// The rows of a list, in their order.
pub(super) type Rows = Arc<Vec<Row>>;

/// The lists of a server, as it gave them last.
#[derive(Debug, Default)]
pub(super) struct Catalog {
    lists: Mutex<[Rows; CatalogKind::ALL.len()]>,
    renewals: Mutex<[Renewal; CatalogKind::ALL.len()]>,
}

/// The state of a list that has changed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Renewal {
    #[default]
    Done,
    /// The server is being asked.
    Running,
    /// It has changed again since.
    Due,
}

impl CatalogKind {
    pub(super) const ALL: [Self; 4] =
        [Self::Tools, Self::Prompts, Self::Resources, Self::Templates];
    /// The kinds whose changes are announced; that of templates is one of resources.
    pub(super) const CHANGING: [Self; 3] = [Self::Tools, Self::Prompts, Self::Resources];

    /// Returns the kind that a request lists.
    pub(super) fn of_method(method: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.method() == method)
    }

    fn method(self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Prompts => "prompts/list",
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
        }
    }

    /// Returns the member of the result that has the rows.
    pub(super) fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }

    /// Returns the capability of servers that have it.
    pub(super) fn capability(self) -> &'static str {
        match self {
            Self::Templates => Self::Resources.member(),
            kind => kind.member(),
        }
    }

    /// Returns the notification that a list of this kind has changed.
    pub(super) fn notification(self) -> String {
        format!("notifications/{}/list_changed", self.capability())
    }

    fn most_rows(self) -> usize {
        if self == Self::Templates { MOST_TEMPLATES } else { MOST_ROWS }
    }

    fn key(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
        }
    }
}

impl Catalog {
    /// Returns the rows of a list.
    pub(super) fn rows(&self, kind: CatalogKind) -> Rows {
        Arc::clone(&self.lists.lock()[kind as usize])
    }

    /// Asks a server for a list.
    pub(super) async fn fetch(&self, upstream: &Upstream, kind: CatalogKind) -> Result<(), String> {
        let rows = Arc::new(all(upstream, kind).await?);
        self.lists.lock()[kind as usize] = rows;
        Ok(())
    }

    /// Notes that a list has changed. Returns true if the caller is to ask for it: nobody does.
    pub(super) fn begin_renewal(&self, kind: CatalogKind) -> bool {
        let renewal = &mut self.renewals.lock()[kind as usize];
        let is_free = *renewal == Renewal::Done;
        *renewal = if is_free { Renewal::Running } else { Renewal::Due };
        is_free
    }

    /// Notes that a list was asked for. Returns true if it has changed again meanwhile, and the
    /// caller is to ask once more.
    pub(super) fn end_renewal(&self, kind: CatalogKind) -> bool {
        let renewal = &mut self.renewals.lock()[kind as usize];
        let is_due = *renewal == Renewal::Due;
        *renewal = if is_due { Renewal::Running } else { Renewal::Done };
        is_due
    }
}

/// Asks for all pages of a list. Of rows with one key, the first counts. The list ends with a page
/// that names no other page, or one that was read, or that has rows and none is new.
async fn all(upstream: &Upstream, kind: CatalogKind) -> Result<Vec<Row>, String> {
    let (mut rows, mut bytes, mut cursor) = (Vec::new(), 0, None::<String>);
    let (mut keys, mut cursors) = (HashSet::new(), HashSet::new());
    for _ in 0..MOST_PAGES {
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
            if rows.len() == kind.most_rows() || bytes > MOST_BYTES {
                return Ok(cut(upstream, kind, rows));
            }
            rows.push(Row { key: key.into_owned(), raw: raw.to_owned() });
        }
        let is_new = is_empty || rows.len() > before;
        match page.next_cursor() {
            Some(next) if is_new && cursors.insert(blake3::hash(next.as_bytes())) => {
                cursor = Some(next.into_owned());
            }
            _ => return Ok(rows),
        }
    }
    Ok(cut(upstream, kind, rows))
}

fn cut(upstream: &Upstream, kind: CatalogKind, rows: Vec<Row>) -> Vec<Row> {
    let (name, count) = (&upstream.name, rows.len());
    tracing::warn!("{name}: lists too many {}: only {count} are used", kind.member());
    rows
}
