use crate::find::candidate::LineStart;
use crate::find::passage::SourceLine;

// The most lines of a passage.
pub(super) const MOST: usize = 7;
// A longer paragraph is a log.
const PARAGRAPH: usize = 24;

/// The lines around a line, the anchor, and those that belong to it by indentation or as a
/// paragraph.
pub(super) struct Around<'t> {
    pub(super) lines: Vec<SourceLine<'t>>,
    pub(super) anchor: usize,
}

impl<'t> Around<'t> {
    /// Splits `bytes`, in which the line at `start` begins at `anchor`, into whole lines.
    pub(super) fn split(
        bytes: &'t [u8],
        anchor: usize,
        from: u64,
        start: LineStart,
        ends: bool,
    ) -> Self {
        let mut lines = Vec::new();
        let mut at = match memchr::memchr(b'\n', &bytes[..anchor]) {
            Some(newline) if from > 0 => newline + 1,
            _ if from > 0 => anchor,
            _ => 0,
        };
        let newlines = memchr::memchr_iter(b'\n', &bytes[at..anchor]).count() as u64;
        let mut line = start.line.saturating_sub(newlines);
        let mut place = 0;
        while at < bytes.len() {
            let newline = memchr::memchr(b'\n', &bytes[at..]);
            if newline.is_none() && !ends && at != anchor {
                break;
            }
            if at == anchor {
                place = lines.len();
            }
            let end = newline.map_or(bytes.len(), |newline| at + newline);
            let whole = newline.is_some() || ends;
            let (offset, text) = (from + at as u64, &bytes[at..end]);
            lines.push(SourceLine { line, offset, column: 0, text, ends: whole });
            line += 1;
            at = end + 1;
        }
        Self { lines, anchor: place }
    }

    pub(super) fn text(&self, at: usize) -> &'t [u8] {
        let text = self.lines[at].text;
        text.strip_suffix(b"\r").unwrap_or(text)
    }

    pub(super) fn is_blank(&self, at: usize) -> bool {
        self.text(at).iter().all(u8::is_ascii_whitespace)
    }

    pub(super) fn indent(&self, at: usize) -> usize {
        self.text(at).iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()
    }

    /// Returns the line that a detail belongs to, and the one that this belongs to, outermost last.
    pub(super) fn head(&self) -> Vec<usize> {
        let mut heads = Vec::new();
        let mut indent = self.indent(self.anchor);
        for at in (0..self.anchor).rev().take(3 * MOST) {
            if self.is_blank(at) || indent == 0 || heads.len() == 2 {
                break;
            }
            if self.indent(at) < indent {
                indent = self.indent(at);
                heads.push(at);
            }
        }
        heads
    }

    // The lines below that are indented more.
    pub(super) fn details(&self) -> Vec<usize> {
        let indent = self.indent(self.anchor);
        let below = self.anchor + 1..self.lines.len();
        below.take_while(|at| !self.is_blank(*at) && self.indent(*at) > indent).take(MOST).collect()
    }

    /// Returns the lines of the paragraph, those near the anchor first.
    pub(super) fn paragraph(&self) -> Vec<usize> {
        let blank = |at: &usize| self.is_blank(*at);
        let first = (0..self.anchor).rev().find(blank).map_or(0, |at| at + 1);
        let after = self.anchor + 1..self.lines.len();
        let last = after.clone().find(blank).unwrap_or(self.lines.len());
        if last - first > PARAGRAPH {
            return Vec::new();
        }
        let mut lines: Vec<usize> = (first..last).collect();
        // What follows tells more than what is before.
        lines.sort_by_key(|at| {
            let below = *at > self.anchor;
            2 * at.abs_diff(self.anchor) + usize::from(!below)
        });
        lines
    }
}
