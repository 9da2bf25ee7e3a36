//! Text from outputs, names and messages, made safe to show: it stays text, and what cannot be seen
//! is shown by its code.

use maud::{Markup, PreEscaped, html};

use ctxfs_core::model::visible::is_hidden;

/// Returns `text` as markup, with each hidden character as its code. Tabs and newlines stay.
pub(super) fn text(text: &str) -> Markup {
    let mut markup = String::with_capacity(text.len() + text.len() / 8);
    let mut rest = text;
    while let Some((at, hidden)) = first_hidden(rest) {
        markup.push_str(&escaped(&rest[..at]));
        markup.push_str(&mark(hidden).0);
        rest = &rest[at + hidden.len_utf8()..];
    }
    markup.push_str(&escaped(rest));
    PreEscaped(markup)
}

/// Returns bytes of an output as markup; those that are not UTF-8 as U+FFFD.
pub(super) fn bytes(bytes: &[u8]) -> Markup {
    text(&String::from_utf8_lossy(bytes))
}

/// Returns a hidden character by its code. Control characters have symbols of their own.
fn mark(hidden: char) -> Markup {
    let code = format!("U+{:04X}", u32::from(hidden));
    match hidden {
        '\0'..='\x1f' => {
            let symbol = char::from_u32(0x2400 + u32::from(hidden)).unwrap_or(hidden);
            html! { span.hidden-char title=(code) { (symbol) } }
        }
        '\x7f' => html! { span.hidden-char title=(code) { "\u{2421}" } },
        _ => html! { span.hidden-char { (code) } },
    }
}

fn first_hidden(text: &str) -> Option<(usize, char)> {
    if text.bytes().all(|byte| matches!(byte, b'\t' | b'\n' | b' '..=b'~')) {
        return None;
    }
    let mut before = ' ';
    text.char_indices().find(|(_, c)| {
        let joins = matches!(c, '\u{200d}' | '\u{fe0f}') && !before.is_ascii();
        before = *c;
        is_hidden(*c) && !matches!(c, '\t' | '\n') && !joins
    })
}

fn escaped(text: &str) -> String {
    html! { (text) }.into_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_becomes_markup() {
        let shown = text("<script>alert(1)</script> & \"x\"").into_string();
        assert_eq!(shown, "&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;x&quot;");
    }

    #[test]
    fn what_cannot_be_seen_is_shown() {
        let shown = text("a\u{202e}b\0\x1bc\td").into_string();
        assert!(shown.contains("<span class=\"hidden-char\">U+202E</span>b"), "{shown}");
        assert!(shown.contains("title=\"U+001B\">\u{241b}</span>c\td"), "{shown}");
        assert_eq!(bytes(b"a\xffb").into_string(), "a\u{fffd}b");
        let family = "\u{1f469}\u{200d}\u{1f467} \u{2714}\u{fe0f}";
        assert_eq!(text(family).into_string(), family);
        assert!(text("a\u{200d}b").into_string().contains("U+200D"));
    }
}
