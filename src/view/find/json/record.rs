//! A JSON object as a passage: the members that have the words, and neighbouring members.

use std::io;
use std::ops::Range;

use crate::find::gather::LineOffset;
use crate::find::json::RECORD_BYTES;
use crate::find::matcher::{Finder, FoundTerms, Hit};
use crate::find::passage::{Passage, ShownLine, SourceLine};
use crate::find::question::ChosenTerms;
use crate::find::{choice, gather, passage, record};
use crate::grep::page;
use crate::scan;
use ctxfs_core::model::Content;

// A passage may extend this many bytes beyond the value on either side, up to the ends of its
// lines.
const LINE_MARGIN: u64 = 256;
// Members up to this length are shown whole. Of a longer member, the parts around the words are
// shown.
const WHOLE_MEMBER: usize = 360;
const BEFORE_WORD: usize = 120;
const AFTER_WORD: usize = 240;
// Parts of a line are joined up to this length, across gaps of at most this many bytes.
const JOINED_BYTES: usize = 480;
const MAX_GAP: usize = 24;
// Maximum number of members that are examined.
const MAX_LEAVES: usize = 4096;

// A value, and the bytes that were read for it. `range` is the place of the value in `bytes`, which
// have a margin on both sides. `offset` is the place of `bytes` in the content.
struct ReadValue<'t> {
    bytes: &'t [u8],
    range: Range<usize>,
    offset: u64,
    of: LineOffset,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct MemberPart {
    range: Range<usize>,
    hit: Option<usize>,
}

pub(crate) fn of_value(
    content: &dyn Content,
    of: LineOffset,
    (start, end): (u64, u64),
    path: &str,
    chosen: &ChosenTerms,
    finder: &mut Finder,
) -> io::Result<Passage> {
    let from = if start - of.offset <= LINE_MARGIN { of.offset } else { start };
    let end = end.min(start + RECORD_BYTES);
    let bytes = content.bytes(from, (end + LINE_MARGIN - from) as usize)?;
    let place = (start - from) as usize;
    let range = place.min(bytes.len())..((end - from) as usize).min(bytes.len());
    let value = ReadValue { bytes: &bytes, range, offset: from, of };
    Ok(value.passage(path, chosen, finder, content.len()))
}

impl ReadValue<'_> {
    fn passage(
        &self,
        path: &str,
        chosen: &ChosenTerms,
        finder: &mut Finder,
        length: u64,
    ) -> Passage {
        let text = &self.bytes[self.range.clone()];
        let leaves = leaves(text);
        let hits: Vec<Vec<Hit>> = leaves
            .iter()
            .map(|leaf| chosen.matcher.find(finder, &text[leaf.start..leaf.end], true).to_vec())
            .collect();
        let mut found = FoundTerms::default();
        for hits in &hits {
            found.join(&FoundTerms::of(hits));
        }
        let places: Vec<(u64, usize)> = leaves
            .iter()
            .zip(&hits)
            .flat_map(|(leaf, hits)| passage::places(hits, leaf.start as u64))
            .collect();
        let shown = shown(&leaves, &hits, text.len(), chosen);
        let parts = shown.iter().flat_map(|at| parts(text, &leaves[*at], &hits[*at], chosen));
        let parts = joined(text, parts.collect());
        Passage {
            score: record::score(&found, &places, chosen),
            terms: found.terms(),
            likeness: 0,
            alike: 0,
            is_record: true,
            path: path.to_owned(),
            lines: self.lines(&parts, length),
        }
    }

    fn lines(&self, parts: &[MemberPart], length: u64) -> Vec<ShownLine> {
        let mut shown: Vec<ShownLine> = Vec::new();
        let base = self.range.start;
        for part in parts {
            let mut at = base + part.range.start;
            let end = base + part.range.end;
            while at < end {
                let line = self.line_at(at, length);
                let first = (line.offset - self.offset) as usize;
                let last = (first + line.text.len()).min(end);
                let hit = part
                    .hit
                    .map(|hit| base + hit)
                    .filter(|hit| (at..last.max(at + 1)).contains(hit));
                show(&line, (at - first)..(last - first), hit.map(|hit| hit - first), &mut shown);
                at = first + line.text.len() + 1;
            }
        }
        shown
    }

    fn line_at(&self, at: usize, length: u64) -> SourceLine<'_> {
        let before = memchr::memrchr(b'\n', &self.bytes[..at]);
        let start = before.map_or(0, |newline| newline + 1);
        let newline = memchr::memchr(b'\n', &self.bytes[at..]);
        let end = newline.map_or(self.bytes.len(), |newline| at + newline);
        let newlines = scan::newlines(&self.bytes[..at]);
        let offset = self.offset + start as u64;
        let column = if before.is_some() { 0 } else { offset - self.of.offset };
        let ends = newline.is_some() || self.offset + end as u64 == length;
        let text = &self.bytes[start..end];
        SourceLine { line: self.of.line + newlines, offset, column, text, ends }
    }
}

fn show(
    line: &SourceLine<'_>,
    range: Range<usize>,
    hit: Option<usize>,
    shown: &mut Vec<ShownLine>,
) {
    let is_whole = line.column == 0 && line.ends && !page::is_long(line.text);
    if !is_whole {
        let start = scan::char_ceiling(line.text, range.start);
        let end = scan::char_floor(line.text, range.end).max(start);
        shown.push(line.part(start..end, hit.unwrap_or(start), hit.is_some()));
        return;
    }
    match shown.last_mut().filter(|last| last.line == line.line) {
        Some(last) => last.is_hit |= hit.is_some(),
        None => shown.push(line.shown(hit)),
    }
}

/// Returns the members to show, in order: all members of a small value, otherwise the members with
/// words and some near them.
fn shown(leaves: &[Leaf], hits: &[Vec<Hit>], length: usize, chosen: &ChosenTerms) -> Vec<usize> {
    if length <= choice::SMALL {
        return (0..leaves.len()).collect();
    }
    let shown = choice::with_words(hits, chosen);
    let mut others: Vec<usize> = (0..leaves.len()).filter(|at| !shown.contains(at)).collect();
    let containers: Vec<usize> = shown.iter().map(|at| leaves[*at].container).collect();
    let first = leaves.iter().map(|leaf| leaf.container).min();
    others.retain(|at| {
        let leaf = &leaves[*at];
        let is_near = containers.contains(&leaf.container) || Some(leaf.container) == first;
        is_near && leaf.end - leaf.start <= choice::NEIGHBOUR_BYTES && !leaf.opens
    });
    let distance = |at: &usize| shown.iter().map(|other| other.abs_diff(*at)).min();
    let is_name = |at: &usize| {
        let container = leaves[*at].container;
        leaves[..*at].iter().filter(|leaf| leaf.container == container).count() < 2
    };
    others.sort_by_cached_key(|at| (!is_name(at), distance(at), *at));
    choice::with_neighbours(shown, others, |at| leaves[at].end - leaves[at].start + 2)
}

fn parts(text: &[u8], leaf: &Leaf, hits: &[Hit], chosen: &ChosenTerms) -> Vec<MemberPart> {
    let hit = hits.first().map(|hit| leaf.start + hit.start);
    if leaf.end - leaf.start <= WHOLE_MEMBER {
        return vec![MemberPart { range: leaf.start..leaf.end, hit }];
    }
    let value = |found: &FoundTerms| (found.value(&chosen.weights) * gather::SCORE_UNIT) as u64;
    let mut windows = gather::windows(hits);
    windows.sort_by_key(|((start, _), found)| (std::cmp::Reverse(value(found)), *start));
    windows.truncate(2);
    if windows.is_empty() {
        windows.push(((0, 0), FoundTerms::default()));
    }
    windows.sort_by_key(|((start, _), _)| *start);
    let part = |((start, _), found): &((usize, usize), FoundTerms)| {
        let at = leaf.start + start;
        let from = scan::char_ceiling(text, at.saturating_sub(BEFORE_WORD).max(leaf.start));
        let to = scan::char_floor(text, (at + AFTER_WORD).min(leaf.end));
        MemberPart { range: from.min(at)..to.max(at), hit: (!found.is_empty()).then_some(at) }
    };
    windows.iter().map(part).collect()
}

fn joined(text: &[u8], parts: Vec<MemberPart>) -> Vec<MemberPart> {
    let mut joined: Vec<MemberPart> = Vec::new();
    for part in parts {
        match joined.last_mut() {
            Some(last) if may_join(text, last, &part) => {
                last.range.end = part.range.end.max(last.range.end);
                last.hit = last.hit.or(part.hit);
            }
            _ => joined.push(part),
        }
    }
    joined
}

fn may_join(text: &[u8], one: &MemberPart, other: &MemberPart) -> bool {
    if other.range.start <= one.range.end {
        return other.range.end.max(one.range.end) - one.range.start <= JOINED_BYTES;
    }
    let between = &text[one.range.end..other.range.start];
    between.len() <= MAX_GAP
        && other.range.end - one.range.start <= JOINED_BYTES
        && between.iter().all(|byte| b"{}[],: ".contains(byte))
}

/// A scalar member, or, if `opens` is true, the key and the bracket that begin an object or array.
/// The range begins at the key. `container` is the number of the enclosing object or array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Leaf {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) container: usize,
    pub(super) opens: bool,
}

pub(super) fn leaves(bytes: &[u8]) -> Vec<Leaf> {
    let mut leaves = Vec::new();
    let mut open = vec![0];
    let mut containers = 0;
    let mut key: Option<usize> = None;
    let mut at = 0;
    while at < bytes.len() && leaves.len() < MAX_LEAVES {
        let container = open.last().copied().unwrap_or(0);
        let start = at;
        match bytes[at] {
            b'"' => {
                let length = scan::json_string_length(&bytes[at..]).unwrap_or(bytes.len() - at);
                at = (at + length).min(bytes.len());
                if is_before_colon(&bytes[at..]) {
                    key = Some(start);
                } else {
                    leaves.push(Leaf {
                        start: key.take().unwrap_or(start),
                        end: at,
                        container,
                        opens: false,
                    });
                }
            }
            b'{' | b'[' => {
                at += 1;
                if let Some(start) = key.take() {
                    leaves.push(Leaf { start, end: at, container, opens: true });
                }
                containers += 1;
                open.push(containers);
            }
            b'}' | b']' => {
                at += 1;
                open.pop();
            }
            b':' | b',' | b' ' | b'\t' | b'\r' | b'\n' => at += 1,
            _ => {
                let is_end = |byte: &u8| b",]}\n\r \t".contains(byte);
                let length = bytes[at..].iter().position(is_end).unwrap_or(bytes.len() - at);
                at += length.max(1);
                leaves.push(Leaf {
                    start: key.take().unwrap_or(start),
                    end: at,
                    container,
                    opens: false,
                });
            }
        }
    }
    leaves
}

fn is_before_colon(rest: &[u8]) -> bool {
    rest.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_told_apart() {
        let text = r#""a": {"b": [1, "x\"y"], "c": {}, "d": null, "e": "cut"#;
        let found: Vec<(&str, usize)> = leaves(text.as_bytes())
            .iter()
            .map(|leaf| (&text[leaf.start..leaf.end], leaf.container))
            .collect();
        let want = [
            ("\"a\": {", 0),
            ("\"b\": [", 1),
            ("1", 2),
            ("\"x\\\"y\"", 2),
            ("\"c\": {", 1),
            ("\"d\": null", 1),
            ("\"e\": \"cut", 1),
        ];
        assert_eq!(found, want);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_have_some(bytes in proptest::collection::vec(proptest::sample::select(b"{}[]\",:\\ a1\n".to_vec()), 0..60)) {
            for leaf in leaves(&bytes) {
                proptest::prop_assert!(leaf.start < leaf.end && leaf.end <= bytes.len());
            }
        }
    }
}
