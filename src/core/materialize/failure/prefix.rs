//! The prefixes that other programs put before a program's lines: a runner's time, a box's bars, an
//! event of `go test -json`.

use memchr::memmem;

/// Bytes of `2026-11-23T05:22:36` and what follows it at least: `Z `.
const TIME: &[u8] = b"dddd-dd-ddTdd:dd:dd";
/// The field with the text, the last one.
const OUTPUT: &[u8] = b",\"Output\":\"";

/// Returns the line of the program itself: without the time that a CI runner puts before each line,
/// without the event that `go test -json` makes of it, and without bars at its beginning, as around
/// the errors of terraform and of Python's exception groups.
pub fn bare(line: &[u8]) -> &[u8] {
    without_bar(without_event(without_time(line)))
}

/// Returns what a test printed. What JSON escapes in it stays escaped.
fn without_event(line: &[u8]) -> &[u8] {
    if !line.starts_with(b"{\"") || memmem::find(line, b"\"Action\":\"").is_none() {
        return line;
    }
    let Some(at) = memmem::find(line, OUTPUT) else { return line };
    let text = &line[at + OUTPUT.len()..];
    let text = text.strip_suffix(b"\"}").unwrap_or(text);
    text.strip_suffix(b"\\n").unwrap_or(text)
}

/// Only the form of GitHub's runner: no other program has so many digits of a second and a `Z`.
fn without_time(line: &[u8]) -> &[u8] {
    let shape = |(byte, form): (&u8, &u8)| match form {
        b'd' => byte.is_ascii_digit(),
        form => byte == form,
    };
    if line.len() < TIME.len() || !line.iter().zip(TIME).all(shape) {
        return line;
    }
    let rest = &line[TIME.len()..];
    let fraction = rest.iter().skip(1).take_while(|byte| byte.is_ascii_digit()).count();
    match rest.get(fraction + 1..) {
        Some([b'Z', b' ', bare @ ..]) if rest[0] == b'.' && fraction >= 6 => bare,
        Some([b'Z']) if rest[0] == b'.' && fraction >= 6 => &[],
        _ => line,
    }
}

fn without_bar(line: &[u8]) -> &[u8] {
    let text = line.trim_ascii_start();
    for bar in ["|", "\u{2502}", "\u{2503}"] {
        match text.strip_prefix(bar.as_bytes()) {
            Some([]) => return &[],
            Some([b' ', bare @ ..]) => return bare,
            _ => {}
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_put_before_a_line_is_left_out() {
        for (line, own) in [
            ("2026-11-23T05:22:36.3516230Z KeyError: 'PL'", "KeyError: 'PL'"),
            ("2026-11-23T05:22:36.3516230Z", ""),
            ("2026-11-23T05:22:36Z ERROR x", "2026-11-23T05:22:36Z ERROR x"),
            ("2026-11-23T05:22:36.351Z ERROR x", "2026-11-23T05:22:36.351Z ERROR x"),
            ("  | ValueError: no", "ValueError: no"),
            ("\u{2502} Error: Invalid reference", "Error: Invalid reference"),
            ("  |", ""),
            ("||", "||"),
            ("error: x", "error: x"),
            (
                r#"{"Time":"x","Action":"output","Test":"A","Output":"    a_test.go:3: no \"b\"\n"}"#,
                r#"    a_test.go:3: no \"b\""#,
            ),
            (r#"{"Action":"output","Output":"FAIL\tx\t0.1s\n"}"#, r"FAIL\tx\t0.1s"),
            (r#"{"Action":"fail","Test":"A"}"#, r#"{"Action":"fail","Test":"A"}"#),
            (r#"{"msg":"x","Output":"y"}"#, r#"{"msg":"x","Output":"y"}"#),
        ] {
            assert_eq!(bare(line.as_bytes()), own.as_bytes(), "{line}");
        }
    }
}
