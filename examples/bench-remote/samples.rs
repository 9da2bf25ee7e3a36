//! Outputs to send, made of log lines that do not compress better than lines of real programs.

use std::fmt::Write as _;

/// Bytes of generated lines. Longer outputs repeat them, at a distance that exceeds the window of a
/// compressor.
const BLOCK: usize = 16 << 20;
/// Bytes of a small output.
const SMALL: usize = 20_000;
/// Text that only the last line of a log contains.
pub(crate) const NEEDLE: &str = "needle-7c1f";

const LEVELS: [&str; 8] = ["INFO", "INFO", "INFO", "INFO", "DEBUG", "DEBUG", "WARN", "ERROR"];
const DONE: [&str; 8] = [
    "request served",
    "cache miss, loading from disk",
    "connection accepted",
    "token refreshed for session",
    "retrying after timeout of upstream",
    "queue drained",
    "wrote checkpoint",
    "worker idle",
];

/// Generated lines.
pub(crate) struct Lines(String);

impl Lines {
    pub(crate) fn new() -> Self {
        let mut text = String::with_capacity(BLOCK + 200);
        let mut random = Random(0x2545_f491_4f6c_dd1d);
        while text.len() < BLOCK {
            line(&mut text, &mut random);
        }
        Self(text)
    }

    /// Returns the small output `number`. Outputs of different numbers have different bytes.
    pub(crate) fn small(&self, number: usize) -> &[u8] {
        // A prime, so that outputs start at different positions.
        let start = number * 1_509_949 % (self.0.len() - SMALL);
        &self.0.as_bytes()[start..start + SMALL]
    }

    pub(crate) fn block(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

fn line(text: &mut String, random: &mut Random) {
    let (id, more) = (random.next(), random.next());
    let level = LEVELS[(more % 8) as usize];
    let done = DONE[(more / 8 % 8) as usize];
    let (second, micros) = (more / 64 % 60, more / 4096 % 1_000_000);
    let (worker, took) = (id % 16, id / 16 % 5000);
    writeln!(
        text,
        "2026-01-13T15:30:{second:02}.{micros:06}Z {level} worker-{worker}: {done} \
         id={id:016x} took={took}ms"
    )
    .unwrap();
}

/// Pseudorandom numbers (xorshift64) with a fixed seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
