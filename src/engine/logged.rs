//! The messages of a conversation as a person reads them, a page at a time, from either end.

use std::io;

use crate::{Engine, EngineError, Result};
use ctxfs_core::model::{Component, Content as _, RelPath};
use ctxfs_store::message::{Log, LogLine, LogLines, MessageEntry};
use ctxfs_store::{Conversation, message};

/// Bytes that are read at once on the way back.
const BLOCK: u64 = 256 << 10;
/// The most bytes of the messages of a page, unless one alone has more.
const PAGE_BYTES: u64 = 4 << 20;

/// The messages that are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageRange {
    /// The last ones before this offset of the log, or before its end if it is shorter.
    Before(u64),
    /// The first ones from this offset on, where one begins.
    From(u64),
}

/// A message, by its place in the log.
#[derive(Debug)]
pub struct LoggedMessage {
    /// The offset of its line.
    pub offset: u64,
    /// The message, or the line as text if it is none, cut short; secrets are masked.
    pub message: std::result::Result<MessageEntry, String>,
    /// The artifact with the whole result, and its bytes.
    pub output: Option<(RelPath, u64)>,
}

/// Some messages that follow each other.
#[derive(Debug, Default)]
pub struct MessagePage {
    /// The messages, oldest first.
    pub messages: Vec<LoggedMessage>,
    /// The offset of the first one; there are older ones if it is not 0.
    pub start: u64,
    /// The offset of what follows the last one.
    pub end: u64,
}

/// Reads at most `most` messages of the conversation `id`. A conversation without a log has none.
pub(super) fn messages(
    engine: &Engine,
    id: &Component,
    range: MessageRange,
    most: usize,
) -> Result<MessagePage> {
    if engine.options.only.as_ref().is_some_and(|only| only != id) {
        return Err(EngineError::NotFound);
    }
    let conversation = engine.conversation(id)?;
    let others = engine.options.other_messages.as_deref();
    let log = message::log_of(&conversation, others)?;
    let Some(log) = log else { return Ok(MessagePage::default()) };
    let (start, stop) = match range {
        MessageRange::From(offset) => (offset.min(log.len()), log.len()),
        MessageRange::Before(offset) => {
            let stop = offset.min(log.len());
            (start_before(&log, stop, most)?, stop)
        }
    };
    let mut lines = LogLines::from(log, start);
    let mut page = MessagePage { messages: Vec::new(), start, end: start };
    while page.end < stop && page.messages.len() < most && page.end - start < PAGE_BYTES {
        let Some(line) = lines.next() else { break };
        let line = line?;
        page.end = lines.reached();
        let offset = page.end - line.len() - 1;
        page.messages.push(logged(engine, &conversation, offset, &line));
    }
    Ok(page)
}

fn logged(
    engine: &Engine,
    conversation: &Conversation,
    offset: u64,
    line: &LogLine,
) -> LoggedMessage {
    const SHOWN: usize = 4096;
    let LogLine::Bytes(bytes) = line else {
        let text = format!("a message of {} bytes", line.len());
        return LoggedMessage { offset, message: Err(text), output: None };
    };
    let line = String::from_utf8_lossy(bytes);
    let mask = engine.secrets.rules().map(|rules| |text: &str| rules.mask_text(text));
    let mask = mask.as_ref().map(|mask| mask as &dyn Fn(&str) -> String);
    let message = MessageEntry::parse(&line, mask).map_err(|_| {
        let line = mask.map_or_else(|| line.clone().into_owned(), |mask| mask(&line));
        line.chars().take(SHOWN).collect::<String>()
    });
    let output = message.as_ref().ok().and_then(|message| message.artifact(conversation));
    LoggedMessage { offset, message, output }
}

/// Returns where the last `most` lines before `stop` begin; fewer if they are long.
fn start_before(log: &Log, stop: u64, most: usize) -> io::Result<u64> {
    // The newline at `stop` ends the last line.
    let (mut at, mut start, mut found) = (stop.saturating_sub(1), stop, 0);
    while at > 0 && found < most {
        let from = at.saturating_sub(BLOCK);
        let block = log.bytes(from, (at - from) as usize)?;
        for newline in memchr::memrchr_iter(b'\n', &block) {
            start = from + newline as u64 + 1;
            found += 1;
            if found == most || stop - start > PAGE_BYTES {
                return Ok(start);
            }
        }
        at = from;
    }
    Ok(if found < most { 0 } else { start })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::sync::Arc;

    use super::*;
    use ctxfs_store::Artifact;

    #[test]
    fn the_last_lines_are_found_from_the_end() {
        let mut file = tempfile::tempfile().unwrap();
        let text = (0..100).map(|number| format!("line {number}\n")).collect::<Vec<_>>().concat();
        file.write_all(text.as_bytes()).unwrap();
        let log = Log::from(Artifact::new(Arc::new(file), text.len() as u64));
        let start = start_before(&log, log.len(), 3).unwrap();
        assert_eq!(&text[start as usize..], "line 97\nline 98\nline 99\n");
        let before = start_before(&log, start, 2).unwrap();
        assert_eq!(&text[before as usize..start as usize], "line 95\nline 96\n");
        assert_eq!(start_before(&log, log.len(), 100).unwrap(), 0);
        assert_eq!(start_before(&log, log.len(), 1000).unwrap(), 0);
        assert_eq!(start_before(&log, 0, 10).unwrap(), 0);
    }
}
