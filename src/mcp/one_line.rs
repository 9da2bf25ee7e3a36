//! Messages that may have newlines, as lines.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::{io, mem};

use memchr::memchr2;
use tokio::io::{AsyncRead, ReadBuf};

/// A reader with spaces in place of newlines, which in JSON stand only where white space does.
pub(super) struct OneLine<R>(pub(super) R);

impl<R: AsyncRead + Unpin> AsyncRead for OneLine<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.0).poll_read(cx, into))?;
        flatten(&mut into.filled_mut()[before..]);
        Poll::Ready(Ok(()))
    }
}

/// A reader of JSON values, each of which becomes a line: within one, newlines are spaces.
pub(super) struct ValueLines<R> {
    input: R,
    /// The brackets that are open.
    depth: usize,
    in_text: bool,
    is_escaped: bool,
}

impl<R> ValueLines<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, depth: 0, in_text: false, is_escaped: false }
    }

    fn part(&mut self, mut bytes: &mut [u8]) {
        while !bytes.is_empty() {
            let is_text = self.in_text && !self.is_escaped;
            let end = if is_text { memchr2(b'"', b'\\', bytes).unwrap_or(bytes.len()) } else { 0 };
            let (text, rest) = mem::take(&mut bytes).split_at_mut(end);
            flatten(text);
            if let Some((next, rest)) = rest.split_first_mut() {
                self.step(next);
                bytes = rest;
            }
        }
    }

    fn step(&mut self, byte: &mut u8) {
        match *byte {
            b'\n' | b'\r' if self.depth > 0 => *byte = b' ',
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' => self.is_escaped = self.in_text,
            b'"' => self.in_text = self.depth > 0 && !self.in_text,
            b'{' | b'[' if !self.in_text => self.depth += 1,
            b'}' | b']' if !self.in_text => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for ValueLines<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.input).poll_read(cx, into))?;
        self.part(&mut into.filled_mut()[before..]);
        Poll::Ready(Ok(()))
    }
}

/// Replaces newlines by spaces.
pub(super) fn flatten(bytes: &mut [u8]) {
    let mut from = 0;
    while let Some(at) = memchr2(b'\n', b'\r', &bytes[from..]) {
        bytes[from + at] = b' ';
        from += at + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_is_a_line() {
        for (given, expected) in [
            ("{\n\"a\":\r\n[1,\n2]}\n{\"b\":{}}\n", "{ \"a\":  [1, 2]}\n{\"b\":{}}\n"),
            (r#"{"a":"}{\"[\\"}"#, r#"{"a":"}{\"[\\"}"#),
            ("{\"a\":\"\\\\\"\n}\n{}", "{\"a\":\"\\\\\" }\n{}"),
            ("no \"json\n}\n{\n}", "no \"json\n}\n{ }"),
        ] {
            for step in [1, 2, 100] {
                let mut lines = ValueLines::new(());
                let mut bytes = given.as_bytes().to_vec();
                bytes.chunks_mut(step).for_each(|part| lines.part(part));
                assert_eq!(String::from_utf8(bytes).unwrap(), expected, "{given:?} by {step}");
            }
        }
    }
}
