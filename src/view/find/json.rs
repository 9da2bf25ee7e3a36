//! The second pass of `.find` over JSON. It finds the innermost objects that have the words.
//!
//! A scan follows the structure of one or more values, and examines only strings that may have a
//! word. An object that is too large for a passage is not scored as a whole. Instead, each of its
//! scalar members is scored, except in its first `RECORD_BYTES` bytes, where the size of the object
//! is not known yet.

mod record;

use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::io;

use crate::find::gather::{CandidateSpan, Gathered, LineOffset, Pool, SCORE_UNIT};
use crate::find::matcher::{Finder, FoundTerms};
use crate::find::question::ChosenTerms;
use crate::find::scan::ContentStream;
use crate::find::{gather, scan};
use crate::scan::{char_floor, json_string_end, json_string_length};
use ctxfs_core::materialize::LikenessHasher;
use ctxfs_core::model::Content;

pub(super) use record::of_value;

// Maximum size in bytes of an object that becomes a passage.
pub(super) const RECORD_BYTES: u64 = 64 << 10;
// A longer string is read in pieces of this size.
const PIECE: usize = scan::PIECE;
const PIECE_MARGIN: usize = 64;
// JSON with deeper nesting is treated as text.
const MAX_DEPTH: usize = 128;
// Maximum number of bytes that are kept of a key.
const KEY_BYTES: usize = 64;

pub(super) fn begins(content: &dyn Content) -> io::Result<bool> {
    let bytes = content.bytes(0, 256)?;
    let first = bytes.trim_ascii_start().first().copied();
    Ok(matches!(first, Some(b'{' | b'[')))
}

struct NotJson;

/// The structure that is being scanned.
///
/// `next` is the next position in the unread bytes at which a word may match, if it is known.
/// `member` is the start of the current member, and `key_found` has the words in its key. `long` is
/// set inside a string that is longer than a piece.
struct JsonScan<'a> {
    chosen: &'a ChosenTerms,
    finder: Finder,
    likeness: LikenessHasher,
    // The open objects and arrays, outermost first.
    frames: Vec<Frame>,
    pool: Pool,
    passages: u64,
    line: LineOffset,
    next: Option<usize>,
    member: Option<(u64, LineOffset)>,
    key_found: FoundTerms,
    long: Option<LongString>,
}

struct LongString {
    start: (u64, LineOffset),
    found: FoundTerms,
    is_key: bool,
}

// Gathers the objects in `content` that have words of `chosen`. Returns `None` if the content is
// not JSON.
pub(super) fn gather(
    content: &dyn Content,
    chosen: &ChosenTerms,
    expired: &dyn Fn() -> bool,
    block: usize,
) -> io::Result<Option<Gathered>> {
    let mut stream = ContentStream::new(content, u64::MAX, expired, block);
    let mut scan = JsonScan::new(chosen);
    while stream.fill()? {
        scan.next = None;
        match scan.take(stream.rest(), stream.offset(), false) {
            Ok(used) => stream.skip(used),
            Err(NotJson) => return Ok(None),
        }
    }
    let stopped = stream.stopped();
    if stopped.is_none() {
        scan.next = None;
        if scan.take(stream.rest(), stream.offset(), true).is_err() {
            return Ok(None);
        }
    }
    // A truncated value has no closing bracket.
    while !scan.frames.is_empty() {
        scan.close(stream.offset());
    }
    Ok(Some(Gathered { pool: scan.pool, passages: scan.passages, stopped }))
}

impl<'a> JsonScan<'a> {
    fn new(chosen: &'a ChosenTerms) -> Self {
        Self {
            chosen,
            finder: Finder::default(),
            likeness: LikenessHasher::default(),
            frames: Vec::new(),
            pool: Pool::new(),
            passages: 0,
            line: LineOffset { line: 1, offset: 0 },
            next: None,
            member: None,
            key_found: FoundTerms::default(),
            long: None,
        }
    }

    /// Consumes the complete tokens in `bytes`, which begin at `offset`. If `ends` is true,
    /// consumes all bytes. Returns the number of bytes consumed.
    fn take(&mut self, bytes: &[u8], offset: u64, ends: bool) -> Result<usize, NotJson> {
        let mut at = 0;
        while at < bytes.len() {
            let here = offset + at as u64;
            let used = if self.long.is_some() {
                self.more_of_string(bytes, at, offset, ends)
            } else {
                match bytes[at] {
                    b'"' => self.string(bytes, at, offset, ends)?,
                    b'\n' => {
                        self.line = LineOffset { line: self.line.line + 1, offset: here + 1 };
                        Some(1)
                    }
                    b' ' | b'\t' | b'\r' => Some(1),
                    _ if self.frames.is_empty() => self.skip_line(bytes, at, here)?,
                    open @ (b'{' | b'[') => self.open(open == b'{', here).map(|()| Some(1))?,
                    close @ (b'}' | b']') => {
                        if self.frames.last().is_none_or(|frame| frame.is_object != (close == b'}'))
                        {
                            return Err(NotJson);
                        }
                        self.close(here + 1);
                        Some(1)
                    }
                    b',' => self.comma().map(|()| Some(1))?,
                    b':' => self.colon().map(|()| Some(1))?,
                    _ => self.scalar(bytes, at, offset, ends)?,
                }
            };
            match used {
                Some(used) => at += used,
                None => break,
            }
        }
        Ok(at)
    }

    // Handles the start of a top-level value, which must be an object or array. If the line ends
    // with the matching bracket and has no words, skips the line. Otherwise opens the value.
    // Returns the number of bytes consumed.
    fn skip_line(&mut self, bytes: &[u8], at: usize, here: u64) -> Result<Option<usize>, NotJson> {
        let open = bytes[at];
        if !matches!(open, b'{' | b'[') {
            return Err(NotJson);
        }
        let close = if open == b'{' { b'}' } else { b']' };
        if let Some(length) = memchr::memchr(b'\n', &bytes[at..])
            && bytes[at..at + length].trim_ascii_end().last() == Some(&close)
            && length > 1
            && !self.may_hold(bytes, at, at + length)
        {
            return Ok(Some(length));
        }
        self.open(open == b'{', here)?;
        Ok(Some(1))
    }

    // Returns true if a word may be between the offsets `from` and `to` of `bytes`.
    fn may_hold(&mut self, bytes: &[u8], from: usize, to: usize) -> bool {
        if self.next.is_none_or(|next| next < from) {
            let next = scan::first_candidate(&self.chosen.matcher, bytes, from);
            self.next = Some(next.unwrap_or(usize::MAX));
        }
        self.next.is_some_and(|next| next < to)
    }

    fn open(&mut self, is_object: bool, here: u64) -> Result<(), NotJson> {
        if self.frames.len() >= MAX_DEPTH {
            return Err(NotJson);
        }
        let (start, line) = self.begin_value(here)?;
        let found = std::mem::take(&mut self.key_found);
        if let Some(parent) = self.frames.last_mut() {
            parent.own.join(&found);
            parent.all.join(&found);
        }
        let (own, all) = (found, found);
        self.frames.push(Frame { is_object, start, line, own, all, ..Frame::default() });
        Ok(())
    }

    fn begin_value(&mut self, here: u64) -> Result<(u64, LineOffset), NotJson> {
        let here = (here, self.line);
        match self.frames.last() {
            Some(frame) if frame.is_object && !frame.has_key => Err(NotJson),
            Some(frame) if frame.is_object => Ok(self.member.take().unwrap_or(here)),
            _ => Ok(here),
        }
    }

    fn comma(&mut self) -> Result<(), NotJson> {
        let frame = self.frames.last_mut().ok_or(NotJson)?;
        frame.has_key = false;
        frame.index += 1;
        Ok(())
    }

    fn colon(&mut self) -> Result<(), NotJson> {
        let has_member = self.member.is_some();
        let frame = self.frames.last_mut().filter(|frame| frame.is_object && !frame.has_key);
        frame.filter(|_| has_member).ok_or(NotJson)?.has_key = true;
        Ok(())
    }

    fn string(
        &mut self,
        bytes: &[u8],
        at: usize,
        offset: u64,
        ends: bool,
    ) -> Result<Option<usize>, NotJson> {
        let length = match json_string_length(&bytes[at..]) {
            Some(length) => length,
            None if bytes.len() - at <= PIECE + PIECE_MARGIN && !ends => return Ok(None),
            None if ends => bytes.len() - at,
            None => usize::MAX,
        };
        let here = offset + at as u64;
        let is_key = self.frames.last().is_some_and(|frame| frame.is_object && !frame.has_key);
        if length > PIECE {
            let start = if is_key { (here, self.line) } else { self.begin_value(here)? };
            if is_key {
                self.member = Some(start);
                set_key(&mut self.frames, b"");
            }
            let found = std::mem::take(&mut self.key_found);
            self.long = Some(LongString { start, found, is_key });
            return Ok(Some(1));
        }
        let inner = &bytes[at + 1..at + length];
        let found = self.words(bytes, (at, at + length), inner);
        if is_key {
            if self.member.is_some() {
                return Err(NotJson);
            }
            (self.member, self.key_found) = (Some((here, self.line)), found);
            set_key(&mut self.frames, inner.strip_suffix(b"\"").unwrap_or(inner));
        } else {
            let start = self.begin_value(here)?;
            self.end_scalar(start, here + length as u64, found);
        }
        Ok(Some(length))
    }

    fn words(&mut self, bytes: &[u8], (from, to): (usize, usize), inner: &[u8]) -> FoundTerms {
        if !self.may_hold(bytes, from, to) {
            return FoundTerms::default();
        }
        FoundTerms::of(self.chosen.matcher.find(&mut self.finder, inner, true))
    }

    fn more_of_string(
        &mut self,
        bytes: &[u8],
        at: usize,
        offset: u64,
        ends: bool,
    ) -> Option<usize> {
        let rest = &bytes[at..];
        let close = json_string_end(&rest[..rest.len().min(PIECE + PIECE_MARGIN)]);
        let here = offset + at as u64;
        let (length, is_last) = match close {
            Some(end) if end <= PIECE => (end, true),
            None if rest.len() < PIECE + PIECE_MARGIN && !ends => return None,
            None if rest.len() <= PIECE => (rest.len(), true),
            _ => (piece(rest), false),
        };
        let may_hold = self.may_hold(bytes, at, at + length);
        if may_hold {
            self.windows(&rest[..length], here);
        }
        if !is_last {
            return Some(length);
        }
        let LongString { start, found, is_key } = self.long.take()?;
        if !is_key {
            self.end_scalar(start, here + length as u64, found);
        }
        Some((length + 1).min(rest.len()))
    }

    fn windows(&mut self, text: &[u8], offset: u64) {
        let Self { chosen, finder, .. } = self;
        let hits = chosen.matcher.find(finder, text, true);
        for ((start, end), found) in gather::windows(hits) {
            self.passages += 1;
            let score = (found.value(&chosen.weights) * SCORE_UNIT) as u64;
            let likeness = self.likeness.of(&text[start..end]);
            let (of, frames) = (self.line, &self.frames);
            self.pool.add(score, likeness, || CandidateSpan::Window {
                of,
                start: offset + start as u64,
                end: offset + end as u64,
                path: path(frames),
            });
        }
    }

    fn scalar(
        &mut self,
        bytes: &[u8],
        at: usize,
        offset: u64,
        ends: bool,
    ) -> Result<Option<usize>, NotJson> {
        let is_end = |byte: &u8| !byte.is_ascii_alphanumeric() && !b"+-.".contains(byte);
        let length = bytes[at..].iter().position(is_end);
        if length.is_none() && !ends && bytes.len() - at < PIECE {
            return Ok(None);
        }
        let length = length.unwrap_or(bytes.len() - at);
        let text = &bytes[at..at + length];
        let is_number = || {
            text.iter().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(byte))
                && text.iter().any(u8::is_ascii_digit)
                && text.iter().skip(1).filter(|byte| **byte == b'-').count() <= 1
        };
        let is_cut_off = ends && at + length == bytes.len();
        let is_word = matches!(text, b"true" | b"false" | b"null" | b"NaN");
        if !is_word && !is_cut_off && !is_number() {
            return Err(NotJson);
        }
        let here = offset + at as u64;
        let start = self.begin_value(here)?;
        let found = self.words(bytes, (at, at + length), text);
        self.end_scalar(start, here + length as u64, found);
        Ok(Some(length))
    }

    fn end_scalar(&mut self, (start, line): (u64, LineOffset), end: u64, found: FoundTerms) {
        let mut all = std::mem::take(&mut self.key_found);
        all.join(&found);
        if all.is_empty() {
            return;
        }
        let value = all.value(&self.chosen.weights);
        let path = || path(&self.frames);
        let Some(frame) = self.frames.last() else {
            let place = || CandidateSpan::Value { of: line, start, end, path: String::new() };
            self.pool.add((value * SCORE_UNIT) as u64, 0, place);
            return;
        };
        // The object is already too large for a passage, so the member becomes a candidate. An item
        // of an array always does.
        if end - frame.start > RECORD_BYTES || !frame.is_object {
            let score = (value * SCORE_UNIT * 0.97) as u64;
            let likeness = frame.likeness(&all);
            self.pool.add(score, likeness, || CandidateSpan::Value {
                of: line,
                start,
                end,
                path: path(),
            });
        }
        let frame = self.frames.last_mut().expect("it was there");
        frame.has_words |= true;
        frame.own.join(&all);
        frame.all.join(&all);
    }

    fn close(&mut self, end: u64) {
        let Some(frame) = self.frames.pop() else { return };
        self.member = None;
        let is_small = end - frame.start <= RECORD_BYTES;
        let found = if is_small { frame.all } else { FoundTerms::default() };
        self.passages += u64::from(frame.has_words && frame.is_object);
        let value = found.value(&self.chosen.weights);
        let score = (value * SCORE_UNIT) as u64;
        let mut best = frame.best;
        if score > best && (frame.is_object || self.frames.is_empty()) {
            let (of, start) = (frame.line, frame.start);
            let likeness = frame.likeness(&found);
            let frames = &self.frames;
            self.pool.add(score, likeness, || CandidateSpan::Value {
                of,
                start,
                end,
                path: path(frames),
            });
            best = score;
        }
        let Some(parent) = self.frames.last_mut() else { return };
        parent.best = parent.best.max(best);
        if is_small {
            parent.all.join(&frame.all);
            if !frame.is_object {
                parent.own.join(&frame.own);
                parent.has_words |= frame.has_words;
            }
        }
    }
}

/// Returns the length of the first piece of `rest`, the rest of a string that is too long for one
/// piece. The piece ends after a blank if there is one near its end, and never inside an escape or
/// a character.
fn piece(rest: &[u8]) -> usize {
    if let Some(blank) = memchr::memrchr(b' ', &rest[PIECE - PIECE_MARGIN..PIECE]) {
        return PIECE - PIECE_MARGIN + blank + 1;
    }
    let mut escape = 0;
    while let Some(found) = memchr::memchr(b'\\', rest.get(escape..PIECE).unwrap_or_default()) {
        escape += found + 2;
    }
    escape.max(char_floor(rest, PIECE))
}

/// An open object or array. `start` is the offset of its first byte, or of its key if it has one.
/// `has_key` is true between a key and the end of its value. `own` has the words in its own
/// members, and `all` also the words in deeper members. `best` is the best score of a value inside.
#[derive(Debug, Default)]
struct Frame {
    is_object: bool,
    start: u64,
    line: LineOffset,
    has_key: bool,
    index: u64,
    key: Vec<u8>,
    own: FoundTerms,
    all: FoundTerms,
    has_words: bool,
    best: u64,
}

impl Frame {
    // Returns the path step to the current member.
    fn step(&self) -> String {
        if !self.is_object {
            return format!("[{}]", self.index);
        }
        let key = String::from_utf8_lossy(&self.key);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let begins = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if begins && key.chars().all(is_plain) { format!(".{key}") } else { format!("[\"{key}\"]") }
    }

    // Returns a hash that is equal for values of the same kind (object or not) that have the same
    // words under the same last key.
    fn likeness(&self, found: &FoundTerms) -> u64 {
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        hasher.hash_one((self.is_object, &self.key, found.terms()))
    }
}

fn set_key(frames: &mut [Frame], key: &[u8]) {
    if let Some(frame) = frames.last_mut() {
        frame.key.clear();
        frame.key.extend_from_slice(&key[..key.len().min(KEY_BYTES)]);
    }
}

// Returns the path of the current value as a jq filter: `.items[12].name`.
fn path(frames: &[Frame]) -> String {
    let path: String = frames.iter().map(Frame::step).collect();
    if path.starts_with('[') { format!(".{path}") } else { path }
}
