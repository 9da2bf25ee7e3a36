//! The style and the script, which are in the binary.

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};

/// The style.
pub(super) const STYLE: &str = include_str!("page.css");
/// The script, of all pages and of the worker that tabs share: one file to a browser.
pub(super) const SCRIPT: &str = concat!(
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
/// Their addresses.
pub(super) const STYLE_ADDRESS: &str = "/static/page.css";
pub(super) const SCRIPT_ADDRESS: &str = "/static/page.js";

/// Returns true for the address of one of them, which needs no token: they tell nothing.
pub(super) fn is_asset(path: &str) -> bool {
    path == STYLE_ADDRESS || path == SCRIPT_ADDRESS
}

/// Answers with the style.
pub(super) fn style(asked: &HeaderMap) -> Response {
    answer(asked, "text/css; charset=utf-8", STYLE)
}

/// Answers with the script.
pub(super) fn script(asked: &HeaderMap) -> Response {
    answer(asked, "text/javascript; charset=utf-8", SCRIPT)
}

/// A browser asks each time whether it has changed, as another version of ctxfs may be at this
/// address the next time.
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
