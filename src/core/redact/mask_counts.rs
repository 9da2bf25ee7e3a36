//! A count of the masks in a text, for the notice that secrets are redacted.

use std::collections::BTreeMap;
use std::io;
use std::io::Write;

use memchr::memmem;
use serde::Serialize;

use crate::redact::mask::BEGINNING;

/// Bytes of the longest mask that shows its name.
const LONGEST: usize = 48;
/// Names that a notice shows.
const NAMED: usize = 4;
/// The name under which masks too short for their name are counted.
const OTHER: &str = "other";

/// The number of masks in a text, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct MaskCounts(BTreeMap<String, u64>);

impl MaskCounts {
    /// Counts the masks in `text` that have one of `names`.
    pub fn of(text: &str, names: &[String]) -> Self {
        let mut counts = Self::default();
        counts.count(text.as_bytes(), text.len(), names);
        counts
    }

    /// Returns true if there are no masks.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns a text such as `3 secrets (aws-key 2, jwt 1)`, of at most 200 bytes.
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

    /// Returns the notice `# 3 secrets are redacted (aws-key 2, jwt 1)` with its newline, if there
    /// are masks.
    pub fn notice(&self) -> Option<String> {
        let text = self.text();
        let (count, names) = text.split_once(" (")?;
        let verb = if count == "1 secret" { "is" } else { "are" };
        (!self.is_empty()).then(|| format!("# {count} {verb} redacted ({names}\n"))
    }

    /// Counts the masks that begin in the first `before` bytes.
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

/// A writer that passes text on and counts the masks in it.
pub struct MaskCounter<'a, W: Write + ?Sized> {
    out: &'a mut W,
    names: &'a [String],
    /// The end of the text so far, in which a mask may begin.
    held: Vec<u8>,
    counts: MaskCounts,
}

impl<'a, W: Write + ?Sized> MaskCounter<'a, W> {
    /// Returns a writer to `out` that counts masks of these `names`.
    pub fn new(out: &'a mut W, names: &'a [String]) -> Self {
        Self { out, names, held: Vec::new(), counts: MaskCounts::default() }
    }

    /// Returns the counts.
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

    fn names() -> Vec<String> {
        ["jwt", "aws-key", "a", "b", "c", "d"].map(str::to_owned).to_vec()
    }

    #[test]
    fn masks_are_counted() {
        let text =
            "x [redacted:aws-key]** [redacted:jwt][redacted:aws-key] [redacted:else] [redacted";
        let counts = MaskCounts::of(text, &names());
        assert_eq!(counts.text(), "3 secrets (aws-key 2, jwt 1)");
        assert_eq!(counts.notice().unwrap(), "# 3 secrets are redacted (aws-key 2, jwt 1)\n");
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
