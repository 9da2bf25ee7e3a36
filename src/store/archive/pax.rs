//! The extended headers of members, in the form of pax(1): `<length> <key>=<value>\n`.
//!
//! `tar::PaxExtensions` ends a record at a newline, but the arguments of a call may contain
//! newlines. So records are split by their length here, as the standard says.

use crate::stat::Time;

const BILLION: i128 = 1_000_000_000;

/// Parses the records of an extended header.
pub(super) fn records(mut header: &[u8]) -> Result<Vec<(&str, &[u8])>, Damaged> {
    let mut found = Vec::new();
    while !header.is_empty() {
        let (record, rest) = first(header).ok_or(Damaged)?;
        found.push(record);
        header = rest;
    }
    Ok(found)
}

/// The error of a header that cannot be parsed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Damaged;

/// The key and the value of a record.
type PaxRecord<'a> = (&'a str, &'a [u8]);

fn first(header: &[u8]) -> Option<(PaxRecord<'_>, &[u8])> {
    let blank = memchr::memchr(b' ', header)?;
    let length: usize = std::str::from_utf8(&header[..blank]).ok()?.parse().ok()?;
    let (record, rest) = header.split_at_checked(length)?;
    let record = record.strip_suffix(b"\n")?.get(blank + 1..)?;
    let equals = memchr::memchr(b'=', record)?;
    let key = std::str::from_utf8(&record[..equals]).ok()?;
    Some(((key, &record[equals + 1..]), rest))
}

/// Formats a time as pax does: seconds since the epoch, with a fraction unless that is zero.
pub(super) fn print_time(time: Time) -> String {
    let nanos = i128::from(time.seconds) * BILLION + i128::from(time.nanos);
    let (sign, nanos) = (if nanos < 0 { "-" } else { "" }, nanos.unsigned_abs());
    let (seconds, fraction) = (nanos / BILLION as u128, nanos % BILLION as u128);
    if fraction == 0 {
        return format!("{sign}{seconds}");
    }
    format!("{sign}{seconds}.{fraction:09}").trim_end_matches('0').to_owned()
}

/// Parses a time in the format of [`print_time`].
pub(super) fn parse_time(text: &[u8]) -> Option<Time> {
    let text = std::str::from_utf8(text).ok()?;
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (seconds, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number(seconds) || !is_number(fraction) || fraction.len() > 9 {
        return None;
    }
    let seconds: i64 = seconds.parse().ok()?;
    let fraction: i128 = format!("{fraction:0<9}").parse().ok()?;
    let nanos = i128::from(seconds) * BILLION + fraction;
    let nanos = if negative { -nanos } else { nanos };
    let seconds = i64::try_from(nanos.div_euclid(BILLION)).ok()?;
    Some(Time { seconds, nanos: nanos.rem_euclid(BILLION) as u32 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_may_hold_newlines() {
        let header = b"19 a=two\nlines=yes\n6 b=c\n7 d=\0\n\n";
        let found = records(header).unwrap();
        assert_eq!(found, [("a", &b"two\nlines=yes"[..]), ("b", b"c"), ("d", b"\0\n")]);
    }

    #[test]
    fn damaged_headers_are_seen() {
        for header in [
            &b"x"[..],
            b" a=b\n",
            b"6 a=b",
            b"7 a=b\n",
            b"5 a=b\n",
            b"99 a=b\n",
            b"-1 a=b\n",
            b"0 a=b\n",
            b"1 a=b\n",
            b"6 a b\n",
            b"18446744073709551616 a=b\n",
            b"6 \xff=b\n",
        ] {
            assert_eq!(records(header), Err(Damaged), "{:?}", header.escape_ascii().to_string());
        }
    }

    #[test]
    fn times_come_back() {
        for (seconds, nanos, text) in [
            (0, 0, "0"),
            (1_763_755_200, 250_000_000, "1763755200.25"),
            (1, 1, "1.000000001"),
            (-2, 500_000_000, "-1.5"),
            (-1, 0, "-1"),
        ] {
            let time = Time { seconds, nanos };
            assert_eq!(print_time(time), text);
            assert_eq!(parse_time(text.as_bytes()), Some(time));
        }
        for text in
            ["", "-", "1.", ".5", "1.0000000001", "1e3", "+1", "99999999999999999999", "\u{661}"]
        {
            assert_eq!(parse_time(text.as_bytes()), None, "{text}");
        }
    }
}
