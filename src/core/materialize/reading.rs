//! Reading bytes as text: the reading that fits the first bytes, and the text that it gives.
//!
//! Text is told from binary data by proportion and place. A few NUL bytes, or blocks of them, do not
//! make a text binary. NUL bytes at regular places mean UTF-16 or UTF-32, and NUL bytes instead
//! of newlines end the entries of a list.

use std::mem;

use crate::materialize::plain::{EscapeStripper, strip_escapes};
use crate::materialize::{magic, terminal};
use crate::model::{Charset, LineEnd, Reading};

/// [`reading`] examines only this many bytes at the start of content.
pub const SNIFFED: usize = 64 << 10;
// Maximum number of NUL bytes, or blocks of them, in a text of any length without other control
// characters. In a long text, one in `STRAY_SHARE` bytes may be either.
const STRAY: usize = 3;
const STRAY_SHARE: usize = 100;
// In a text whose only strange bytes are single NUL bytes, such as those after file names, one in
// this many bytes may be one.
const SINGLE_SHARE: usize = 8;
// Minimum number of code units by which UTF-16 and UTF-32 are recognized without a byte order mark:
// by Latin letters, or by spaces and line ends alone.
const MIN_LATIN: usize = 4;
const MIN_UNITS: usize = 8;
// Such a text has a space or a line end in this many characters.
const BLANK_SHARE: usize = 200;

/// Returns how content that begins with `start` is read as text, or `None` if it is binary. Examines
/// only the first [`SNIFFED`] bytes. `is_log` is true for the log of a terminal.
pub fn reading(start: &[u8], is_log: bool) -> Option<Reading> {
    let start = &start[..start.len().min(SNIFFED)];
    let mut charset = marked_charset(start);
    if charset == Charset::Bytes && magic::begins_binary(start) {
        return None;
    }
    if charset == Charset::Bytes && memchr::memchr(0, start).is_some() {
        charset = unmarked_charset(start);
        match nul_use(start) {
            _ if charset != Charset::Bytes => {}
            NulUse::Text => {}
            NulUse::List => return Some(Reading { line_end: LineEnd::Nul, ..Reading::default() }),
            NulUse::Binary => return None,
        }
    }
    let decoded;
    let text = if charset == Charset::Bytes {
        start
    } else {
        decoded = decode(start, Reading { charset, ..Reading::default() });
        &decoded
    };
    let strips = is_log || terminal::is_for_terminal(text);
    let is_return = if memchr::memchr(b'\r', text).is_none() {
        false
    } else if strips {
        ends_in_returns(&strip_escapes(text))
    } else {
        ends_in_returns(text)
    };
    let line_end = if is_return { LineEnd::Return } else { LineEnd::Newline };
    Some(Reading { charset, line_end, strips })
}

/// Returns the text of complete content.
pub fn decode(bytes: &[u8], reading: Reading) -> Vec<u8> {
    let (mut decoder, mut out) = (TextDecoder::new(reading), Vec::with_capacity(bytes.len()));
    decoder.push(bytes, &mut out);
    decoder.finish(&mut out);
    out
}

/// Returns true if most lines of the text end in a carriage return alone. Carriage returns beside a
/// newline belong to the newline.
fn ends_in_returns(text: &[u8]) -> bool {
    let (mut newlines, mut returns) = (0, 0);
    let mut at = 0;
    while let Some(found) = memchr::memchr2(b'\n', b'\r', &text[at..]) {
        let start = at + found;
        let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
        let run = text[start..].iter().take_while(|byte| is_end(byte)).count();
        let of_run = memchr::memchr_iter(b'\n', &text[start..start + run]).count();
        newlines += of_run;
        returns += if of_run == 0 { run } else { 0 };
        at = start + run;
    }
    returns > 0 && returns >= 2 * newlines
}

enum NulUse {
    // A text has a few of them.
    Text,
    // The bytes end the entries of a list.
    List,
    Binary,
}

/// Returns what the NUL bytes of `start` mean.
fn nul_use(start: &[u8]) -> NulUse {
    let (mut nuls, mut runs, mut pairs, mut longest) = (0, 0, 0, 0);
    let mut at = 0;
    while let Some(found) = memchr::memchr(0, &start[at..]) {
        let run = start[at + found..].iter().take_while(|byte| **byte == 0).count();
        (nuls, runs, longest) = (nuls + run, runs + 1, longest.max(run));
        pairs += usize::from(run > 1);
        at += found + run;
    }
    let is_control = |byte: &&u8| magic::is_binary_control(**byte) || **byte == 0x7f;
    let controls = start.iter().filter(is_control).count() - nuls;
    let newlines = memchr::memchr_iter(b'\n', start).count();
    let text = start.len() - nuls - controls;
    let is_list = nuls >= 2
        && controls == 0
        && longest <= 2
        && 4 * pairs <= nuls
        && 2 * newlines <= nuls
        && text >= nuls;
    let stray = runs + controls;
    let is_few = (controls == 0 && runs <= STRAY) || stray * STRAY_SHARE <= text;
    let is_single = controls == 0 && longest == 1 && nuls * SINGLE_SHARE <= text;
    if is_list {
        NulUse::List
    } else if (is_few || is_single) && text >= 2 * stray {
        NulUse::Text
    } else {
        NulUse::Binary
    }
}

/// Sets of characters of more than one byte each, and their byte order marks.
const WIDE: [(Charset, &[u8]); 4] = [
    (Charset::Utf32Le, b"\xff\xfe\0\0"),
    (Charset::Utf32Be, b"\0\0\xfe\xff"),
    (Charset::Utf16Le, b"\xff\xfe"),
    (Charset::Utf16Be, b"\xfe\xff"),
];

// Returns the set that the byte order mark at the start names, or else `Bytes`.
fn marked_charset(start: &[u8]) -> Charset {
    let mut all = WIDE.iter().filter(|(_, mark)| start.starts_with(mark));
    all.find(|(charset, _)| is_text_of(start, *charset)).map_or(Charset::Bytes, |found| found.0)
}

// Returns the set in which `start` has NUL bytes where a text has them, or else `Bytes`.
fn unmarked_charset(start: &[u8]) -> Charset {
    let mut all = WIDE.iter().map(|(charset, _)| *charset);
    all.find(|it| has_nuls_of(start, *it) && is_text_of(start, *it)).unwrap_or_default()
}

/// Returns true if the high bytes of the code units are NUL where a text has NUL bytes: in nearly all
/// units of a text with Latin letters, or at the spaces and line ends of any other text. In the
/// second case, the bytes alone must not be a text.
fn has_nuls_of(start: &[u8], charset: Charset) -> bool {
    let units = start.chunks_exact(charset.unit());
    let count = units.len();
    let (mut latin, mut blanks, mut ends) = (0, 0, 0);
    for unit in units {
        let code = code_unit(unit, charset);
        latin += usize::from((1..0x100).contains(&code));
        blanks += usize::from(matches!(code, 0x20 | 0x0a | 0x0d));
        ends += usize::from(code == 0);
    }
    let is_bytes = || {
        let strange = |byte: &&u8| **byte != 0 && magic::is_binary_control(**byte);
        let controls = start.iter().filter(strange).count();
        controls * STRAY_SHARE < start.len() && str::from_utf8(start).is_ok()
    };
    let is_latin = count >= MIN_LATIN && 10 * latin >= 7 * count;
    let is_other = || count >= MIN_UNITS && blanks * BLANK_SHARE >= count && !is_bytes();
    ends * STRAY_SHARE <= count && (is_latin || is_other())
}

fn code_unit(unit: &[u8], charset: Charset) -> u32 {
    let fold = |code: u32, byte: &u8| code << 8 | u32::from(*byte);
    match charset {
        Charset::Utf16Be | Charset::Utf32Be | Charset::Bytes => unit.iter().fold(0, fold),
        Charset::Utf16Le | Charset::Utf32Le => unit.iter().rev().fold(0, fold),
    }
}

/// Returns true if `start`, decoded from `charset`, has hardly anything that is not text.
fn is_text_of(start: &[u8], charset: Charset) -> bool {
    let text = decode(start, Reading { charset, ..Reading::default() });
    let text = String::from_utf8_lossy(&text);
    let is_strange = |c: &char| match *c {
        '\u{7}'..='\r' | '\u{1b}' => false,
        char::REPLACEMENT_CHARACTER | '\u{e000}'..='\u{f8ff}' | '\u{f0000}'.. => true,
        c => c.is_control() || u32::from(c) & 0xfffe == 0xfffe,
    };
    let (all, strange) = (text.chars().count(), text.chars().filter(is_strange).count());
    strange <= STRAY.min(all / 4).max(all / STRAY_SHARE)
}

/// Decodes a stream of bytes to text. The result does not depend on how the stream was split.
#[derive(Debug, Clone, Default)]
pub(super) struct TextDecoder {
    pub(super) reading: Reading,
    wide: UnitDecoder,
    stripper: EscapeStripper,
}

impl TextDecoder {
    /// Returns a decoder of content from its beginning.
    pub(super) fn new(reading: Reading) -> Self {
        Self { reading, ..Self::default() }
    }

    /// Returns a decoder of content from offset `raw` on, where a line or a character begins.
    pub(super) fn from(reading: Reading, raw: u64) -> Self {
        let wide = UnitDecoder { is_inside: raw > 0, ..UnitDecoder::default() };
        Self { reading, wide, ..Self::default() }
    }

    /// Takes the next bytes. Appends to `out` the text that can no longer be overwritten.
    pub(super) fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if self.reading.charset == Charset::Bytes {
            return self.push_text(bytes, out);
        }
        let mut text = Vec::with_capacity(bytes.len());
        self.wide.push(bytes, self.reading.charset, &mut text);
        self.push_text(&text, out);
    }

    /// Appends the rest of the text if the stream ends here. Returns the number of frames that are
    /// then drawn over.
    pub(super) fn finish(&self, out: &mut Vec<u8>) -> u64 {
        if self.is_empty() {
            return self.stripper.overdrawn();
        }
        let mut ended = self.clone();
        if !ended.wide.pending.is_empty() {
            ended.push_text("\u{fffd}".as_bytes(), out);
        }
        let from = out.len();
        ended.stripper.finish(out);
        self.end_lines(&mut out[from..]);
        ended.stripper.overdrawn()
    }

    /// Returns true if no text is held back.
    pub(super) fn is_empty(&self) -> bool {
        self.wide.pending.is_empty() && self.stripper.is_empty()
    }

    /// Returns true if reading may begin here without any state.
    pub(super) fn is_fresh(&self) -> bool {
        self.wide.pending.is_empty() && self.stripper.is_fresh()
    }

    /// Returns the length of the part of `bytes` after which most likely no text is held back.
    pub(super) fn boundary(&self, bytes: &[u8]) -> usize {
        let Reading { charset, strips, .. } = self.reading;
        let unit = charset.unit();
        let start = (unit - self.wide.pending.len() % unit) % unit;
        let units = || bytes.get(start..).unwrap_or_default().chunks_exact(unit);
        if !strips {
            (start + units().len() * unit).min(bytes.len())
        } else if unit == 1 {
            memchr::memrchr(b'\n', bytes).map_or(0, |at| at + 1)
        } else {
            let newline = |each: &[u8]| code_unit(each, charset) == u32::from(b'\n');
            units().rposition(newline).map_or(0, |at| start + (at + 1) * unit)
        }
    }

    fn push_text(&mut self, text: &[u8], out: &mut Vec<u8>) {
        let from = out.len();
        if self.reading.strips {
            self.stripper.push(text, out);
        } else {
            out.extend_from_slice(text);
        }
        self.end_lines(&mut out[from..]);
    }

    fn end_lines(&self, text: &mut [u8]) {
        let end = match self.reading.line_end {
            LineEnd::Newline => return,
            LineEnd::Return => b'\r',
            LineEnd::Nul => 0,
        };
        for byte in text {
            *byte = if *byte == end { b'\n' } else { *byte };
        }
    }
}

/// Decodes UTF-16 and UTF-32. What is no character becomes U+FFFD. A byte order mark at the
/// beginning is left out.
#[derive(Debug, Clone, Default)]
struct UnitDecoder {
    pending: Vec<u8>,
    is_inside: bool,
}

impl UnitDecoder {
    fn push(&mut self, bytes: &[u8], charset: Charset, out: &mut Vec<u8>) {
        self.pending.extend_from_slice(bytes);
        let unit = charset.unit();
        let mut whole = self.pending.len() / unit * unit;
        // The second half of a character may follow.
        let last = self.pending[..whole].chunks_exact(unit).next_back();
        let is_half = |unit: &[u8]| (0xd800..0xdc00).contains(&code_unit(unit, charset));
        if unit == 2 && last.is_some_and(is_half) {
            whole -= unit;
        }
        let codes = self.pending[..whole].chunks_exact(unit).map(|it| code_unit(it, charset));
        let mut put = |c: Option<char>| {
            if mem::replace(&mut self.is_inside, true) || c != Some('\u{feff}') {
                let c = c.unwrap_or(char::REPLACEMENT_CHARACTER);
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
        };
        if unit == 2 {
            let units = codes.map(|code| code as u16);
            char::decode_utf16(units).for_each(|c| put(c.ok()));
        } else {
            codes.for_each(|code| put(char::from_u32(code)));
        }
        self.pending.drain(..whole);
    }
}

#[cfg(test)]
mod tests;
