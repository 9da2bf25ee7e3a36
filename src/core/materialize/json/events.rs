//! The events of a scanner.

/// A value other than a string, an object and an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar {
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// A number without fraction or exponent.
    Int,
    /// Any other number.
    Float,
}

/// A receiver of the events of a scanner.
///
/// Each value has the events [`begins`](Self::begins); then [`scalar`](Self::scalar) or
/// [`text`](Self::text), or the beginning of an object or array, the events of its content, and
/// [`end`](Self::end); then [`ends`](Self::ends). Positions are indexes into the bytes of the
/// current push, so a value may end in a later push than it began.
///
/// For receivers that copy values there are events of the tokens as well, each before the event of
/// its meaning: [`bracket`](Self::bracket), [`comma`](Self::comma), [`colon`](Self::colon) and, for
/// keys, strings, numbers and words, [`piece`](Self::piece).
pub trait Events {
    /// The most bytes of a key that are passed on, as written. The rest of a longer key is dropped.
    const KEY_BYTES: usize = 0;
    /// As `KEY_BYTES`, for strings and numbers.
    const TEXT_BYTES: usize = 0;

    /// The bytes of the next push begin at `offset` of the stream.
    #[inline]
    fn block(&mut self, _offset: u64) {}

    /// A newline between tokens or values.
    #[inline]
    fn newline(&mut self) {}

    /// A value begins with the byte at `at`.
    #[inline]
    fn begins(&mut self, _at: usize) {}

    /// Returns true if the next value is to be passed on as written if it is a number.
    #[inline]
    fn reads_numbers(&self) -> bool {
        true
    }

    /// The value is a word or a number. `written` is the word, or up to `TEXT_BYTES` of the number.
    #[inline]
    fn scalar(&mut self, _scalar: Scalar, _written: &[u8]) {}

    /// The value is a string of `length` bytes as written, which begins with `start`.
    #[inline]
    fn text(&mut self, _start: &[u8], _length: u64) {}

    /// The value is an object.
    #[inline]
    fn begin_object(&mut self) {}

    /// The value is an array.
    #[inline]
    fn begin_array(&mut self) {}

    /// The key of the value that comes next.
    #[inline]
    fn key(&mut self, _key: &[u8]) {}

    /// The innermost object or array ends.
    #[inline]
    fn end(&mut self) {}

    /// A value ends before the byte at `at`.
    #[inline]
    fn ends(&mut self, _at: usize) {}

    /// An object or an array begins or ends with this byte.
    #[inline]
    fn bracket(&mut self, _byte: u8) {}

    /// A comma.
    #[inline]
    fn comma(&mut self) {}

    /// A colon.
    #[inline]
    fn colon(&mut self) {}

    /// Bytes of a key, a string, a number or a word as written, with quotes. A token may come in
    /// several pieces.
    #[inline]
    fn piece(&mut self, _bytes: &[u8]) {}

    /// The stream is not JSON after all. No more events follow.
    fn broken(&mut self) {}
}
