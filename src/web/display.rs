//! Formats text, numbers, sizes and times safely and readably.
//!
//! Outputs, names and messages are escaped, so that they are shown as text. Each hidden character
//! is shown as its code.

use jiff::Timestamp;
use maud::{Markup, PreEscaped, html};

/// Returns `text` as markup. Each hidden character is replaced by its code. Tabs and newlines are
/// kept.
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

// Like `text`, for bytes. Invalid UTF-8 becomes U+FFFD.
pub(super) fn bytes(bytes: &[u8]) -> Markup {
    text(&String::from_utf8_lossy(bytes))
}

// Control characters are shown by their own symbols.
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
        ctxfs_core::model::visible::is_hidden(*c) && !matches!(c, '\t' | '\n') && !joins
    })
}

fn escaped(text: &str) -> String {
    html! { (text) }.into_string()
}

// Formats a number such as `412,908`.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

// Formats a number such as `-12,345`.
pub(super) fn signed(number: i64) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", grouped(number.unsigned_abs()))
}

// Formats a count such as `1 line` or `2 lines`.
pub(super) fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(number), if number == 1 { "" } else { "s" })
}

// Formats a count such as `1 match` or `2 matches`.
pub(super) fn matches(number: u64) -> String {
    format!("{} match{}", grouped(number), if number == 1 { "" } else { "es" })
}

// Formats a size such as `403.2 KiB`, with the exact number of bytes as the title.
pub(super) fn size(bytes: u64) -> Markup {
    html! { span title=(counted(bytes, "byte")) { (short_size(bytes)) } }
}

// Formats a size such as `403.2 KiB`.
pub(super) fn short_size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    // A number that would round to 1024 becomes 1 of the next larger unit.
    while size >= 1023.95 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

// Formats a duration such as `340 ms`, `1.2 s` or `3 min 4 s`.
pub(super) fn duration(millis: u64) -> String {
    match millis {
        ..1000 => format!("{millis} ms"),
        1000..60_000 => format!("{:.1} s", millis as f64 / 1000.0),
        60_000..3_600_000 => format!("{} min {} s", millis / 60_000, millis / 1000 % 60),
        _ => format!("{} h {} min", millis / 3_600_000, millis / 60_000 % 60),
    }
}

// Formats a time in milliseconds since the epoch. Returns empty markup if the time is out of range.
pub(super) fn time(millis: i64) -> Markup {
    let Ok(time) = Timestamp::from_millisecond(millis) else { return html! {} };
    html! {
        time datetime=(time.strftime("%Y-%m-%dT%H:%M:%SZ")) {
            (time.strftime("%Y-%m-%d %H:%M:%S"))
        }
    }
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

    #[test]
    fn quantities_are_short() {
        assert_eq!(
            (grouped(0), grouped(999), grouped(1000)),
            ("0".into(), "999".into(), "1,000".into())
        );
        assert_eq!(signed(-1_234_567), "-1,234,567");
        assert_eq!(
            (counted(1, "line"), counted(2000, "line")),
            ("1 line".into(), "2,000 lines".into())
        );
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1_048_575, "1.0 MiB"),
            (10 << 30, "10.0 GiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(short_size(bytes), text);
        }
        for (millis, text) in
            [(5, "5 ms"), (1234, "1.2 s"), (184_000, "3 min 4 s"), (7_500_000, "2 h 5 min")]
        {
            assert_eq!(duration(millis), text);
        }
        let shown = time(1_763_755_200_000).into_string();
        assert_eq!(shown, "<time datetime=\"2025-11-21T20:00:00Z\">2025-11-21 20:00:00</time>");
        assert_eq!(time(i64::MAX).into_string(), "");
    }
}
