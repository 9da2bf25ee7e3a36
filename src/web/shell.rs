//! The frame of every page: head, landmarks and help. Also sortable tables, the pager of long
//! lists, and the embedded style and script.

use std::cmp::Ordering;

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use maud::{DOCTYPE, Markup, html};

use crate::address;
use ctxfs_core::model::visible;

const KEYS: &[(&str, &str)] = &[
    ("/", "search, or filter the list"),
    ("n  N", "next hit, hit before"),
    ("g  G", "beginning, end; at the end of a live output it follows"),
    ("j  k", "line or row down, up"),
    ("e", "next error"),
    ("w", "wrap long lines, or not"),
    ("Enter", "open the row"),
    ("q", "close what is open, or go one page up"),
    ("?", "this help"),
    ("Esc", "leave a field"),
];

pub(super) struct Crumb {
    pub(super) text: Markup,
    pub(super) to: Option<String>,
}

pub(super) fn head(kind: &str, title: &str, trail: &[Crumb]) -> String {
    let page = html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            meta name="referrer" content="no-referrer";
            title { (visible::whole(title)) " - ctxfs" }
            link rel="stylesheet" href=(STYLE.address);
            script src=(SCRIPT.address) defer {}
        }
    };
    let top = html! {
        a.skip href="#main" { "Skip to the content" }
        header.top {
            nav aria-label="Pages" {
                a.home href="/" { "Conversations" }
                " "
                a href="/saved" { "What was saved" }
            }
            @if !trail.is_empty() {
                nav aria-label="Where this is" {
                    ol.trail {
                        @for crumb in trail {
                            li {
                                @match &crumb.to {
                                    Some(to) => a href=(to) { (crumb.text) },
                                    None => span aria-current="page" { (crumb.text) },
                                }
                            }
                        }
                    }
                }
            }
            button #help-button type="button" hidden aria-haspopup="dialog" { "Keys" }
        }
    };
    format!(
        "{}<html lang=\"en\">{}<body data-page=\"{kind}\">{}<main id=\"main\" class=\"{kind}\" tabindex=\"-1\">",
        DOCTYPE.into_string(),
        page.into_string(),
        top.into_string(),
    )
}

pub(super) fn foot() -> String {
    let rest = html! {
        p #status role="status" aria-live="polite" {}
        dialog #help aria-labelledby="help-title" {
            h2 #help-title { "Keys" }
            dl.keys { @for (key, does) in KEYS { dt { kbd { (key) } } dd { (does) } } }
            form method="dialog" { button { "Close" } }
        }
        footer { p { "ctxfs " (env!("CARGO_PKG_VERSION")) ": read-only, on this machine" } }
    };
    format!("</main>{}</body></html>\n", rest.into_string())
}

// Returns a page with only `body`. If `is_in` is false, the page has no links.
pub(super) fn alone(kind: &str, title: &str, is_in: bool, body: &Markup) -> String {
    if is_in {
        return head(kind, title, &[]) + &body.0 + &foot();
    }
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " - ctxfs" }
                link rel="stylesheet" href=(STYLE.address);
            }
            body data-page=(kind) { main #main .(kind) { (body) } }
        }
    };
    page.into_string()
}

pub(super) fn leading_to(address: &str) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="refresh" content={ "0;url=" (address) };
                title { "ctxfs" }
            }
            body { main #main { h1 { "ctxfs" } p { a href=(address) { "Go on to the page" } } } }
        }
    };
    page.into_string()
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) by: String,
    pub(super) descends: bool,
}

/// A column of a table: its name in addresses, its heading, and its default order.
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) descends: bool,
    pub(super) is_number: bool,
}

impl Order {
    // Returns the requested order. An unknown column name selects the default column.
    pub(super) fn requested(columns: &[Column], sort: &str, order: &str, default: &str) -> Self {
        let known = |name: &str| columns.iter().find(|column| column.name == name);
        let column = known(sort).or_else(|| known(default)).unwrap_or(&columns[0]);
        let descends = match order {
            "asc" => false,
            "desc" => true,
            _ => column.descends,
        };
        Self { by: column.name.to_owned(), descends }
    }

    /// Sorts `rows` in this order. `compare` gets two rows and the name of the column.
    pub(super) fn sort<T>(&self, rows: &mut [&T], compare: fn(&T, &T, &str) -> Ordering) {
        rows.sort_by(|a, b| {
            let compared = compare(a, b, &self.by);
            if self.descends { compared.reverse() } else { compared }
        });
    }

    fn name(&self) -> &'static str {
        if self.descends { "desc" } else { "asc" }
    }
}

/// Returns the row of headings. Each heading is a link that sorts by its column. `kept` holds the
/// other query parameters of the page.
pub(super) fn headings(columns: &[Column], order: &Order, kept: &[(&str, &str)]) -> Markup {
    html! {
        tr {
            @for column in columns {
                @let is_it = column.name == order.by;
                @let next = if is_it { !order.descends } else { column.descends };
                @let pairs = [kept, &[("sort", column.name), ("order", if next { "desc" } else { "asc" })]].concat();
                th scope="col" .number[column.is_number]
                    aria-sort=[is_it.then_some(if order.descends { "descending" } else { "ascending" })] {
                    a href=(address::query(&pairs)) { (column.title) }
                }
            }
        }
    }
}

pub(super) fn pager(
    label: &str,
    page: usize,
    pages: usize,
    order: &Order,
    kept: &[(&str, &str)],
) -> Markup {
    let link = |page: usize| {
        let page = page.to_string();
        let own = [("sort", &*order.by), ("order", order.name()), ("page", &*page)];
        address::query(&[kept, &own].concat())
    };
    html! {
        nav.pager aria-label=(label) {
            @if pages > 1 {
                @if page > 1 { a rel="prev" href=(link(page - 1)) { "Previous" } " " }
                span { "page " (page) " of " (pages) }
                @if page < pages { " " a rel="next" href=(link(page + 1)) { "Next" } }
            }
        }
    }
}

/// The style or the script of all pages, embedded in the program. It needs no token, because it
/// reveals nothing.
pub(super) struct Asset {
    pub(super) address: &'static str,
    kind: &'static str,
    pub(super) text: &'static str,
}

pub(super) static ASSETS: [Asset; 2] = [STYLE, SCRIPT];
pub(super) const STYLE: Asset = Asset {
    address: "/static/page.css",
    kind: "text/css; charset=utf-8",
    text: include_str!("page.css"),
};
const SCRIPT: Asset = Asset {
    address: "/static/page.js",
    kind: "text/javascript; charset=utf-8",
    // A single file for all pages and for the worker that tabs share.
    text: concat!(
        include_str!("script/page.js"),
        include_str!("script/events.js"),
        include_str!("script/rows.js"),
        include_str!("script/search.js"),
        include_str!("script/hits.js"),
        include_str!("script/front.js"),
        include_str!("script/conversation.js"),
        include_str!("script/lines.js"),
        include_str!("script/place.js"),
        include_str!("script/growing.js"),
        include_str!("script/tree.js"),
        include_str!("script/keys.js"),
        include_str!("script/start.js"),
    ),
};

impl Asset {
    /// Answers with the text. The browser revalidates its copy on each use, because a different
    /// version of ctxfs may serve this address next time.
    pub(super) fn answer(&self, asked: &HeaderMap) -> Response {
        let Self { kind, text, .. } = *self;
        let tag = format!("\"{}\"", &blake3::hash(text.as_bytes()).to_hex()[..16]);
        let known = asked.get(header::IF_NONE_MATCH).is_some_and(|known| known == tag.as_str());
        let cache = [(header::CACHE_CONTROL, "no-cache".to_owned()), (header::ETAG, tag)];
        if known {
            return (StatusCode::NOT_MODIFIED, cache).into_response();
        }
        (cache, [(header::CONTENT_TYPE, kind)], text).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn style_and_script_are_small_and_from_here() {
        let [style, script] = ASSETS.each_ref().map(|asset| asset.text);
        assert!(style.len() + script.len() < 40_000, "{} + {}", style.len(), script.len());
        for text in [style, script] {
            assert!(!text.contains("http://") && !text.contains("https://"));
            assert!(text.is_ascii());
        }
    }

    const COLUMNS: &[Column] = &[
        Column { name: "name", title: "Name", descends: false, is_number: false },
        Column { name: "size", title: "Size", descends: true, is_number: true },
    ];

    #[test]
    fn unknown_orders_are_the_default() {
        let order = Order::requested(COLUMNS, "evil\"", "sideways", "size");
        assert_eq!(order, Order { by: "size".into(), descends: true });
        let order = Order::requested(COLUMNS, "size", "asc", "name");
        let shown = headings(COLUMNS, &order, &[("q", "a b")]).into_string();
        assert!(shown.contains("href=\"?q=a%20b&amp;sort=size&amp;order=desc\""), "{shown}");
        assert!(shown.contains("aria-sort=\"ascending\""));
        let pages = pager("Pages", 2, 3, &order, &[]).into_string();
        assert!(pages.contains("rel=\"prev\"") && pages.contains("page=3"), "{pages}");
    }
}
