//! A JSON scanner that accepts a value in pieces of any size.
//!
//! It accepts the values of RFC 8259, and what programs write beside them: `NaN` and `Infinity`,
//! comments, and commas before a closing bracket. [`Scanner::loose`] tells of these, and
//! [`Scanner::strict`] accepts none of them. Bytes above 0x7F in strings are not checked: the caller
//! must ensure that they are UTF-8.

use std::borrow::Cow;

use crate::model::LooseJson;

/// The reason why the scanner stopped. `More`: the bytes ended inside the value. `Done`: the value
/// ended after this number of bytes. `Wrong`: the byte at this index cannot be JSON.
#[derive(Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the contract of the type describes its variants")]
pub enum ScanOutcome {
    More,
    Done(usize),
    Wrong(usize),
}

/// The state of a scan. The result does not depend on the pieces in which the value arrived.
///
/// Memory is bounded. Nesting deeper than 1,048,576 levels is an error. Only the beginnings of
/// keys, strings and numbers are kept, up to the limits of the [`Events`] receiver.
#[derive(Debug, Clone, Default)]
pub struct Scanner {
    state: ScannerState,
    nesting: Nesting,
    in_key: bool,
    length: u64,
    // The beginning of a key, string or number that began in an earlier block.
    kept: Vec<u8>,
    tokens: u64,
    // Number of newlines in the indented form: one per comma, and two per array or object that is
    // not empty.
    breaks: u64,
    newlines: u64,
    is_strict: bool,
    loose: LooseJson,
    // The state around a comment: one between two tokens.
    outer: ScannerState,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum ScannerState {
    #[default]
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    Colon,
    CommaOrEnd,
    Text,
    Escape,
    // The number of hexadecimal digits that are still missing.
    Hex(u8),
    Number(NumberState),
    // A word, the number of bytes already read, and its kind.
    Word(&'static [u8], usize, Scalar),
    // After the first byte of a comment.
    Slash,
    LineComment,
    // A block comment. True after a `*`.
    BlockComment(bool),
}

impl Scanner {
    /// Returns a scanner that accepts the values of RFC 8259 only.
    pub fn strict() -> Self {
        Self { is_strict: true, ..Self::default() }
    }

    /// Returns what the values so far have that is not in RFC 8259.
    pub fn loose(&self) -> LooseJson {
        self.loose
    }

    /// Returns true if there were only white space and whole comments since the last value.
    pub fn is_between(&self) -> bool {
        self.nesting.depth == 0
            && (self.state == ScannerState::Value
                || self.state == ScannerState::LineComment && self.outer == ScannerState::Value)
    }

    /// Returns the number of newlines inside values so far.
    pub fn newlines(&self) -> u64 {
        self.newlines
    }

    /// Returns the number of newlines in the indented form of the values so far: one after each
    /// opening bracket and each comma, and one before each closing bracket. An empty array or
    /// object has none.
    pub(super) fn breaks(&self) -> u64 {
        self.breaks
    }

    /// Returns the number of keys, values and closing brackets so far.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Returns the number of open brackets.
    pub fn depth(&self) -> usize {
        self.nesting.depth
    }

    /// Returns true if the nesting has reached the maximum depth.
    pub fn is_too_deep(&self) -> bool {
        self.nesting.depth == MAX_DEPTH
    }

    /// Returns true if the scan is inside a string, a number or a word, or between the colon of a
    /// key and the value.
    pub fn is_in_pair(&self) -> bool {
        match self.state {
            ScannerState::Text
            | ScannerState::Escape
            | ScannerState::Hex(_)
            | ScannerState::Number(_)
            | ScannerState::Word(..) => true,
            ScannerState::Value => self.nesting.in_object,
            _ => false,
        }
    }

    /// Scans the next bytes and reports them to `events`. Stops at the end of the value or at the
    /// first byte that cannot be JSON.
    pub fn push<E: Events>(&mut self, bytes: &[u8], events: &mut E) -> ScanOutcome {
        let mut at = 0;
        while at < bytes.len() {
            let step = match self.state {
                ScannerState::Text => self.text(bytes, at, events),
                ScannerState::Escape => self.escape(bytes[at], events).then_some(1),
                ScannerState::Hex(left) => self.hex(bytes[at], left, events).then_some(1),
                ScannerState::Number(number) => self.number(bytes, at, number, events),
                ScannerState::Word(word, read, scalar) => {
                    self.word(bytes, (word, read, scalar), at, events)
                }
                ScannerState::Slash | ScannerState::LineComment | ScannerState::BlockComment(_) => {
                    self.comment(bytes, at, events)
                }
                _ => self.structure(bytes, at, events),
            };
            let Some(step) = step else {
                return ScanOutcome::Wrong(at);
            };
            at += step;
            if self.state == ScannerState::CommaOrEnd && self.nesting.depth == 0 {
                self.state = ScannerState::Value;
                return ScanOutcome::Done(at);
            }
        }
        ScanOutcome::More
    }

    #[inline]
    fn structure<E: Events>(&mut self, bytes: &[u8], at: usize, events: &mut E) -> Option<usize> {
        let byte = bytes[at];
        match byte {
            b' ' | b'\t' | b'\r' => return Some(1 + spaces(&bytes[at + 1..])),
            b'\n' => {
                self.newlines += 1;
                events.newline();
            }
            _ => match self.state {
                ScannerState::Colon if byte == b':' => {
                    events.colon();
                    self.state = ScannerState::Value;
                }
                _ if byte == b'/' && !self.is_strict => {
                    (self.outer, self.state) = (self.state, ScannerState::Slash);
                    events.comment(b"/", false);
                }
                ScannerState::CommaOrEnd => self.comma_or_end(byte, at, events)?,
                ScannerState::Key | ScannerState::KeyOrEnd if byte == b'"' => {
                    self.begin_text(true, events);
                }
                ScannerState::KeyOrEnd if byte == b'}' => self.end(b'}', at, events)?,
                ScannerState::ValueOrEnd if byte == b']' => self.end(b']', at, events)?,
                // Only a comma leads to a key, and to a value in an array.
                ScannerState::Key if byte == b'}' => self.end_after_comma(byte, at, events)?,
                ScannerState::Value if byte == b']' && !self.nesting.in_object => {
                    self.end_after_comma(byte, at, events)?;
                }
                ScannerState::Value | ScannerState::ValueOrEnd => self.value(byte, at, events)?,
                _ => return None,
            },
        }
        Some(1)
    }

    #[inline]
    fn value<E: Events>(&mut self, byte: u8, at: usize, events: &mut E) -> Option<()> {
        events.begins(at);
        self.state = match byte {
            b'"' => {
                self.begin_text(false, events);
                return Some(());
            }
            b'{' => {
                self.nesting.push(true)?;
                events.bracket(byte);
                events.begin_object();
                ScannerState::KeyOrEnd
            }
            b'[' => {
                self.nesting.push(false)?;
                events.bracket(byte);
                events.begin_array();
                ScannerState::ValueOrEnd
            }
            b'-' => self.begin_number(byte, events, NumberState::Minus),
            b'0' => self.begin_number(byte, events, NumberState::Zero),
            b'1'..=b'9' => self.begin_number(byte, events, NumberState::Integer),
            b't' => ScannerState::Word(b"true", 1, Scalar::Bool),
            b'f' => ScannerState::Word(b"false", 1, Scalar::Bool),
            b'n' => ScannerState::Word(b"null", 1, Scalar::Null),
            b'N' => self.loose_word(b"NaN")?,
            b'I' => self.loose_word(b"Infinity")?,
            _ => return None,
        };
        if !matches!(byte, b'{' | b'[') {
            events.piece(&[byte]);
        }
        Some(())
    }

    fn loose_word(&mut self, word: &'static [u8]) -> Option<ScannerState> {
        self.loose.numbers = true;
        (!self.is_strict).then_some(ScannerState::Word(word, 1, Scalar::Float))
    }

    #[inline]
    fn begin_number<E: Events>(
        &mut self,
        byte: u8,
        events: &E,
        number: NumberState,
    ) -> ScannerState {
        self.kept.clear();
        if E::TEXT_BYTES > 0 && events.reads_numbers() {
            self.kept.push(byte);
        }
        ScannerState::Number(number)
    }

    #[inline]
    fn comma_or_end<E: Events>(&mut self, byte: u8, at: usize, events: &mut E) -> Option<()> {
        if byte != b',' {
            self.end(byte, at, events)?;
            self.breaks += 2;
            return Some(());
        }
        events.comma();
        self.breaks += 1;
        self.state = if self.nesting.in_object { ScannerState::Key } else { ScannerState::Value };
        Some(())
    }

    fn end_after_comma<E: Events>(&mut self, byte: u8, at: usize, events: &mut E) -> Option<()> {
        if self.is_strict || self.nesting.depth == 0 {
            return None;
        }
        self.loose.commas = true;
        self.breaks += 1;
        self.end(byte, at, events)
    }

    // Scans a comment up to its end or the end of `bytes`.
    fn comment<E: Events>(&mut self, bytes: &[u8], at: usize, events: &mut E) -> Option<usize> {
        let rest = &bytes[at..];
        let (used, state) = match (self.state, rest[0]) {
            (ScannerState::Slash, b'/') => (1, ScannerState::LineComment),
            (ScannerState::Slash, b'*') => (1, ScannerState::BlockComment(false)),
            (ScannerState::Slash, _) => return None,
            (ScannerState::LineComment, b'\n') => (0, self.outer),
            (ScannerState::LineComment, _) => {
                (memchr::memchr(b'\n', rest).unwrap_or(rest.len()), self.state)
            }
            (ScannerState::BlockComment(true), b'/') => (1, self.outer),
            (_, byte) => {
                if byte == b'\n' {
                    self.newlines += 1;
                    events.newline();
                }
                (1, ScannerState::BlockComment(byte == b'*'))
            }
        };
        self.loose.comments = true;
        let ends = !matches!(state, ScannerState::LineComment | ScannerState::BlockComment(_));
        events.comment(&rest[..used], ends);
        self.state = state;
        Some(used)
    }

    #[inline]
    fn end<E: Events>(&mut self, byte: u8, at: usize, events: &mut E) -> Option<()> {
        if byte != (if self.nesting.in_object { b'}' } else { b']' }) {
            return None;
        }
        self.nesting.pop();
        events.bracket(byte);
        events.end();
        events.ends(at + 1);
        self.tokens += 1;
        self.state = ScannerState::CommaOrEnd;
        Some(())
    }

    #[inline]
    fn begin_text<E: Events>(&mut self, in_key: bool, events: &mut E) {
        events.piece(b"\"");
        self.in_key = in_key;
        self.length = 0;
        self.kept.clear();
        self.state = ScannerState::Text;
    }

    // Scans until the closing quote or the backslash of an escape, inclusive.
    #[inline]
    fn text<E: Events>(&mut self, bytes: &[u8], at: usize, events: &mut E) -> Option<usize> {
        let plain = plain_run(&bytes[at..]);
        let run = &bytes[at..at + plain];
        match bytes.get(at + plain) {
            Some(b'"') => {
                events.piece(&bytes[at..=at + plain]);
                self.end_text(run, events);
                if !self.in_key {
                    events.ends(at + plain + 1);
                }
                return Some(plain + 1);
            }
            Some(b'\\') => self.state = ScannerState::Escape,
            Some(_) if plain == 0 => return None,
            _ => {
                events.piece(run);
                self.keep::<E>(run);
                return Some(plain);
            }
        }
        events.piece(&bytes[at..=at + plain]);
        self.keep::<E>(run);
        self.keep::<E>(b"\\");
        Some(plain + 1)
    }

    #[inline]
    fn end_text<E: Events>(&mut self, run: &[u8], events: &mut E) {
        self.tokens += 1;
        let length = self.length + run.len() as u64;
        let most = if self.in_key { E::KEY_BYTES } else { E::TEXT_BYTES };
        let start = if self.length == 0 {
            &run[..run.len().min(most)]
        } else {
            self.keep::<E>(run);
            &self.kept
        };
        if self.in_key {
            events.key(start);
            self.state = ScannerState::Colon;
        } else {
            events.text(start, length);
            self.state = ScannerState::CommaOrEnd;
        }
    }

    #[inline]
    fn keep<E: Events>(&mut self, run: &[u8]) {
        self.length += run.len() as u64;
        if self.in_key {
            self.keep_start(run, E::KEY_BYTES);
        } else if E::TEXT_BYTES > 0 {
            self.keep_start(run, E::TEXT_BYTES);
        }
    }

    #[inline]
    fn keep_start(&mut self, run: &[u8], most: usize) {
        let room = most - self.kept.len();
        self.kept.extend_from_slice(&run[..run.len().min(room)]);
    }

    fn escape<E: Events>(&mut self, byte: u8, events: &mut E) -> bool {
        self.state = match byte {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => ScannerState::Text,
            b'u' => ScannerState::Hex(4),
            _ => return false,
        };
        events.piece(&[byte]);
        self.keep::<E>(&[byte]);
        true
    }

    fn hex<E: Events>(&mut self, byte: u8, left: u8, events: &mut E) -> bool {
        if !byte.is_ascii_hexdigit() {
            return false;
        }
        self.state = if left == 1 { ScannerState::Text } else { ScannerState::Hex(left - 1) };
        events.piece(&[byte]);
        self.keep::<E>(&[byte]);
        true
    }

    #[inline]
    fn word<E: Events>(
        &mut self,
        bytes: &[u8],
        (word, read, scalar): (&'static [u8], usize, Scalar),
        at: usize,
        events: &mut E,
    ) -> Option<usize> {
        let left = &word[read..];
        if bytes[at..].starts_with(left) {
            events.piece(left);
            events.scalar(scalar, word);
            self.end_scalar(at + left.len(), events);
            return Some(left.len());
        }
        if bytes[at] != left[0] {
            return None;
        }
        events.piece(&left[..1]);
        self.state = ScannerState::Word(word, read + 1, scalar);
        Some(1)
    }

    /// Scans the rest of a number, as far as `bytes` contain it. The number ends before the first
    /// byte that does not belong to it. That byte is an error if the number is incomplete.
    #[inline]
    fn number<E: Events>(
        &mut self,
        bytes: &[u8],
        at: usize,
        mut number: NumberState,
        events: &mut E,
    ) -> Option<usize> {
        if number == NumberState::Minus && bytes[at] == b'I' {
            self.state = self.loose_word(b"-Infinity")?;
            return Some(0);
        }
        let mut read = 0;
        while let Some(next) = bytes.get(at + read).and_then(|byte| number.next(*byte)) {
            number = next;
            read += 1;
            if number.takes_digits() {
                read += bytes[at + read..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            }
        }
        let written = &bytes[at..at + read];
        if read > 0 {
            events.piece(written);
        }
        if E::TEXT_BYTES > 0 && events.reads_numbers() {
            self.keep_start(written, E::TEXT_BYTES);
        }
        self.state = ScannerState::Number(number);
        if at + read == bytes.len() {
            return Some(read);
        }
        match number.ended() {
            Some(scalar) => {
                events.scalar(scalar, &self.kept);
                self.end_scalar(at + read, events);
            }
            None if read == 0 => return None,
            None => {}
        }
        Some(read)
    }

    #[inline]
    fn end_scalar<E: Events>(&mut self, at: usize, events: &mut E) {
        self.tokens += 1;
        events.ends(at);
        self.state = ScannerState::CommaOrEnd;
    }
}

fn spaces(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| **byte == b' ').count()
}

// Returns the number of bytes before the next quote, backslash or control character. Examines eight
// bytes at a time.
#[inline]
fn plain_run(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let (words, rest) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let zero_in = |x: u64| x.wrapping_sub(ONES) & !x & HIGH;
        let below_space = word.wrapping_sub(ONES * 0x20) & !word & HIGH;
        let quote = zero_in(word ^ (ONES * u64::from(b'"')));
        let found = below_space | quote | zero_in(word ^ (ONES * u64::from(b'\\')));
        if found != 0 {
            return index * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    let plain = |byte: &&u8| !matches!(**byte, b'"' | b'\\' | 0..0x20);
    words.len() * 8 + rest.iter().take_while(plain).count()
}

const UNIT: usize = 6;
/// Maximum number of bytes of an escape: a pair of UTF-16 code units, such as `\ud83d\ude00`.
pub const LONGEST_ESCAPE: usize = 2 * UNIT;

/// Returns the character of the JSON escape at the start of `text`, and the length of the escape in
/// bytes. Returns `None` if `text` does not begin with a JSON escape. A UTF-16 surrogate without
/// its pair is decoded as U+FFFD.
pub fn escaped_char(text: &[u8]) -> Option<(char, usize)> {
    let [b'\\', escaped, ..] = text else { return None };
    let character = match escaped {
        b'"' | b'\\' | b'/' => char::from(*escaped),
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => {
            let first = code_unit(text)?;
            let second = code_unit(&text[UNIT..]).filter(|_| (0xd800..0xdc00).contains(&first));
            let pair = second.and_then(|second| char::decode_utf16([first, second]).next()?.ok());
            let single = || char::from_u32(first.into()).unwrap_or(char::REPLACEMENT_CHARACTER);
            return Some(pair.map_or_else(|| (single(), UNIT), |pair| (pair, LONGEST_ESCAPE)));
        }
        _ => return None,
    };
    Some((character, 2))
}

/// Replaces the escape of half a surrogate pair, such as `\ud83d`, by U+FFFD. Parsers refuse a text
/// with such an escape as a whole.
pub fn without_half_pairs(json: &str) -> Cow<'_, str> {
    if !json.contains("\\ud") && !json.contains("\\uD") {
        return Cow::Borrowed(json);
    }
    let (mut text, mut rest) = (String::with_capacity(json.len()), json);
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        let (character, length) = escaped_char(escape.as_bytes()).unwrap_or(('\\', 1));
        text.push_str(before);
        match character {
            char::REPLACEMENT_CHARACTER => text.push(character),
            _ => text.push_str(&escape[..length]),
        }
        rest = &escape[length..];
    }
    (text + rest).into()
}

fn code_unit(text: &[u8]) -> Option<u16> {
    let digits = text.get(..UNIT)?.strip_prefix(b"\\u")?;
    let is_number = digits.iter().all(u8::is_ascii_hexdigit);
    u16::from_str_radix(str::from_utf8(digits).ok().filter(|_| is_number)?, 16).ok()
}

/// The kind of a value that is not a string, an object or an array. A number without fraction and
/// exponent is an `Int`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the contract of the type describes its variants")]
pub enum Scalar {
    Null,
    Bool,
    Int,
    Float,
}

/// A receiver of the events of a [`Scanner`]. By default, an event does nothing.
///
/// The events of a value are, in this order:
///
/// - [`begins`](Self::begins)
/// - [`scalar`](Self::scalar), or [`text`](Self::text), or the beginning of an object or array, the
///   events of its content, and [`end`](Self::end)
/// - [`ends`](Self::ends)
///
/// Positions are indexes into the bytes of the current push, so a value may end in a later push
/// than the one in which it began.
///
/// For receivers that copy values, there are also events for the tokens:
/// [`bracket`](Self::bracket), [`comma`](Self::comma), [`colon`](Self::colon), and
/// [`piece`](Self::piece) for keys, strings, numbers and words. Each comes before the event that
/// tells the meaning of the token.
pub trait Events {
    /// Maximum number of bytes of a key that are passed to [`key`](Self::key), as written. The rest
    /// of a longer key is dropped.
    const KEY_BYTES: usize = 0;
    /// Maximum number of bytes of a string or number that are passed on, as written. The rest is
    /// dropped.
    const TEXT_BYTES: usize = 0;

    /// The bytes of the next push begin at `offset` of the stream.
    #[inline]
    fn block(&mut self, _offset: u64) {}

    /// There is a newline between tokens or values.
    #[inline]
    fn newline(&mut self) {}

    /// A value begins with the byte at `at`.
    #[inline]
    fn begins(&mut self, _at: usize) {}

    /// Returns true if the receiver needs the text of numbers. The scanner asks at each number. The
    /// default returns true.
    #[inline]
    fn reads_numbers(&self) -> bool {
        true
    }

    /// The value is a word or a number. `written` is the word, or up to `TEXT_BYTES` of the number.
    #[inline]
    fn scalar(&mut self, _scalar: Scalar, _written: &[u8]) {}

    /// The value is a string that begins with `start`. The whole string has `length` bytes as
    /// written.
    #[inline]
    fn text(&mut self, _start: &[u8], _length: u64) {}

    /// The value is an object.
    #[inline]
    fn begin_object(&mut self) {}

    /// The value is an array.
    #[inline]
    fn begin_array(&mut self) {}

    /// The key of the next value.
    #[inline]
    fn key(&mut self, _key: &[u8]) {}

    /// The innermost object or array ends.
    #[inline]
    fn end(&mut self) {}

    /// A value ends before the byte at `at`.
    #[inline]
    fn ends(&mut self, _at: usize) {}

    /// An object or an array begins or ends with this bracket.
    #[inline]
    fn bracket(&mut self, _byte: u8) {}

    /// A comma.
    #[inline]
    fn comma(&mut self) {}

    /// A colon.
    #[inline]
    fn colon(&mut self) {}

    /// Bytes of a comment as written, without the newline after a `//` comment. `ends` is true for
    /// its last piece.
    #[inline]
    fn comment(&mut self, _bytes: &[u8], _ends: bool) {}

    /// Bytes of a key, a string, a number or a word as written, including quotes. A token may be
    /// passed in several pieces.
    #[inline]
    fn piece(&mut self, _bytes: &[u8]) {}

    /// The stream turned out not to be JSON. No more events follow.
    fn broken(&mut self) {}
}

/// Maximum nesting depth. The scanner keeps one bit for each level, at most 128 KiB. All JSON
/// readers that were tried support far fewer levels.
const MAX_DEPTH: usize = 1 << 20;

// The open brackets, with one bit for each: 1 for an object, 0 for an array.
#[derive(Debug, Clone, Default)]
struct Nesting {
    bits: Vec<u64>,
    depth: usize,
    in_object: bool,
}

impl Nesting {
    // Opens a bracket. Returns `None` if too many brackets are open.
    #[inline]
    fn push(&mut self, object: bool) -> Option<()> {
        if self.depth == MAX_DEPTH {
            return None;
        }
        let (word, bit) = (self.depth / 64, self.depth % 64);
        if word == self.bits.len() {
            self.bits.push(0);
        }
        self.bits[word] = self.bits[word] & !(1 << bit) | u64::from(object) << bit;
        self.depth += 1;
        self.in_object = object;
        Some(())
    }

    #[inline]
    fn pop(&mut self) {
        self.depth -= 1;
        self.in_object = self.depth > 0 && {
            let top = self.depth - 1;
            self.bits[top / 64] >> (top % 64) & 1 == 1
        };
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NumberState {
    Minus,
    Zero,
    Integer,
    Point,
    Fraction,
    Exponent,
    ExponentSign,
    ExponentDigits,
}

impl NumberState {
    #[inline]
    fn next(self, byte: u8) -> Option<Self> {
        Some(match (self, byte) {
            (Self::Integer, b'0'..=b'9') | (Self::Minus, b'1'..=b'9') => Self::Integer,
            (Self::Minus, b'0') => Self::Zero,
            (Self::Zero | Self::Integer, b'.') => Self::Point,
            (Self::Point | Self::Fraction, b'0'..=b'9') => Self::Fraction,
            (Self::Zero | Self::Integer | Self::Fraction, b'e' | b'E') => Self::Exponent,
            (Self::Exponent, b'+' | b'-') => Self::ExponentSign,
            (Self::Exponent | Self::ExponentSign | Self::ExponentDigits, b'0'..=b'9') => {
                Self::ExponentDigits
            }
            _ => return None,
        })
    }

    // Returns true if further digits do not change the state.
    #[inline]
    fn takes_digits(self) -> bool {
        matches!(self, Self::Integer | Self::Fraction | Self::ExponentDigits)
    }

    fn ended(self) -> Option<Scalar> {
        match self {
            Self::Zero | Self::Integer => Some(Scalar::Int),
            Self::Fraction | Self::ExponentDigits => Some(Scalar::Float),
            Self::Minus | Self::Point | Self::Exponent | Self::ExponentSign => None,
        }
    }
}
