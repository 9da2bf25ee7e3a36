//! A hash of a line that ignores texts that differ from run to run: times, durations, addresses, and
//! the names of temporary files.

use std::hash::{DefaultHasher, Hasher as _};
use std::sync::LazyLock;

use regex::bytes::{Regex, RegexBuilder};

use ctxfs_core::materialize::strip_escapes;

const ESCAPE: u8 = 0x1b;
// Stands for an ignored text in a hash.
const IGNORED: &[u8] = b"\0";

/// Returns a hash that is equal for lines that differ only in what [`VOLATILE`] matches, and in
/// terminal escapes. The hash is the same within a process.
pub(super) fn alike(line: &[u8]) -> u64 {
    if memchr::memchr(ESCAPE, line).is_some() {
        return plain(&strip_escapes(line));
    }
    plain(line)
}

fn plain(line: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut end = 0;
    let may_match =
        line.iter().any(u8::is_ascii_digit) || memchr::memmem::find(line, b"tmp").is_some();
    if may_match {
        for found in VOLATILE.find_iter(line) {
            hasher.write(&line[end..found.start()]);
            hasher.write(IGNORED);
            end = found.end();
        }
    }
    hasher.write(&line[end..]);
    hasher.finish()
}

/// Returns a hash as [`alike`] does, which also ignores the line numbers in the places of errors.
/// These change with each edit above the place.
pub(super) fn alike_elsewhere(line: &str) -> u64 {
    plain(&LINE_NUMBERS.replace_all(line.as_bytes(), b""))
}

static LINE_NUMBERS: LazyLock<Regex> = LazyLock::new(|| {
    compiled(&[r":\d+(:\d+)?\b", r"\bline \d+", r"\(\d+,\d+\)", r"\[\d+,\d+\]", r"^\s*\d+:\d+\s"])
});

static VOLATILE: LazyLock<Regex> = LazyLock::new(|| {
    compiled(&[
        // Times.
        r"\b\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d([.,]\d+)?)?( ?(Z\b|[+-]\d\d:?\d\d\b))?)?",
        r"\b\d{4}/\d\d/\d\d\b",
        r"\b((Mon|Tue|Wed|Thu|Fri|Sat|Sun),? )?(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ \d]?\d\b( \d\d:\d\d:\d\d)?( [A-Z]{3,4})?( \d{4}\b)?",
        r"\b\d\d[ /](Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[ /]\d{4}\b",
        r"\b\d{1,2}:\d\d:\d\d([.,]\d+)?\b( ?[AP]M\b)?",
        r"\b1[5-9]\d{8}(\d{3}|\d{6}|\d{9})?(\.\d+)?\b",
        // Durations.
        r"\b(\d+ ?h(ours?)? )?(\d+ ?m(in|inutes?)? ?)?\d[\d,]*(\.\d+)? ?(ns|us|\xc2\xb5s|\xce\xbcs|ms|s|secs?|seconds?|mins?|minutes?|hours?)\b",
        // Addresses: in memory, of objects, and with a port that the system chose.
        r"\b0x[0-9a-fA-F]{9,16}\b|\w@[0-9a-f]{5,8}\b",
        r"(\b127\.0\.0\.1|\blocalhost|\b0\.0\.0\.0|\[::1?\]):(32[7-9]\d\d|3[3-9]\d{3}|[45]\d{4}|6[0-5]\d{3})\b",
        // Processes and threads.
        r"\b[Pp][Ii][Dd][ =:]+\d+\b|==\d+==|\w\[\d+\]: |' \(\d+\) panicked at",
        // Temporary files, and files that a build names by a hash.
        r"/tmp/[^\s/'\x22`:,;()\[\]<>]+|/var/folders/[^\s/]+/[^\s/]+/T/[^\s/'\x22`:,;()\[\]<>]+",
        r"\bpytest-\d+\b|\btmp[._-]?[A-Za-z0-9_]{6,12}\b|-[0-9a-f]{16}\b",
    ])
});

fn compiled(patterns: &[&str]) -> Regex {
    let built = RegexBuilder::new(&patterns.join("|")).unicode(false).build();
    built.expect("patterns of the source")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_run_to_run_is_ignored() {
        for [one, other] in [
            ["test result: ok. finished in 0.00s", "test result: ok. finished in 12.31s"],
            ["--- FAIL: TestA (0.00s)", "--- FAIL: TestA (1.25s)"],
            ["took 1m 20s", "took 59.1s"],
            ["in 3 ms", "in 1,204 \u{b5}s"],
            ["2026-11-30T03:10:49.123Z up", "2026-12-01 00:00:00,1 +0100 up"],
            ["Nov 30 03:10:49 box sshd[12]: x", "Dec  1 11:59:00 box sshd[4077]: x"],
            ["at 1763755200.5", "at 1763755201"],
            ["<Foo object at 0x7f3a12345678>", "<Foo object at 0x7ffe00000000>"],
            ["java.lang.Object@1b2c3d4e", "java.lang.Object@7a81197d"],
            ["listening on 127.0.0.1:43121", "listening on 127.0.0.1:50987"],
            ["thread 'a' (4012) panicked at x.rs:1:2:", "thread 'a' (77) panicked at x.rs:1:2:"],
            ["open /tmp/a1b2/x.c: no", "open /tmp/.tmpZq3/x.c: no"],
            ["(target/debug/deps/a-0123456789abcdef)", "(target/debug/deps/a-fedcba9876543210)"],
            ["\x1b[31mred\x1b[0m", "red"],
        ] {
            assert_eq!(alike(one.as_bytes()), alike(other.as_bytes()), "{one}, {other}");
        }
    }

    #[test]
    fn everything_else_counts() {
        for [one, other] in [
            ["3 passed", "4 passed"],
            ["expected 4, got 5", "expected 4, got 6"],
            ["error 0x80070005", "error 0x80070006"],
            ["port 8080", "port 8081"],
            ["listening on 127.0.0.1:8080", "listening on 127.0.0.1:8081"],
            ["src/main.rs:12:5: error", "src/main.rs:14:5: error"],
            ["-Xmx512m", "-Xmx256m"],
            ["HEAD is now at 9fceb02", "HEAD is now at 1b2c3d4"],
            ["version 1.2.3", "version 1.2.4"],
            ["test_1 failed", "test_2 failed"],
            ["a", "a "],
        ] {
            assert_ne!(alike(one.as_bytes()), alike(other.as_bytes()), "{one}, {other}");
        }
    }

    #[test]
    fn a_place_may_have_moved() {
        let moved = |line: &str| alike_elsewhere(line);
        assert_eq!(moved("a.rs:12:5: error: x"), moved("a.rs:14:5: error: x"));
        assert_eq!(moved("File \"a.py\", line 3"), moved("File \"a.py\", line 40"));
        assert_ne!(moved("a.rs:12:5: error: x"), moved("b.rs:12:5: error: x"));
        assert_ne!(moved("left: 4"), moved("left: 5"));
    }
}
