//! Numbers, sizes, durations and times as people read them.

use jiff::Timestamp;
use maud::{Markup, html};

/// Returns `412,908`.
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

/// Returns `-12,345`.
pub(super) fn signed(number: i64) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", grouped(number.unsigned_abs()))
}

/// Returns `1 line`, `2 lines`.
pub(super) fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// Returns `1 match`, `2 matches`.
pub(super) fn matches(number: u64) -> String {
    format!("{} match{}", grouped(number), if number == 1 { "" } else { "es" })
}

/// Returns a size with the exact number of bytes as its title: `403.2 KiB`.
pub(super) fn size(bytes: u64) -> Markup {
    html! { span title=(counted(bytes, "byte")) { (short_size(bytes)) } }
}

/// Returns `403.2 KiB`.
pub(super) fn short_size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut size = bytes as f64 / 1024.0;
    let mut unit = 0;
    // What would be rounded to 1024 of a unit is one of the next.
    while size >= 1023.95 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {}", UNITS[unit])
}

/// Returns `340 ms`, `1.2 s`, `3 min 4 s`.
pub(super) fn duration(millis: u64) -> String {
    match millis {
        ..1000 => format!("{millis} ms"),
        1000..60_000 => format!("{:.1} s", millis as f64 / 1000.0),
        60_000..3_600_000 => format!("{} min {} s", millis / 60_000, millis / 1000 % 60),
        _ => format!("{} h {} min", millis / 3_600_000, millis / 60_000 % 60),
    }
}

/// Returns a time given in milliseconds since the epoch; nothing for one that no clock shows.
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
