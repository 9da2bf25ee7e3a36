//! Recording a file anew that others renamed, or changed beside its bytes.

use std::fs::File;
use std::{io, slice};

use rustix::fs::OFlags;

use crate::clock::FileClock;
use crate::conversation::Conversation;
use crate::error::StoreError;
use crate::file_mark::FileMark;
use crate::held_file::{HeldFile, unless_of_place};
use crate::stat::Stat;
use crate::{arrival, stat};
use ctxfs_core::model::{Record, RelPath};

const OTHER_BYTES: &str = "the bucket has other bytes";

impl Conversation {
    /// Makes sure that the record of the file at `path` describes it, and that its bytes are those
    /// that `known` tells of, a record of this artifact from the bucket. Returns the reason if that
    /// is not so: it differs from `mark`, has other bytes, or is being written.
    ///
    /// Reads the file if its record describes it no more: somebody renamed it, or changed its
    /// attributes, without ctxfs. Nobody waits for that. `clock` is that of the store's disk.
    pub fn recognise(
        &self,
        path: &RelPath,
        (mark, known): (&FileMark, &Record),
        clock: FileClock,
    ) -> Result<Result<(), &'static str>, StoreError> {
        let opened = unless_of_place(self.opened(path));
        let (file, stat) = match opened.map_err(|error| self.error_at("open", path, error))? {
            Ok(opened) => opened,
            Err(why) => return Ok(Err(why)),
        };
        if FileMark::of(&stat) != *mark {
            return Ok(Err("it was changed meanwhile"));
        }
        let record = self.record(path)?;
        if let Some(record) = record.filter(|record| stat.is_recorded(record)) {
            let is_same = is_of_same_bytes(&record, known);
            return Ok(if is_same { Ok(()) } else { Err(OTHER_BYTES) });
        }
        if clock.is_recent(&stat) {
            return Ok(Err("it was changed a moment ago"));
        }
        let digest = digest_of(&file).map_err(|error| self.error_at("read", path, error))?;
        if digest_in(known) != Some(&digest) {
            return Ok(Err(OTHER_BYTES));
        }
        self.record_anew(path, known, &stat)
    }

    fn opened(&self, path: &RelPath) -> io::Result<(File, Stat)> {
        let file = self.dir().open_file_at(path, OFlags::RDONLY | OFlags::NOATIME)?;
        let stat = stat::stat_file(&file)?;
        Ok((file, stat))
    }

    /// Records the file, which has the bytes that `known` tells of if it still is as `stat` says.
    fn record_anew(
        &self,
        path: &RelPath,
        known: &Record,
        stat: &Stat,
    ) -> Result<Result<(), &'static str>, StoreError> {
        let lock = self.manifest().lock()?;
        let held = match HeldFile::of(self, path, &FileMark::of(stat))? {
            Ok(held) => held,
            Err(why) => return Ok(Err(why)),
        };
        if !held.stat.is_unchanged(stat) {
            return Ok(Err("it was changed meanwhile"));
        }
        if !held.is_leased {
            return Ok(Err("its disk cannot tell whether it is being written"));
        }
        let own = held.record.as_ref().filter(|record| is_of_same_bytes(record, known));
        let record = arrival::recorded(path, own.unwrap_or(known), stat);
        lock.append(slice::from_ref(&record))?;
        Ok(Ok(()))
    }
}

fn digest_in(record: &Record) -> Option<&String> {
    record.analysis.as_ref().map(|analysis| &analysis.digest)
}

fn is_of_same_bytes(record: &Record, known: &Record) -> bool {
    digest_in(record).is_some() && digest_in(record) == digest_in(known)
}

fn digest_of(file: &File) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(file)?;
    Ok(hasher.finalize().to_hex().to_string())
}

#[cfg(test)]
mod tests;
