//! The part of this host's log that was published.

use std::io::Write;
use std::{io, mem};

use crate::bucket::LINE_BYTES;
use crate::remote::MessagesAt;
use crate::remote::push::message;
use ctxfs_core::model::Content as _;
use ctxfs_store::Artifact;
use ctxfs_store::message::{LogLine, LogLines};

/// What of the log of this host was published.
#[derive(Debug)]
pub(super) struct OwnPart {
    /// Its end.
    pub(super) at: MessagesAt,
    /// The digest of the messages in it that segments can say; see [`add`].
    pub(super) digest: blake3::Hash,
    /// The other lines, each with the digest of the message before it. There are hardly ever any.
    unshared: Vec<(Option<blake3::Hash>, LogLine)>,
}

/// Adds a message to the digest of many.
pub(super) fn add(digest: &mut blake3::Hasher, text: &str) {
    digest.update(text.as_bytes());
    digest.update(b"\n");
}

impl OwnPart {
    /// Reads it, which ends `at` some place.
    pub(super) fn read(part: &Artifact, at: MessagesAt) -> io::Result<Self> {
        let (mut digest, mut unshared, mut before) = (blake3::Hasher::new(), Vec::new(), None);
        for line in LogLines::of(part.clone()) {
            let line = line?;
            match shared(&line)? {
                Some(text) => {
                    add(&mut digest, &text);
                    before = Some(blake3::hash(text.as_bytes()));
                }
                None => unshared.push((before, line)),
            }
        }
        Ok(Self { at, digest: digest.finalize(), unshared })
    }

    /// Writes the lines before the first message.
    pub(super) fn write_first(&mut self, out: &mut impl Write) -> io::Result<()> {
        self.write_those_after(None, out)
    }

    /// Writes the lines that followed the message `text`.
    pub(super) fn write_after(&mut self, text: &str, out: &mut impl Write) -> io::Result<()> {
        if self.unshared.is_empty() {
            return Ok(());
        }
        self.write_those_after(Some(blake3::hash(text.as_bytes())), out)
    }

    /// Writes those whose message was removed.
    pub(super) fn write_rest(&mut self, out: &mut impl Write) -> io::Result<()> {
        mem::take(&mut self.unshared).iter().try_for_each(|(_, line)| write_line(line, out))
    }

    fn write_those_after(
        &mut self,
        message: Option<blake3::Hash>,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let all = mem::take(&mut self.unshared).into_iter();
        let (these, others): (Vec<_>, Vec<_>) = all.partition(|(before, _)| *before == message);
        self.unshared = others;
        these.iter().try_for_each(|(_, line)| write_line(line, out))
    }
}

/// Returns the message in a line, if a segment can say it.
fn shared(line: &LogLine) -> io::Result<Option<String>> {
    if line.len() >= LINE_BYTES as u64 {
        return Ok(None);
    }
    Ok(message(line.bytes(0, line.len() as usize)?).ok())
}

fn write_line(line: &LogLine, out: &mut impl Write) -> io::Result<()> {
    line.read(|block| out.write_all(block))?;
    out.write_all(b"\n")
}
