
use std::io::Write;
use std::{io, mem};

use crate::bucket::LINE_BYTES;
use crate::remote::MessagesAt;
use crate::remote::push::message;
use ctxfs_core::model::Content as _;
use ctxfs_store::Artifact;
use ctxfs_store::message::{LogLine, LogLines};

///+ The published part of the local log.
#[derive(Debug)]
pub(super) struct OwnPart {
    /// Its end.
    pub(super) at: MessagesAt,
    ///+ Digest of its messages; see [`add_message`].
    pub(super) digest: blake3::Hash,
    ///+ Lines that cannot be shared, each with the digest of the message before it. There are hardly
    ///+ any.
    unshared: Vec<(Option<blake3::Hash>, LogLine)>,
}

///+ Adds a message to a digest of messages.
pub(super) fn add(digest: &mut blake3::Hasher, text: &str) {
    digest.update(text.as_bytes());
    digest.update(b"\n");
}

impl OwnPart {
    ///+ Reads the part of the log, which ends `at` a position.
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

    pub(super) fn write_first(&mut self, out: &mut impl Write) -> io::Result<()> {
        self.write_those_after(None, out)
    }

    pub(super) fn write_after(&mut self, text: &str, out: &mut impl Write) -> io::Result<()> {
        if self.unshared.is_empty() {
            return Ok(());
        }
        self.write_those_after(Some(blake3::hash(text.as_bytes())), out)
    }

    ///+ Writes the lines whose message was removed.
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
