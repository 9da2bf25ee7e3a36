//! Parts of a line that do not indicate errors: prefixes from other programs, and file names.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memmem;

use crate::materialize::failure::prefilter;

/// Extensions of the file names that programs print, sorted. The list has no words that follow a
/// dot in error messages, such as `code` in `error.code` and `timeout` in `socket.timeout`.
const EXTENSIONS: [&str; 92] = [
    "a", "bash", "bat", "bc", "bin", "bz2", "c", "cc", "cfg", "cjs", "class", "conf", "cpp", "crt",
    "cs", "css", "csv", "cxx", "dat", "deb", "dll", "ex", "exe", "exs", "gif", "go", "gz", "h",
    "hpp", "hs", "htm", "html", "ico", "ini", "jar", "java", "jpg", "js", "json", "jsonl", "jsx",
    "ko", "kt", "la", "lib", "lock", "log", "lua", "map", "md", "mjs", "ml", "o", "out", "pc",
    "pdf", "php", "pl", "pm", "png", "po", "proto", "ps1", "py", "pyc", "pyi", "rb", "rlib", "rpm",
    "rs", "rst", "scss", "sh", "so", "sql", "svg", "swift", "tar", "tex", "tgz", "tmp", "toml",
    "ts", "tsv", "tsx", "txt", "vue", "xml", "xz", "yaml", "yml", "zip",
];

// Log levels that may stand before the name of a process, with a slash between them.
const LEVELS: [&[u8]; 5] = [b"DEBUG/", b"INFO/", b"WARNING/", b"ERROR/", b"CRITICAL/"];

// `ImageMagick` prints one of these before a position in its source code.
const MAGICK: [&[u8]; 2] = [b"error/", b"fatal/"];

pub(super) fn known_words() -> impl Iterator<Item = &'static str> {
    let levels = LEVELS.iter().chain(&MAGICK).filter_map(|level| str::from_utf8(level).ok());
    EXTENSIONS.into_iter().chain(levels)
}

/// Returns `line` with every letter of a path or a file name replaced by `x`. Digits, punctuation
/// and positions in files are kept.
pub(super) fn blanked(line: &[u8]) -> Cow<'_, [u8]> {
    let mut blanked = Cow::Borrowed(line);
    if memchr::memchr2(b'/', b'.', line).is_none() {
        return blanked;
    }
    for word in words(line) {
        if is_name(&line[word.clone()], line.get(word.end)) {
            let letters =
                blanked.to_mut()[word].iter_mut().filter(|byte| byte.is_ascii_alphabetic());
            letters.for_each(|letter| *letter = b'x');
        }
    }
    blanked
}

fn words(line: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    line.split(|byte| byte.is_ascii_whitespace() || b"\"'`()[]{}<>,;=|:".contains(byte)).map(
        move |word| {
            let start = at;
            at += word.len() + 1;
            start..start + word.len()
        },
    )
}

fn is_name(word: &[u8], next: Option<&u8>) -> bool {
    // The rules recognize messages of Go by `.go:`, so this text is kept.
    let is_place_in_go = word.ends_with(b".go") && next == Some(&b':');
    if is_place_in_go || word.starts_with(b"HTTP/") {
        return false;
    }
    // ImageMagick ends its messages with the level and a position in its source code.
    if MAGICK.iter().any(|level| word.starts_with(level)) && is_magick(word) {
        return false;
    }
    // `INFO/MainProcess` is a level, not a path.
    if LEVELS.iter().any(|level| word.starts_with(level)) {
        return false;
    }
    let mut parts = word.split(|byte| *byte == b'/');
    if word.contains(&b'/') {
        return parts.any(|part| !prefilter::has_fragment(part));
    }
    has_extension(word)
}

// Matches `error/convert.c/ConvertImageCommand/3234.`
fn is_magick(word: &[u8]) -> bool {
    let parts: Vec<&[u8]> = word.strip_suffix(b".").unwrap_or(word).split(|b| *b == b'/').collect();
    parts.len() == 4 && parts[1].ends_with(b".c") && parts[3].iter().all(u8::is_ascii_digit)
}

// Returns true if the word ends with a known extension, or with the version of a library such as
// `.so.1.2`.
fn has_extension(word: &[u8]) -> bool {
    if !word.contains(&b'.') {
        return false;
    }
    let is_number = |part: &&[u8]| part.iter().all(u8::is_ascii_digit);
    let mut parts = word.rsplit(|byte| *byte == b'.').skip_while(is_number);
    let is_known = parts.next().and_then(|last| str::from_utf8(last).ok()).is_some_and(|last| {
        let versioned = !word.ends_with(last.as_bytes());
        if versioned { last == "so" } else { EXTENSIONS.binary_search(&last).is_ok() }
    });
    is_known && parts.next().is_some_and(|stem| !stem.is_empty())
}

// The shape of `2026-11-23T05:22:36`. A `d` stands for a digit.
const TIME: &[u8] = b"dddd-dd-ddTdd:dd:dd";
// The beginning of the last field of a `go test -json` event. The field contains the text.
const OUTPUT: &[u8] = b",\"Output\":\"";

/// Returns the line as the program printed it. Removes three kinds of decoration: the time that a
/// CI runner adds before each line, the JSON event of `go test -json` around a line, and the bars
/// that terraform and Python's exception groups print before errors.
pub fn bare(line: &[u8]) -> &[u8] {
    without_bar(without_event(without_time(line)))
}

// Returns the text of a `go test -json` event. JSON escapes in the text are not decoded.
fn without_event(line: &[u8]) -> &[u8] {
    if !line.starts_with(b"{\"") || memmem::find(line, b"\"Action\":\"").is_none() {
        return line;
    }
    let Some(at) = memmem::find(line, OUTPUT) else { return line };
    let text = &line[at + OUTPUT.len()..];
    let text = text.strip_suffix(b"\"}").unwrap_or(text);
    text.strip_suffix(b"\\n").unwrap_or(text)
}

// Removes the time that GitHub's runner prints. It has seven digits of a second and ends with `Z`.
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
    fn extensions_are_sorted() {
        assert!(EXTENSIONS.is_sorted());
    }

    #[test]
    fn names_are_blanked_and_nothing_else() {
        for (line, expected) in [
            ("src/error.rs:10:5: error: timeout", "xxx/xxxxx.xx:10:5: error: timeout"),
            ("cat: /etc/failed.d: No such file", "cat: /xxx/xxxxxx.x: No such file"),
            ("File \"timeout.py\", line 3", "File \"xxxxxxx.xx\", line 3"),
            ("libgpg-error.so.0.33.1", "xxxxxx-xxxxx.xx.0.33.1"),
            ("errors.cpython-311.pyc", "xxxxxx.xxxxxxx-311.xxx"),
            ("https://example.org/timeout", "https://xxxxxxx.xxx/xxxxxxx"),
            ("error/convert.c", "xxxxx/xxxxxxx.x"),
            ("error/a/b/3", "xxxxx/x/x/3"),
        ] {
            assert_eq!(String::from_utf8_lossy(&blanked(line.as_bytes())), expected);
        }
        for line in [
            "java.lang.TimeoutException: 3",
            "socket.timeout: timed out",
            "zlib.error: Error -3",
            "TypeError/ValueError: no",
            "convert: no images defined @ error/convert.c/ConvertImageCommand/3234.",
            "\"GET / HTTP/1.1\" 500",
            "./cart.go:14:7: undefined: lenght",
            "    cart_test.go:12: want 8",
            "request timed out.",
            "version 1.2.3 failed",
        ] {
            assert_eq!(String::from_utf8_lossy(&blanked(line.as_bytes())), line);
        }
    }

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
