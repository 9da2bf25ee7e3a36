//! The frame of every page: head, landmarks and help, and the embedded style and script.

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use maud::{DOCTYPE, Markup, html};

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
            link rel="stylesheet" href=(STYLE_ADDRESS);
            script src=(SCRIPT_ADDRESS) defer {}
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
                link rel="stylesheet" href=(STYLE_ADDRESS);
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

pub(super) const STYLE: &str = include_str!("page.css");
// A single file for all pages and for the worker that tabs share.
const SCRIPT: &str = concat!(
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
);
pub(super) const STYLE_ADDRESS: &str = "/static/page.css";
pub(super) const SCRIPT_ADDRESS: &str = "/static/page.js";

// Style and script need no token, because they reveal nothing.
pub(super) fn is_asset(path: &str) -> bool {
    path == STYLE_ADDRESS || path == SCRIPT_ADDRESS
}

pub(super) fn style(asked: &HeaderMap) -> Response {
    answer(asked, "text/css; charset=utf-8", STYLE)
}

pub(super) fn script(asked: &HeaderMap) -> Response {
    answer(asked, "text/javascript; charset=utf-8", SCRIPT)
}

/// Answers with a style or script. The browser revalidates it on each use, because a different
/// version of ctxfs may serve this address next time.
fn answer(asked: &HeaderMap, kind: &'static str, text: &'static str) -> Response {
    let tag = format!("\"{}\"", &blake3::hash(text.as_bytes()).to_hex()[..16]);
    let known = asked.get(header::IF_NONE_MATCH).is_some_and(|known| known == tag.as_str());
    let cache = [(header::CACHE_CONTROL, "no-cache".to_owned()), (header::ETAG, tag)];
    if known {
        return (StatusCode::NOT_MODIFIED, cache).into_response();
    }
    (cache, [(header::CONTENT_TYPE, kind)], text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn style_and_script_are_small_and_from_here() {
        assert!(STYLE.len() + SCRIPT.len() < 40_000, "{} + {}", STYLE.len(), SCRIPT.len());
        for text in [STYLE, SCRIPT] {
            assert!(!text.contains("http://") && !text.contains("https://"));
            assert!(text.is_ascii());
        }
    }
}
