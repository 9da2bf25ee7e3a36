//! A stream of server-sent events.

use crate::http_client::LineEnds;
use crate::llm::fault::Fault;

/// The most bytes of a line, and of the data of an event.
pub(super) const MOST_LINE: usize = 4 * 1024 * 1024;

/// The place in a stream.
#[derive(Default)]
pub(super) struct Events {
    line: Vec<u8>,
    /// The data of the event so far, each of its lines followed by a newline.
    data: Vec<u8>,
    ends: LineEnds,
}

impl Events {
    /// Reads bytes, and hands the data of each event that ends in them to `take`.
    pub(super) fn push(
        &mut self,
        bytes: &[u8],
        mut take: impl FnMut(&str) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let mut rest = bytes;
        while let Some((part, is_end)) = self.ends.next_part(&mut rest) {
            fits(self.line.len() + part.len())?;
            self.line.extend_from_slice(part);
            if is_end {
                self.end_line(&mut take)?;
            }
        }
        Ok(())
    }

    /// Hands over the last event, which may lack its empty line.
    pub(super) fn finish(
        mut self,
        mut take: impl FnMut(&str) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        if !self.line.is_empty() {
            self.end_line(&mut take)?;
        }
        self.end_event(&mut take)
    }

    fn end_line(&mut self, take: &mut impl FnMut(&str) -> Result<(), Fault>) -> Result<(), Fault> {
        if self.line.is_empty() {
            return self.end_event(take);
        }
        // All other fields repeat what the data says.
        if let Some(value) = self.line.strip_prefix(b"data:") {
            fits(self.data.len() + value.len())?;
            self.data.extend_from_slice(value.strip_prefix(b" ").unwrap_or(value));
            self.data.push(b'\n');
        }
        self.line.clear();
        Ok(())
    }

    fn end_event(&mut self, take: &mut impl FnMut(&str) -> Result<(), Fault>) -> Result<(), Fault> {
        let taken = match self.data.strip_suffix(b"\n") {
            None | Some(b"") => Ok(()),
            Some(data) => take(&String::from_utf8_lossy(data)),
        };
        self.data.clear();
        taken
    }
}

fn fits(bytes: usize) -> Result<(), Fault> {
    if bytes > MOST_LINE {
        return Err(Fault::beyond(format!("sent an event of more than {MOST_LINE} bytes")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(stream: &[u8], step: usize) -> Vec<String> {
        let (mut events, mut found) = (Events::default(), Vec::new());
        for part in stream.chunks(step.max(1)) {
            let pushed = events.push(part, |data| {
                found.push(data.to_owned());
                Ok(())
            });
            assert!(pushed.is_ok());
        }
        let finished = events.finish(|data| {
            found.push(data.to_owned());
            Ok(())
        });
        assert!(finished.is_ok());
        found
    }

    #[test]
    fn events_are_read_in_any_pieces() {
        let table: &[(&str, &[&str])] = &[
            ("data: a\n\ndata: b\n\n", &["a", "b"]),
            ("data:a\r\n\r\ndata: b\r\rdata:  c\n\n", &["a", "b", " c"]),
            ("id: 7\nevent: x\ndata: {\ndata: }\n\n", &["{\n}"]),
            (": a comment\n\n:\n\ndata: a\n\n", &["a"]),
            ("data: the end lacks its empty line", &["the end lacks its empty line"]),
            ("data\ndatas: x\nunknown\n\ndata:\n\n", &[]),
            ("data: \u{e9}\u{1f600}\n\n", &["\u{e9}\u{1f600}"]),
        ];
        for (stream, found) in table {
            for step in [1, 2, 3, 7, 1000] {
                assert_eq!(read(stream.as_bytes(), step), *found, "{stream:?} by {step}");
            }
        }
        assert_eq!(read(b"data: \xff\n\n", 9), ["\u{fffd}"]);
    }

    #[test]
    fn memory_is_bounded() {
        for start in ["data: ", ": ", "name without end "] {
            let mut events = Events::default();
            let first = events.push(start.as_bytes(), |_| Ok(()));
            assert!(first.is_ok());
            let ended = (0..2000).find(|_| events.push(&[b'x'; 4096], |_| Ok(())).is_err());
            assert_eq!(ended, Some(1023), "{start}");
        }
        let mut events = Events::default();
        let line = format!("data: {}\n", "x".repeat(1024 * 1024));
        let ended = (0..9).find(|_| events.push(line.as_bytes(), |_| Ok(())).is_err());
        assert_eq!(ended, Some(3));
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(stream in "[a-e:\n\r dit]{0,60}|(data: [a-z\n\r]{0,9}\n){0,9}", step in 1..9_usize) {
            prop_assert_eq!(read(stream.as_bytes(), step), read(stream.as_bytes(), 1000));
        }
    }
}
