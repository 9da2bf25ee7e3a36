//! Limits on room: the cap of an artifact, the quota of a conversation, and the free space on disk.
//!
//! Methods fail with the error of the limit that was reached: [`EngineError::TooLarge`],
//! [`EngineError::OverQuota`] or [`EngineError::DiskNearlyFull`].

use std::fs::File;
use std::sync::Weak;

use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::{DoorFile, Engine, EngineError, Quotas, Reservation, Result, RoomRequest, allow_slow};
use ctxfs_core::model::{Component, Record, RelPath};
use ctxfs_store::{Conversation, LEAST, Usage, growth_of_write, stat_file, whole_blocks};

/// Maximum number of bytes that are written between two measurements of the free space on disk.
const BETWEEN: u64 = 16 * 1024 * 1024;
/// Maximum number of sweeps with which one writer tries to make room on the disk. A removed output
/// that is still open frees its room only when it is closed, so another output must be removed as
/// well.
const SWEEPS: usize = 3;

/// The room left on the disk and below the quotas, measured at intervals. Writers stop before
/// either is full.
#[derive(Debug, Default)]
pub(crate) struct Space {
    disk: Allowance,
    pub(crate) quotas: Quotas,
}

/// The number of bytes that may be written before the next measurement.
#[derive(Debug, Default)]
struct Allowance(AtomicU64);

impl Allowance {
    /// Returns how many of `length` more bytes fit. Calls `measure` if the allowance does not
    /// suffice; `measure` returns the free room.
    fn spend(&self, length: u64, measure: impl FnOnce() -> Result<u64>) -> Result<u64> {
        let spent = self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(length));
        if spent.is_ok() {
            return Ok(length);
        }
        let free = measure()?;
        // Other writers use the same room, so the next allowance is at most half of it.
        self.0.store((free.saturating_sub(length) / 2).min(BETWEEN), Relaxed);
        Ok(length.min(free))
    }
}

/// A range of bytes that is about to be written or reserved in a file, which is open as `open`. The
/// range begins at `offset`, or at the end of the file if that is `None`.
#[derive(Debug)]
pub struct PlannedWrite<'a> {
    pub file: &'a dyn DoorFile,
    pub open: &'a File,
    pub offset: Option<u64>,
    pub length: u64,
}

impl PlannedWrite<'_> {
    /// Returns the offset at which the range ends.
    pub fn end(&self) -> Result<u64> {
        let offset = self.offset.map_or_else(|| stat_file(self.open).map(|stat| stat.size), Ok)?;
        Ok(offset.saturating_add(self.length))
    }

    fn reserve(&self, engine: &Engine) -> Result<Reservation> {
        let Self { file, open, offset, length } = *self;
        let is_terminal = || file.place().is_some_and(|(_, path)| path.is_terminal());
        engine.check_cap(is_terminal, || Ok(stat_file(open)?.size), self.end()?)?;
        if length == 0 {
            // A new length without bytes takes no room.
            return Ok(Reservation::default());
        }
        engine.check_disk(length)?;
        let charged = engine.options.quota.and_then(|_| file.charged_to());
        let Some(id) = charged else { return Ok(Reservation::default()) };
        let stat = stat_file(open)?;
        let offset = offset.unwrap_or(stat.size);
        reserve_bytes(engine, &id, growth_of_write(open, &stat, offset, length)?)
    }
}

/// A change that takes room.
///
/// - `Bytes`: a number of bytes in a conversation. Outside of conversations, there is no limit.
/// - `Write`: bytes of an open file, which also need free space on the disk, and must stay below
///   the cap of the file. A new length without bytes needs only the latter.
/// - `Move`: a file or directory that is moved to another conversation
#[derive(Debug)]
pub enum Growth<'a> {
    Bytes(Option<&'a Component>, u64),
    Write(PlannedWrite<'a>),
    Move { from: &'a Component, path: &'a RelPath, to: &'a Component },
}

/// Something that was removed, truncated or moved.
///
/// - `open`: the descriptors of a file that has lost its name. It still counts until they are
///   closed.
/// - `output`: the size and the last record of an output that a user removed
/// - `is_live`: true if a file lost bytes and is sealed later. Other hosts are notified then.
#[derive(Debug, Default)]
pub struct Freed {
    pub open: Vec<Weak<File>>,
    pub output: Option<(u64, Option<Record>)>,
    pub is_live: bool,
}

impl Engine {
    /// Checks the limits that a change must keep, and reserves its room below the quota of the
    /// conversation. If necessary, removes the oldest outputs. The caller drops the reservation
    /// after the change.
    pub fn reserve(&self, growth: Growth<'_>) -> Result<Reservation> {
        match growth {
            Growth::Bytes(Some(id), bytes) => reserve_bytes(self, id, bytes),
            Growth::Bytes(None, _) => Ok(Reservation::default()),
            Growth::Write(write) => write.reserve(self),
            Growth::Move { from, to, .. } if self.options.quota.is_none() || from == to => {
                Ok(Reservation::default())
            }
            Growth::Move { from, path, to } => {
                allow_slow()?;
                let from = self.conversation(from)?;
                reserve_bytes(self, to, Usage::of_path(&from, path)?.bytes)
            }
        }
    }

    /// Checks that an artifact of `size` bytes, which will end at the offset `end`, stays below its
    /// cap. An artifact that does not grow may exceed the cap.
    pub(crate) fn check_cap(
        &self,
        is_terminal: impl FnOnce() -> bool,
        size: impl FnOnce() -> Result<u64>,
        end: u64,
    ) -> Result<()> {
        let over = |cap: Option<u64>| cap.filter(|most| end > *most);
        let log = over(self.options.max_terminal).filter(|_| is_terminal());
        match over(self.options.max_artifact).into_iter().chain(log).min() {
            Some(most) if end > size()? => Err(EngineError::TooLarge(most)),
            Some(_) | None => Ok(()),
        }
    }

    /// Checks that `length` more bytes leave enough free space on the disk. If necessary, clears
    /// the cache of texts, and then removes the oldest outputs.
    pub fn check_disk(&self, length: u64) -> Result<()> {
        enough_on_disk(self, fitting_on_disk(self, length, true)?, length)
    }

    /// Records what a change of the conversation `id` has freed, and notifies the hosts that share
    /// the conversation.
    pub fn freed(&self, id: &Component, Freed { open, output, is_live }: Freed) {
        if !open.is_empty() {
            self.space.quotas.unlinked(id, open);
        }
        self.space.quotas.freed(id);
        if !is_live {
            self.changed(id);
        }
        if let Some((bytes, record)) = output {
            self.counting.deleted(id, bytes, record);
        }
    }

    /// Writes a file for each of the `tools`, and then replaces the index. The room for the index
    /// is reserved first. If there is too little room for all files, some files of tools are
    /// missing.
    pub fn write_catalog(
        &self,
        conversation: &Conversation,
        index: &str,
        tools: impl Iterator<Item = (Component, String)>,
    ) -> Result<()> {
        let writer = conversation.write_catalog()?;
        let reserve = |text: &str| reserve_file(self, conversation, text.len() as u64);
        let _room = reserve(index)?;
        let mut write = |(name, text): (Component, String)| -> Result<()> {
            let _room = reserve(&text)?;
            Ok(writer.tool(&name, &text)?)
        };
        let written = tools.into_iter().try_for_each(&mut write);
        writer.index(index)?;
        written
    }
}

/// Returns how many of `length` bytes, appended to an artifact of `size` bytes, stay below its
/// cap.
pub(crate) fn fitting_below_cap(
    engine: &Engine,
    is_terminal: bool,
    size: u64,
    length: u64,
) -> Result<u64> {
    match engine.check_cap(|| is_terminal, || Ok(size), size.saturating_add(length)) {
        Err(EngineError::TooLarge(most)) if most > size => Ok(most - size),
        checked => checked.map(|()| length),
    }
}

/// Returns how many of `length` more bytes leave enough free space on the disk. Makes room in
/// the same way as [`Engine::check_disk`], but removes outputs only if `may_go` is true.
pub(crate) fn fitting_on_disk(engine: &Engine, length: u64, may_go: bool) -> Result<u64> {
    let least = engine.options.min_free;
    if least == 0 {
        return Ok(length);
    }
    let free = || -> Result<u64> {
        let space = engine.store.space()?;
        Ok((space.f_bavail * space.f_frsize).saturating_sub(least))
    };
    let make_room = || {
        let enough = free()?;
        if enough >= length {
            return Ok(enough);
        }
        engine.cache.clear()?;
        let free_now = free()?;
        if free_now >= length || !may_go {
            return Ok(free_now);
        }
        for _ in 0..SWEEPS {
            let removed = engine.retention.make_room_on_disk(least, length)?;
            if !removed || free()? >= length {
                break;
            }
        }
        free()
    };
    engine.space.disk.spend(length, make_room)
}

/// Fails if only `fits` of `length` bytes fit on the disk.
pub(crate) fn enough_on_disk(engine: &Engine, fits: u64, length: u64) -> Result<()> {
    let missing = fits < length;
    if missing { Err(EngineError::DiskNearlyFull(engine.options.min_free)) } else { Ok(()) }
}

/// Reserves `growth` bytes below the quota of the conversation `id`.
fn reserve_bytes(engine: &Engine, id: &Component, growth: u64) -> Result<Reservation> {
    if engine.options.quota.is_none() || growth == 0 {
        return Ok(Reservation::default());
    }
    // If the conversation has been removed, only unnamed files of it can remain.
    let conversation = match engine.conversation(id) {
        Err(EngineError::NotFound) => None,
        found => Some(found?),
    };
    let conversation = conversation.as_deref();
    let request = RoomRequest { id, conversation, growth, partly: false };
    let reserved = reserve_part(engine, &request)?;
    if reserved.bytes() < growth { Err(over_quota(engine)) } else { Ok(reserved) }
}

pub(crate) fn reserve_part(engine: &Engine, request: &RoomRequest<'_>) -> Result<Reservation> {
    engine.space.quotas.reserve(engine.options.quota, &engine.retention, request)
}

pub(crate) fn over_quota(engine: &Engine) -> EngineError {
    EngineError::OverQuota(engine.options.quota.unwrap_or(u64::MAX))
}

pub(crate) fn reserve_file(
    engine: &Engine,
    conversation: &Conversation,
    length: u64,
) -> Result<Reservation> {
    engine.check_disk(length)?;
    reserve_bytes(engine, conversation.id(), whole_blocks(length).max(LEAST))
}

/// Checks the disk and reserves room for `length` more bytes in a log of `conversation`.
pub(crate) fn reserve_line(
    engine: &Engine,
    conversation: &Conversation,
    length: u64,
) -> Result<Reservation> {
    engine.check_disk(length)?;
    reserve_bytes(engine, conversation.id(), length)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{EngineOptions, quota};
    use ctxfs_store::Store;

    #[test]
    fn what_does_not_fit_below_the_quota_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        let quota = quota::fixture::of_new_conversation(40 << 10);
        let options = EngineOptions { quota: Some(quota), ..EngineOptions::default() };
        let engine = Engine::new(Store::open(dir.path()).unwrap(), options);
        let conversation =
            engine.store().create_conversation(&Component::new("c").unwrap()).unwrap();
        let tool = |n: usize| (Component::new(format!("{n}.json")).unwrap(), "x".repeat(5000));
        let write = |tools| engine.write_catalog(&conversation, "index", (0..tools).map(tool));
        assert!(matches!(write(20), Err(EngineError::OverQuota(_))));
        let catalog = dir.path().join("context/c/catalog");
        assert_eq!(fs::read(catalog.join("index.json")).unwrap(), b"index");
        let written = fs::read_dir(catalog.join("tools")).unwrap().count();
        assert!((2..=4).contains(&written), "{written}");
    }
}
