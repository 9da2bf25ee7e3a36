//! The message log of a conversation, merged from all hosts.
//!
//! ```text
//! <store>/remote/messages/<conversation>/published.jsonl
//! ```
//!
//! While only this host has published, in the order of its file, readers get that file. Otherwise
//! they get this one, followed by the unpublished rest of their own log. The first line is a
//! [`PublishedHead`]: the local log to which the file belongs, and the length of its published
//! part. A file for another local log is ignored. The file is rewritten after a pull; until then it
//! stays valid, since later messages of this host follow it.

mod own_part;
mod texts;

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::SystemTime;

use rustix::fs::{OFlags, RenameFlags};

use crate::remote::notes::Shown;
use crate::remote::published::{HEAD, Head, published_in};
use crate::remote::{Home, MessagesAt, Notes, RemoteError, Stored, Told, whole_file};
use crate::replica::{SegmentId, State};
use ctxfs_core::model::Content;
use ctxfs_store::message::{LockedLog, Log, Published};
use ctxfs_store::{Artifact, Conversation, Dir, FileMark, PUBLISHED, message, stat_file};

use own_part::OwnPart;
use texts::Texts;

const NEW: &str = "published.jsonl.new";
const BLOCK: usize = 256 << 10;

///+ Writer of the merged log of a conversation.
pub(super) struct Messages<'a> {
    pub(super) home: &'a Home,
    pub(super) notes: &'a Notes,
    pub(super) conversation: &'a Conversation,
    pub(super) state: &'a State<Stored, Told>,
    pub(super) segments: BTreeSet<SegmentId>,
    pub(super) at: MessagesAt,
    pub(super) now: u64,
}

impl Messages<'_> {
    ///+ Writes the merged log, unless it equals the local one.
    pub(super) fn keep(&self) -> Result<(), RemoteError> {
        let Some(own) = self.own_log()? else { return Ok(()) };
        let dir = self.home.messages(self.conversation.id())?;
        let part = self.own_part(&own).map_err(self.failed("read"))?;
        let (inode, born, segments) = (part.at.inode, part.at.born, self.segments.clone());
        self.notes.keep_shown(&Shown { inode, born, segments })?;
        if self.digest()? == part.digest {
            return forget(&dir, &own).map_err(self.failed("show"));
        }
        let at = part.at;
        let new = self.write(&dir, part)?;
        self.replace(&dir, &own, (new, at)).map_err(self.failed("show"))
    }

    ///+ Returns the local log. Creates it if only other hosts have messages.
    fn own_log(&self) -> Result<Option<Arc<File>>, RemoteError> {
        if self.state.messages.is_empty() && self.conversation.log_file()?.is_none() {
            return Ok(None);
        }
        Ok(Some(Arc::new(self.conversation.ensured_log_file()?)))
    }

    fn own_part(&self, own: &Arc<File>) -> io::Result<OwnPart> {
        let mark = FileMark::of(&stat_file(own)?);
        let offset = self.at.bytes_in(&mark);
        let at = MessagesAt { inode: mark.ino, born: mark.born, offset, ..self.at };
        OwnPart::read(&Artifact::new(Arc::clone(own), offset), at)
    }

    fn failed(&self, action: &'static str) -> impl Fn(io::Error) -> RemoteError {
        move |error| self.conversation.log_error(action, error).into()
    }

    fn each(
        &self,
        mut take: impl FnMut(&str) -> Result<(), RemoteError>,
    ) -> Result<(), RemoteError> {
        let mut texts = Texts::of(self.notes);
        self.state.messages.values().try_for_each(|told| take(&texts.text(told)?))
    }

    fn digest(&self) -> Result<blake3::Hash, RemoteError> {
        let mut digest = blake3::Hasher::new();
        self.each(|text| {
            own_part::add(&mut digest, text);
            Ok(())
        })?;
        Ok(digest.finalize())
    }

    ///+ Writes all messages to a new file after a blank first line. Local lines that cannot be
    ///+ shared follow the message that they followed in the local log.
    fn write(&self, dir: &Dir, mut part: OwnPart) -> Result<File, RemoteError> {
        let flags = OFlags::RDWR | OFlags::TRUNC;
        let file = dir.create_file(NEW.as_ref(), flags, whole_file::FILE_MODE);
        let file = file.map_err(self.failed("show"))?;
        let mut out = BufWriter::new(&file);
        let begun = out.write_all(&[b' '; HEAD]).and_then(|()| part.write_first(&mut out));
        begun.map_err(self.failed("show"))?;
        self.each(|text| {
            let written = writeln!(out, "{text}").and_then(|()| part.write_after(text, &mut out));
            written.map_err(self.failed("show"))
        })?;
        let ended = part.write_rest(&mut out).and_then(|()| out.flush());
        drop(out);
        ended.and_then(|()| file.sync_data()).map_err(self.failed("show"))?;
        Ok(file)
    }

    ///+ Publishes the new file to readers while the local log is locked.
    fn replace(&self, dir: &Dir, own: &Arc<File>, (new, at): (File, MessagesAt)) -> io::Result<()> {
        let _locked = LockedLog::wait(own)?;
        let new = Arc::new(new);
        let Some(edition) = self.edition(dir, own, (&new, at))? else {
            return whole_file::remove(dir, NEW);
        };
        new.write_all_at(&Head { edition, own: at }.line(), 0)?;
        new.sync_data()?;
        dir.rename(NEW.as_ref(), dir, PUBLISHED.as_ref(), RenameFlags::empty())?;
        dir.sync()?;
        touch(own);
        Ok(())
    }

    ///+ Returns the edition of the merged log with the file `new`: unchanged if the old log is a
    ///+ prefix of it, `None` if both are equal.
    fn edition(
        &self,
        dir: &Dir,
        own: &Arc<File>,
        (new, at): (&Arc<File>, MessagesAt),
    ) -> io::Result<Option<u64>> {
        let stat = stat_file(own)?;
        let whole = Artifact::new(Arc::clone(own), message::whole(own, stat.size)?);
        let known = published_in(dir, &stat)?.map(Arc::new);
        let known_edition = known.as_ref().map(|known| known.edition());
        let before = Log::new(whole.clone(), known);
        let range = HEAD as u64..new.metadata()?.len();
        let front = Published::new(Arc::clone(new), range, 0, at.offset);
        let after = Log::new(whole, Some(Arc::new(front)));
        let grows = begins_with(&after, &before)?;
        Ok(match known_edition {
            _ if grows && after.len() == before.len() => None,
            Some(edition) if grows => Some(edition),
            // Larger than the old edition, and than all earlier ones by the clock.
            edition => Some(self.now.max(edition.unwrap_or_default().saturating_add(1))),
        })
    }
}

///+ Removes the merged log, so that readers get the local one only.
fn forget(dir: &Dir, own: &Arc<File>) -> io::Result<()> {
    match dir.stat(PUBLISHED.as_ref()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        stat => stat?,
    };
    let _locked = LockedLog::wait(own)?;
    whole_file::remove(dir, PUBLISHED)?;
    touch(own);
    Ok(())
}

///+ Signals a changed log to programs that poll the time of the local file. A failure is harmless.
fn touch(own: &File) {
    if let Err(error) = own.set_modified(SystemTime::now()) {
        tracing::debug!(%error, "the time of a log stays as it was");
    }
}

fn begins_with(whole: &dyn Content, start: &dyn Content) -> io::Result<bool> {
    let mut offset = 0;
    while offset < start.len() {
        let block = start.bytes(offset, BLOCK)?;
        if block.is_empty() || whole.bytes(offset, block.len())? != block {
            return Ok(false);
        }
        offset += block.len() as u64;
    }
    Ok(true)
}

#[cfg(test)]
mod tests;
