//! The artifacts that the messages of a conversation refer to.
//!
//! A message refers to an artifact by its path (in `fullOutputPath`, a reference or any text) or,
//! if it is the result of the artifact's call, by `tool_call_id`. The log is read as bytes, one
//! block at a time, and its lines may have any length. Lines that are not messages count too:
//! keeping an output too long is better than removing it too early.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::Arc;

use crate::{Conversation, StoreError, read_full_at};
use ctxfs_core::model::{Record, RelPath};

const BLOCK: usize = 256 * 1024;
/// Maximum length of a mention in bytes: a path inside a conversation and a few bytes around it.
const MENTION: usize = 512;
const PATH: &[u8] = b"artifacts/";
const CALL: &[u8] = b"\"tool_call_id\"";

/// Returns for each of `paths` whether a message refers to it. Both the messages of the local log
/// and the messages in `published`, which come from all hosts, count.
pub(super) fn referenced(
    conversation: &Conversation,
    published: Option<File>,
    paths: &[&RelPath],
) -> Result<Vec<bool>, StoreError> {
    let mut mentioned = vec![false; paths.len()];
    let logs = [conversation.log_file()?, published.map(Arc::new)];
    let logs: Vec<_> = logs.into_iter().flatten().collect();
    if logs.is_empty() {
        return Ok(mentioned);
    }
    let names = ArtifactNames::of(conversation, paths)?;
    for log in logs {
        let read = each_window(&log, |window, fresh| names.look(window, fresh, &mut mentioned));
        read.map_err(|error| conversation.log_error("read", error))?;
    }
    Ok(mentioned)
}

#[derive(Default)]
struct ArtifactNames {
    paths: HashMap<Vec<u8>, usize>,
    /// Indexes of the outputs of each call, by call id. A call may have several outputs.
    calls: HashMap<Vec<u8>, Vec<usize>>,
}

impl ArtifactNames {
    fn of(conversation: &Conversation, paths: &[&RelPath]) -> Result<Self, StoreError> {
        let mut names = Self::default();
        for (number, path) in paths.iter().enumerate() {
            let text = path.to_text();
            let below = text.strip_prefix("artifacts/").unwrap_or(&text);
            names.paths.insert(below.as_bytes().to_vec(), number);
            let call = match conversation.record(path)? {
                Some(record) => record.call().to_owned(),
                None => Record { path: text, ..Record::default() }.call().to_owned(),
            };
            names.calls.entry(call.into_bytes()).or_default().push(number);
        }
        Ok(names)
    }

    /// Marks the artifacts that `window` mentions. Only mentions that begin in the first `fresh`
    /// bytes count.
    fn look(&self, window: &[u8], fresh: usize, mentioned: &mut [bool]) {
        for at in memchr::memmem::find_iter(window, PATH).take_while(|at| *at < fresh) {
            if let Some(number) = self.path(&window[at + PATH.len()..]) {
                mentioned[number] = true;
            }
        }
        for at in memchr::memmem::find_iter(window, CALL).take_while(|at| *at < fresh) {
            let call = text_value(&window[at + CALL.len()..]);
            for number in call.and_then(|call| self.calls.get(call)).into_iter().flatten() {
                mentioned[*number] = true;
            }
        }
    }

    /// Returns the artifact whose path is a prefix of `text`. If several are, the longest path
    /// wins. The path may be followed by the name of a view or the end of a sentence.
    fn path(&self, text: &[u8]) -> Option<usize> {
        let end = memchr::memchr3(b'"', b'\\', b'\n', text).unwrap_or(text.len());
        let mut name = &text[..end.min(MENTION)];
        loop {
            if let Some(number) = self.paths.get(name) {
                return Some(*number);
            }
            let last = name.iter().rposition(|byte| !byte.is_ascii_alphanumeric())?;
            name = &name[..last];
        }
    }
}

fn text_value(after: &[u8]) -> Option<&[u8]> {
    let rest = after.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    let rest = rest.strip_prefix(b"\"")?;
    let end = memchr::memchr2(b'"', b'\\', rest)?;
    (rest[end] == b'"').then_some(&rest[..end])
}

/// Calls `look` with windows of the file, and with the number of fresh bytes at the start of each
/// window. Consecutive windows overlap by the length of a mention. Every byte is fresh in exactly
/// one window.
fn each_window(file: &File, mut look: impl FnMut(&[u8], usize)) -> io::Result<()> {
    let mut buffer = vec![0; BLOCK + MENTION];
    let mut offset = 0;
    loop {
        let count = read_full_at(file, offset, &mut buffer)?;
        let last = count < buffer.len();
        look(&buffer[..count], if last { count } else { BLOCK });
        if last {
            return Ok(());
        }
        offset += BLOCK as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(paths: &[(&str, &str)]) -> ArtifactNames {
        let mut names = ArtifactNames::default();
        for (number, (path, call)) in paths.iter().enumerate() {
            names.paths.insert(path.as_bytes().to_vec(), number);
            names.calls.entry(call.as_bytes().to_vec()).or_default().push(number);
        }
        names
    }

    fn marked(text: &str) -> Vec<usize> {
        let names = names(&[
            ("tool/a.txt", "a"),
            ("tool/a.txt.b", "c1"),
            ("terminal/s 1.log", "s 1"),
            ("tool/a.json", "a"),
        ]);
        let mut mentioned = vec![false; 4];
        names.look(text.as_bytes(), text.len(), &mut mentioned);
        (0..4).filter(|at| mentioned[*at]).collect()
    }

    #[test]
    fn paths_and_calls_are_mentions() {
        let cases: [(&str, &[usize]); 12] = [
            ("{\"fullOutputPath\":\"/ctx/c7/artifacts/tool/a.txt\"}", &[0]),
            ("{\\\"fullOutputPath\\\":\\\"/ctx/c7/artifacts/tool/a.txt\\\"}", &[0]),
            ("see ctx://c7/artifacts/tool/a.txt.", &[0]),
            ("cat /ctx/c7/artifacts/tool/a.txt.grep/-i x", &[0]),
            ("artifacts/tool/a.txt.b.summary", &[1]),
            ("artifacts/terminal/s 1.log\\n", &[2]),
            ("artifacts/tool/a.tx", &[]),
            ("artifacts/tool/ab.txt", &[]),
            ("{\"tool_call_id\":\"a\"}", &[0, 3]),
            ("{\"tool_call_id\" : \"c1\"}", &[1]),
            ("{\"tool_call_id\":null,\"x\":\"a\"}", &[]),
            ("{\"tool_call_id\":\"a", &[]),
        ];
        for (text, want) in cases {
            assert_eq!(marked(text), want, "{text}");
        }
    }

    #[test]
    fn mentions_are_found_wherever_the_blocks_end() {
        for before in BLOCK - 40..BLOCK + 4 {
            let file = tempfile::NamedTempFile::new().unwrap();
            let text = " ".repeat(before) + "artifacts/tool/a.txt \"tool_call_id\":\"c1\" ";
            std::fs::write(file.path(), text).unwrap();
            let names = names(&[("tool/a.txt", "-"), ("tool/b", "c1")]);
            let mut mentioned = vec![false; 2];
            let look = |window: &[u8], fresh| names.look(window, fresh, &mut mentioned);
            each_window(file.as_file(), look).unwrap();
            assert_eq!(mentioned, [true, true], "{before}");
        }
    }
}
