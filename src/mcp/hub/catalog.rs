//! What a server lists: asked for once, and again after it has changed.

use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering;

use serde_json::value::RawValue;
use tokio::sync::Mutex;

use crate::mcp::hub::server_request;
use crate::mcp::raw_object::RawObject;
use crate::mcp::raw_object::elements;
use crate::mcp::raw_object::quoted;
use crate::mcp::upstream::Upstream;

/// The most pages and rows of a list, and the most bytes of them. A server that says more is cut
/// short, and the log says so.
const MOST_PAGES: usize = 1000;
const MOST_ROWS: usize = 20_000;
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

/// The lists of a server, as far as they are known.
#[derive(Debug, Default)]
pub(super) struct Catalog {
    lists: [Mutex<Option<Rows>>; CatalogKind::ALL.len()],
    /// A bit for each list that has changed since it was asked for.
    changed: AtomicU8,
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

    fn key(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
        }
    }
}

impl Catalog {
    /// Forgets the lists that a notification is about.
    pub(super) fn forget(&self, notification: &str) {
        for kind in CatalogKind::ALL {
            if notification == format!("notifications/{}/list_changed", kind.capability()) {
                self.changed.fetch_or(1 << kind as u8, Ordering::Relaxed);
            }
        }
    }

    /// Forgets all lists, as the server has ended.
    pub(super) fn forget_all(&self) {
        self.changed.store(u8::MAX, Ordering::Relaxed);
    }

    /// Returns the rows of a list, which the server is asked for if they are not known.
    pub(super) async fn rows(
        &self,
        upstream: &Upstream,
        kind: CatalogKind,
    ) -> Result<Rows, String> {
        let mut known = self.lists[kind as usize].lock().await;
        let bit = 1 << kind as u8;
        let changed = self.changed.fetch_and(!bit, Ordering::Relaxed) & bit != 0;
        if let Some(rows) = known.as_ref().filter(|_| !changed) {
            return Ok(Arc::clone(rows));
        }
        *known = None;
        let rows = Arc::new(all(upstream, kind).await?);
        Ok(Arc::clone(known.insert(rows)))
    }
}

/// Asks for all pages of a list.
async fn all(upstream: &Upstream, kind: CatalogKind) -> Result<Vec<Row>, String> {
    let (mut rows, mut bytes, mut cursor) = (Vec::new(), 0, None::<String>);
    for _ in 0..MOST_PAGES {
        let parameters = match &cursor {
            Some(cursor) => format!("{{\"cursor\":{}}}", quoted(cursor)),
            None => "{}".to_owned(),
        };
        let result = server_request::result(upstream, kind.method(), &parameters).await?;
        let page = RawObject::parse(&result).unwrap_or_default();
        let listed = page.get(kind.member()).and_then(elements).unwrap_or_default();
        for raw in listed {
            let Some(key) = RawObject::parse(raw).and_then(|row| row.text(kind.key())) else {
                continue;
            };
            bytes += raw.get().len();
            if rows.len() == MOST_ROWS || bytes > MOST_BYTES {
                return Ok(cut(upstream, kind, rows));
            }
            rows.push(Row { key: key.into_owned(), raw: raw.to_owned() });
        }
        let next = page.text("nextCursor").map(std::borrow::Cow::into_owned);
        if next.is_none() || next == cursor {
            return Ok(rows);
        }
        cursor = next;
    }
    Ok(cut(upstream, kind, rows))
}

fn cut(upstream: &Upstream, kind: CatalogKind, rows: Vec<Row>) -> Vec<Row> {
    let (name, count) = (&upstream.name, rows.len());
    tracing::warn!("{name}: lists too many {}: only {count} are used", kind.member());
    rows
}
