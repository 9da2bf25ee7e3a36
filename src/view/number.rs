//! Formatting of numbers for readers.

use std::time::Duration;

// Formats `8112` as `8,112`.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

// Formats a count: `8,112 lines`, `1 line`.
pub(super) fn counted(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {what}{plural}", grouped(number))
}

// Rounds to three significant digits, because more digits would suggest a precision that an
// estimate does not have.
pub(super) fn rounded(number: u64) -> u64 {
    let mut unit = 1;
    while number / unit >= 1000 {
        unit *= 10;
    }
    number.saturating_add(unit / 2) / unit * unit
}

// Formats two sizes in the unit that suits the whole: `3.1 of 10.4 GB`.
pub(super) fn portion(part: u64, whole: u64) -> String {
    let (unit, name) = match whole {
        0..1_000 => return format!("{part} of {}", counted(whole, "byte")),
        1_000..1_000_000 => (1_000, "kB"),
        1_000_000..1_000_000_000 => (1_000_000, "MB"),
        _ => (1_000_000_000, "GB"),
    };
    let scaled = |number: u64| format!("{}.{}", grouped(number / unit), number % unit * 10 / unit);
    format!("{} of {} {name}", scaled(part), scaled(whole))
}

/// Formats an age in the largest unit that fits: `4m`.
pub fn age(age: Duration) -> String {
    let seconds = age.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_one_unit() {
        let ages = [0, 59, 60, 7200, 90000].map(|seconds| age(Duration::from_secs(seconds)));
        assert_eq!(ages, ["0s", "59s", "1m", "2h", "1d"]);
    }

    #[test]
    fn thousands_are_separated() {
        let cases = [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")];
        for (number, text) in cases {
            assert_eq!(grouped(number), text);
        }
        assert_eq!(grouped(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn one_is_not_plural() {
        assert_eq!(counted(1, "line"), "1 line");
        assert_eq!(counted(0, "line"), "0 lines");
    }

    #[test]
    fn estimates_have_three_digits() {
        let cases = [(0, 0), (999, 999), (1234, 1230), (103_160, 103_000), (528_360, 528_000)];
        for (number, round) in cases {
            assert_eq!(rounded(number), round);
        }
    }

    #[test]
    fn portions_share_a_unit() {
        assert_eq!(portion(3_190_000_000, 10_400_000_000), "3.1 of 10.4 GB");
        assert_eq!(portion(5, 10), "5 of 10 bytes");
        assert_eq!(portion(0, 2_000_000), "0.0 of 2.0 MB");
    }
}
