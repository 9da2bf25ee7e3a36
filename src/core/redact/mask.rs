//! The text that replaces a secret, and counts of masks.

use std::collections::BTreeMap;
use std::io;
use std::io::Write;

use memchr::memmem;
use serde::Serialize;

use crate::materialize::escape_length;

// The mask for secrets that are too short for a mask with a name.
const UNNAMED: &str = "[redacted]";
// The mask for secrets that are shorter than [`UNNAMED`].
const SHORTEST: &str = "[redact]";

// Maximum length of a sequence that sets a colour: `ESC[38;2;255;255;255m`, plus one byte.
const COLOUR_BYTES: usize = 20;

// The length of the shortest mask that can be recognized and counted.
pub(super) const LEAST: usize = SHORTEST.len();
const BEGINNING: &[u8] = b"[redact";

/// Returns a mask of the kind `name` with the same length as `secret`. Line ends keep their
/// positions. Colour sequences in the secret are placed after the mask.
///
/// The mask text has no quotes and no backslashes, so a JSON string stays valid.
pub(super) fn mask(name: &str, secret: &[u8]) -> Vec<u8> {
    let (visible, colours) = parted(secret);
    let mut mask = labelled(name, &visible);
    mask.extend(colours);
    mask
}

// Separates the visible bytes of a secret from the sequences that set colours.
fn parted(secret: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (mut visible, mut colours) = (Vec::new(), Vec::new());
    let mut at = 0;
    for escape in memchr::memchr_iter(0x1b, secret) {
        let length = colour_length(&secret[escape..]);
        visible.extend_from_slice(&secret[at..escape]);
        colours.extend_from_slice(&secret[escape..escape + length]);
        at = escape + length;
    }
    visible.extend_from_slice(&secret[at..]);
    (visible, colours)
}

// Returns the length of a colour sequence at the start of `bytes`, or 0 if there is none. Only a
// short sequence of numbers counts as a colour. It cannot contain a secret.
fn colour_length(bytes: &[u8]) -> usize {
    let length = escape_length(bytes);
    let is_colour = bytes.starts_with(b"\x1b[")
        && length <= COLOUR_BYTES
        && bytes[length - 1].is_ascii_alphabetic();
    if is_colour { length } else { 0 }
}

fn labelled(name: &str, secret: &[u8]) -> Vec<u8> {
    let named = label(name);
    let label =
        [named.as_str(), UNNAMED, SHORTEST].into_iter().find(|label| label.len() <= secret.len());
    let mut mask = label.unwrap_or_default().as_bytes().to_vec();
    mask.resize(secret.len(), b'*');
    for (shown, hidden) in mask.iter_mut().zip(secret) {
        if matches!(hidden, b'\n' | b'\r') {
            *shown = *hidden;
        }
    }
    mask
}

fn label(name: &str) -> String {
    format!("[redacted:{name}]")
}

// Maximum length of the part of a mask that contains its name.
const LONGEST: usize = 48;
// Maximum number of names that a notice shows.
const NAMED: usize = 4;
// The name under which masks without a name are counted.
const OTHER: &str = "other";

/// Number of masks of each name in a text, for the notice about redacted secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct MaskCounts(BTreeMap<String, u64>);

impl MaskCounts {
    /// Counts the masks in `text` whose name is one of `names`.
    pub fn of(text: &str, names: &[String]) -> Self {
        let mut counts = Self::default();
        counts.count(text.as_bytes(), text.len(), names);
        counts
    }

    /// Returns true if there are no masks.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns a text such as `3 secrets (aws-key 2, jwt 1)`. It has at most 200 bytes.
    pub fn text(&self) -> String {
        let all: u64 = self.0.values().sum();
        let mut names: Vec<(&String, &u64)> = self.0.iter().collect();
        names.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
        let mut parts: Vec<String> =
            names.iter().take(NAMED).map(|(name, count)| format!("{name} {count}")).collect();
        let rest: u64 = names.iter().skip(NAMED).map(|(_, count)| **count).sum();
        if rest > 0 {
            parts.push(format!("{rest} more"));
        }
        let plural = if all == 1 { "" } else { "s" };
        format!("{all} secret{plural} ({})", parts.join(", "))
    }

    /// Returns the notice `# 3 secrets are redacted (aws-key 2, jwt 1)` with a newline, or `None`
    /// if there are no masks.
    pub fn notice(&self) -> Option<String> {
        let text = self.text();
        let (count, names) = text.split_once(" (")?;
        let verb = if count == "1 secret" { "is" } else { "are" };
        (!self.is_empty()).then(|| format!("# {count} {verb} redacted ({names}\n"))
    }

    /// Returns true for a line that [`notice`](Self::notice) returned.
    pub fn is_notice(line: &str) -> bool {
        let rest = line.strip_prefix("# ").unwrap_or_default();
        let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        rest.starts_with(" secret is redacted (") || rest.starts_with(" secrets are redacted (")
    }

    // Counts the masks that begin in the first `before` bytes.
    fn count(&mut self, bytes: &[u8], before: usize, names: &[String]) {
        for at in memmem::find_iter(bytes, BEGINNING).take_while(|at| *at < before) {
            let rest = &bytes[at + BEGINNING.len()..];
            let name = match rest {
                [b']', ..] | [b'e', b'd', b']', ..] => Some(OTHER),
                [b'e', b'd', b':', rest @ ..] => named(rest, names),
                _ => None,
            };
            if let Some(name) = name {
                *self.0.entry(name.to_owned()).or_default() += 1;
            }
        }
    }
}

fn named<'a>(rest: &[u8], names: &'a [String]) -> Option<&'a str> {
    let end = memchr::memchr(b']', &rest[..rest.len().min(LONGEST)])?;
    names.iter().find(|name| name.as_bytes() == &rest[..end]).map(String::as_str)
}

/// A writer that passes text on and counts the masks in it. A mask may be split across writes.
pub struct MaskCounter<'a, W: Write + ?Sized> {
    out: &'a mut W,
    names: &'a [String],
    // The end of the text so far. It may contain the beginning of a mask.
    held: Vec<u8>,
    counts: MaskCounts,
}

impl<'a, W: Write + ?Sized> MaskCounter<'a, W> {
    /// Returns a writer that passes text to `out` and counts the masks whose name is one of
    /// `names`.
    pub fn new(out: &'a mut W, names: &'a [String]) -> Self {
        Self { out, names, held: Vec::new(), counts: MaskCounts::default() }
    }

    /// Counts the masks in the held bytes and returns all counts.
    pub fn counts(mut self) -> MaskCounts {
        let length = self.held.len();
        self.counts.count(&self.held, length, self.names);
        self.counts
    }
}

impl<W: Write + ?Sized> Write for MaskCounter<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.out.write(bytes)?;
        self.held.extend_from_slice(&bytes[..count]);
        let settled = self.held.len().saturating_sub(LONGEST);
        self.counts.count(&self.held, settled, self.names);
        self.held.drain(..settled);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl<W: Write + ?Sized> std::fmt::Debug for MaskCounter<'_, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MaskCounter").field("counts", &self.counts).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_show_the_label_that_fits() {
        let masked = |secret: &str| String::from_utf8(mask("jwt", secret.as_bytes())).unwrap();
        assert_eq!(masked(&"x".repeat(17)), "[redacted:jwt]***");
        assert_eq!(masked(&"x".repeat(14)), "[redacted:jwt]");
        assert_eq!(masked(&"x".repeat(13)), "[redacted]***");
        assert_eq!(masked(&"x".repeat(9)), "[redact]*");
        assert_eq!(masked("1234567"), "*******");
    }

    #[test]
    fn colours_follow_the_mask() {
        let secret = b"\x1b[31m01234\x1b[1;4m567\x1b[K89abcdef";
        assert_eq!(mask("key", secret), b"[redacted:key]**\x1b[31m\x1b[1;4m\x1b[K");
        let link = b"01234\x1b]8;;x\x07567\x1b[2";
        assert_eq!(mask("key", link), [&b"[redacted:key]"[..], b"****"].concat());
    }

    #[test]
    fn line_ends_stay() {
        let masked = mask("key", b"0123456789abcdef\r\n0123\nx");
        assert_eq!(masked, b"[redacted:key]**\r\n****\n*");
    }

    fn names() -> Vec<String> {
        ["jwt", "aws-key", "a", "b", "c", "d"].map(str::to_owned).to_vec()
    }

    #[test]
    fn masks_are_counted() {
        let text =
            "x [redacted:aws-key]** [redacted:jwt][redacted:aws-key] [redacted:else] [redacted";
        let counts = MaskCounts::of(text, &names());
        assert_eq!(counts.text(), "3 secrets (aws-key 2, jwt 1)");
        let notice = counts.notice().unwrap();
        assert_eq!(notice, "# 3 secrets are redacted (aws-key 2, jwt 1)\n");
        assert!(
            MaskCounts::is_notice(&notice)
                && MaskCounts::is_notice("# 1 secret is redacted (jwt 1)\n")
        );
        assert!(!MaskCounts::is_notice("# 3 of 4 words"));
        let one = MaskCounts::of("[redacted:jwt]", &names());
        assert_eq!(one.notice().unwrap(), "# 1 secret is redacted (jwt 1)\n");
        assert_eq!(
            MaskCounts::of("[redact]* and [redacted]", &names()).text(),
            "2 secrets (other 2)"
        );
        assert_eq!(MaskCounts::of("nothing [red]", &names()).notice(), None);
    }

    #[test]
    fn many_names_are_summed_up() {
        let text = "[redacted:a][redacted:b][redacted:c][redacted:d][redacted:jwt]";
        assert_eq!(MaskCounts::of(text, &names()).text(), "5 secrets (a 1, b 1, c 1, d 1, 1 more)");
    }

    #[test]
    fn counting_does_not_depend_on_where_writing_was_cut() {
        let text = "a [redacted:jwt]*** b [redact]**** c [redacted:aws-key]".repeat(9);
        for step in 1..70 {
            let (mut out, names) = (Vec::new(), names());
            let mut counter = MaskCounter::new(&mut out, &names);
            for piece in text.as_bytes().chunks(step) {
                counter.write_all(piece).unwrap();
            }
            let want = "27 secrets (aws-key 9, jwt 9, other 9)";
            assert_eq!(counter.counts().text(), want, "{step}");
            assert_eq!(out, text.as_bytes());
        }
    }
}
