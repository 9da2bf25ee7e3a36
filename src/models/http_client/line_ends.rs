//! The lines of a stream of server-sent events, which end with a newline, a carriage return, or
//! both.

/// The place between two lines of a stream that comes in pieces.
#[derive(Debug, Default)]
pub struct LineEnds {
    /// True if the last byte was a carriage return, which a newline may follow.
    after_return: bool,
}

impl LineEnds {
    /// Takes the next part of a line off `bytes`. Returns it, and true if the line ends with it.
    /// `None` if nothing is left.
    pub fn next_part<'a>(&mut self, bytes: &mut &'a [u8]) -> Option<(&'a [u8], bool)> {
        let first = *bytes.first()?;
        if std::mem::take(&mut self.after_return) && first == b'\n' {
            *bytes = &bytes[1..];
            return self.next_part(bytes);
        }
        let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) else {
            return Some((std::mem::take(bytes), false));
        };
        let part = &bytes[..end];
        self.after_return = bytes[end] == b'\r';
        *bytes = &bytes[end + 1..];
        Some((part, true))
    }
}
