//! The escape sequences after which a line is drawn again.

use memchr::memchr;

/// A sequence after which a line is drawn again.
pub(super) enum Redraw {
    /// Moves the cursor to the first column (`ESC [ G`, `ESC [ 1 G`), or erases all of the line
    /// (`ESC [ 2 K`).
    FromStart,
    /// Erases what follows the cursor (`ESC [ K`): in a log, the line after a carriage return.
    EraseRest,
}

/// Finds such sequences in a stream that may be cut anywhere.
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
    /// Passes to `each` the parts of `bytes`, each with the sequence that it ends with.
    pub(super) fn split(&mut self, bytes: &[u8], mut each: impl FnMut(&[u8], Option<Redraw>)) {
        let (mut from, mut at) = (0, 0);
        while at < bytes.len() {
            if matches!(self, Self::Text) {
                match memchr(0x1b, &bytes[at..]) {
                    Some(escape) => at += escape,
                    None => break,
                }
            }
            at += 1;
            if let Some(end) = self.ends_with(bytes[at - 1]) {
                each(&bytes[from..at], Some(end));
                from = at;
            }
        }
        each(&bytes[from..], None);
    }

    /// Takes the next byte. Returns the sequence that it ends.
    fn ends_with(&mut self, byte: u8) -> Option<Redraw> {
        let before = *self;
        *self = match (before, byte) {
            (_, 0x1b) => Self::Escape,
            (Self::Escape, b'[') => Self::Argument(b' '),
            (Self::Argument(b' '), b'0'..=b'9') => Self::Argument(byte),
            (Self::Argument(_) | Self::Other, 0x20..=0x3f) => Self::Other,
            _ => Self::Text,
        };
        match (before, byte) {
            (Self::Argument(b' ' | b'0' | b'1'), b'G') | (Self::Argument(b'2'), b'K') => {
                Some(Redraw::FromStart)
            }
            (Self::Argument(b' ' | b'0'), b'K') => Some(Redraw::EraseRest),
            _ => None,
        }
    }
}
