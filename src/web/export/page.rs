//! What the pages of an export have in common.

use maud::{DOCTYPE, html};

use ctxfs_core::model::visible;

/// Nothing but the style and the images beside it.
const POLICY: &str =
    "default-src 'none'; style-src 'self' file:; img-src 'self' file:; base-uri 'none'";

/// Returns the beginning of a page. `up` leads from it to the style: nothing, or `../`.
pub(super) fn head(title: &str, up: &str) -> String {
    let page = html! {
        head {
            meta charset="utf-8";
            meta http-equiv="Content-Security-Policy" content=(POLICY);
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (visible::whole(title)) " - ctxfs" }
            link rel="stylesheet" href={ (up) "page.css" };
        }
    };
    let trail = html! {
        @if !up.is_empty() {
            header.top { nav aria-label="Pages" { a href={ (up) "index.html" } { "The conversation" } } }
        }
    };
    format!(
        "{}<html lang=\"en\">{}<body data-page=\"export\">{}<main id=\"main\">",
        DOCTYPE.into_string(),
        page.into_string(),
        trail.into_string()
    )
}

/// Returns the end of a page.
pub(super) fn foot() -> String {
    let footer = html! { footer { p { "exported by ctxfs " (env!("CARGO_PKG_VERSION")) } } };
    format!("</main>{}</body></html>\n", footer.into_string())
}
