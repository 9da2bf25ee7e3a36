//! The escape sequences after which a line is written anew.

use memchr::memchr;

/// Finds sequences that move the cursor to the first column (`ESC [ G`, `ESC [ 1 G`), or erase the
/// line (`ESC [ 2 K`), in a stream that may be cut anywhere.
///
/// `ESC [ K` erases only what follows the cursor, and so nothing in a log.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum LineStarts {
    #[default]
    Text,
    Escape,
    /// After `ESC [` and the only digit of its argument; a space if there is none yet.
    Argument(u8),
    /// After an argument of any other form.
    Other,
}

impl LineStarts {
    /// Passes to `each` the parts of `bytes`, and true for one that ends with such a sequence.
    pub(super) fn split(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8], bool)) {
        let (mut from, mut at) = (0, 0);
        while at < bytes.len() {
            if matches!(self, Self::Text) {
                match memchr(0x1b, &bytes[at..]) {
                    Some(escape) => at += escape,
                    None => break,
                }
            }
            at += 1;
            if self.ends_with(bytes[at - 1]) {
                each(&bytes[from..at], true);
                from = at;
            }
        }
        each(&bytes[from..], false);
    }

    /// Takes the next byte. Returns true if it ends such a sequence.
    fn ends_with(&mut self, byte: u8) -> bool {
        let before = *self;
        *self = match (before, byte) {
            (_, 0x1b) => Self::Escape,
            (Self::Escape, b'[') => Self::Argument(b' '),
            (Self::Argument(b' '), b'0'..=b'9') => Self::Argument(byte),
            (Self::Argument(_) | Self::Other, 0x20..=0x3f) => Self::Other,
            _ => Self::Text,
        };
        matches!(
            (before, byte),
            (Self::Argument(b' ' | b'0' | b'1'), b'G') | (Self::Argument(b'2'), b'K')
        )
    }
}
