//! What a scanner tells of the values that it passes.

/// A value without parts, other than a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar {
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// A number without fraction and exponent.
    Int,
    /// Any other number.
    Float,
}

/// Is told what a scanner reads.
///
/// Of each value: [`begins`](Self::begins); then [`scalar`](Self::scalar), [`text`](Self::text), or
/// the beginning of an object or array, what is in it, and [`end`](Self::end); then
/// [`ends`](Self::ends). Places are indexes into the bytes that the scanner is being given, so a
/// value may end in a later piece than it began.
///
/// Whoever writes the values again is told the tokens too, each before what it means:
/// [`bracket`](Self::bracket), [`comma`](Self::comma), [`colon`](Self::colon) and, of keys, strings,
/// numbers and words, [`piece`](Self::piece).
pub trait Events {
    /// Bytes of a key that are handed over, as written; the rest of a longer one is lost.
    const KEY_BYTES: usize = 0;
    /// The same for strings and numbers.
    const TEXT_BYTES: usize = 0;

    /// A value begins with the byte at `at`.
    #[inline]
    fn begins(&mut self, _at: usize) {}

    /// The value is a word or a number; `written` is the number.
    #[inline]
    fn scalar(&mut self, _scalar: Scalar, _written: &[u8]) {}

    /// The value is a string of `length` bytes, of which `start` are the first, as written.
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

    /// The innermost object or array has ended.
    #[inline]
    fn end(&mut self) {}

    /// A value ended before the byte at `at`.
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

    /// Bytes of a key, a string, a number or a word as they stand, quotes included. A token comes in
    /// pieces.
    #[inline]
    fn piece(&mut self, _bytes: &[u8]) {}

    /// The stream turned out not to be JSON: nothing more comes.
    fn broken(&mut self) {}
}
