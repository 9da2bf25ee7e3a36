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
pub trait Events {
    /// Bytes of a key that are handed over, as written; the rest of a longer one is lost.
    const KEY_BYTES: usize;
    /// The same for strings and numbers.
    const TEXT_BYTES: usize = 0;

    /// A value begins with the byte at `at`.
    #[inline]
    fn begins(&mut self, _at: usize) {}

    /// The value is a word or a number; `written` is the number.
    fn scalar(&mut self, scalar: Scalar, written: &[u8]);

    /// The value is a string of `length` bytes, of which `start` are the first, as written.
    fn text(&mut self, start: &[u8], length: u64);

    /// The value is an object.
    fn begin_object(&mut self);

    /// The value is an array.
    fn begin_array(&mut self);

    /// The key of the value that comes next.
    fn key(&mut self, key: &[u8]);

    /// The innermost object or array has ended.
    fn end(&mut self);

    /// A value ended before the byte at `at`.
    #[inline]
    fn ends(&mut self, _at: usize) {}

    /// The stream turned out not to be JSON: nothing more comes.
    fn broken(&mut self) {}
}
