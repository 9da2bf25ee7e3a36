//! The reply of `.find`: as many of the best passages as are worth reading, and the lines above
//! them.

use std::collections::{HashMap, HashSet};

use crate::find::notice;
use crate::find::passage::{Passage, ShownLine};
use crate::position::TextPosition;
use ctxfs_core::model::Limits;

// After this many bytes, only passages follow that are as good as the best.
const USUAL: usize = 1500;
// Per cent of the best score that a passage must reach, and after the usual size.
const FALLS: u64 = 50;
const FALLS_LATE: u64 = 97;
// The most passages, and the most that differ only in numbers.
const MOST: usize = 8;
const ALIKE: usize = 3;

/// A passage to show. `name` is that of its artifact if there are many, else empty; `header` is
/// that of a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct FromArtifact<'p> {
    pub(super) passage: &'p Passage,
    pub(super) name: &'p [u8],
    pub(super) header: Option<&'p ShownLine>,
}

/// The text of a reply, with the number of passages in it and the first line that is shown in part.
#[derive(Debug, Default)]
pub(super) struct Reply {
    pub(super) text: Vec<u8>,
    pub(super) shown: usize,
    pub(super) windowed: Option<Windowed>,
}

#[derive(Debug)]
pub(super) struct Windowed {
    name: String,
    at: TextPosition,
}

impl Windowed {
    /// Returns the notice that explains the number of the line.
    pub(super) fn notice(&self) -> String {
        let TextPosition { line, column } = self.at;
        let name = &self.name;
        format!("some lines are long: {name}{line}@{column} is line {line} at byte column {column}")
    }
}

/// Returns the most bytes of a reply, with all its notices except for the one on redaction.
pub(super) fn most(redacts: bool) -> usize {
    Limits::STAND_IN_BYTES - if redacts { ctxfs_core::model::REDACTION_BYTES } else { 0 }
}

impl Reply {
    /// Makes the reply of at most `room` bytes from `passages`, best first.
    pub(super) fn of<'p>(passages: impl Iterator<Item = FromArtifact<'p>>, room: usize) -> Self {
        let mut reply = Self::default();
        let mut best = None;
        let mut alike: HashMap<(u64, u64), usize> = HashMap::new();
        let mut headers: Vec<&[u8]> = Vec::new();
        let mut seen: HashSet<Vec<&[u8]>> = HashSet::new();
        for next in passages {
            let best = *best.get_or_insert(next.passage.score);
            let falls = if reply.text.len() < USUAL { FALLS } else { FALLS_LATE };
            if reply.shown == MOST || next.passage.score * 100 < best * falls {
                break;
            }
            let count = alike.entry((next.passage.likeness, next.passage.terms)).or_default();
            if *count == ALIKE {
                continue;
            }
            let text = next.text(reply.shown == 0, headers.contains(&next.name));
            if reply.text.len() + text.len() > room {
                continue;
            }
            // Another artifact may have the same text.
            if !seen.insert(next.passage.lines.iter().map(|line| line.text.as_slice()).collect()) {
                continue;
            }
            *count += 1;
            headers.push(next.name);
            reply.text.extend_from_slice(&text);
            reply.shown += 1;
            reply.windowed = reply.windowed.or_else(|| next.windowed());
        }
        reply
    }
}

impl FromArtifact<'_> {
    fn windowed(&self) -> Option<Windowed> {
        let mut lines = self.passage.lines.iter();
        let at =
            lines.find_map(|line| Some(TextPosition { line: line.line, column: line.column? }))?;
        let name = String::from_utf8_lossy(self.name).into_owned();
        let colon = if name.is_empty() { "" } else { ":" };
        Some(Windowed { name: notice::cut(&name) + colon, at })
    }

    fn text(&self, is_first: bool, has_header: bool) -> Vec<u8> {
        let mut text = Vec::new();
        if !is_first {
            text.extend_from_slice(b"--\n");
        }
        if let Some(header) = self.header.filter(|_| !has_header)
            && self.passage.lines.iter().all(|line| line.line != header.line)
        {
            header.print(self.name, &mut text);
        }
        self.passage.print(self.name, &mut text);
        text
    }
}
