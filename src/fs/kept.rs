//! Which results outlast this process: those of bytes that nobody can have changed unseen.

use std::io;
use std::time::Duration;
use std::time::SystemTime;

use crate::fs::Shared;
use crate::fs::file::FileNode;
use crate::fs::rendered::QUICK;
use crate::fs::sync::thread;
use crate::model::Limits;
use crate::model::Place;
use crate::store::CacheKey;
use crate::store::Stat;
use crate::store::Time;
use crate::view::View;

/// How long ago a file must have changed: then whoever changes it again gives it another time. The
/// clock that disks use ticks a hundred times a second, or more often.
const SETTLED: Duration = Duration::from_millis(20);

/// What the text of `view` is kept by, where the file is as `stat` says; none, where it cannot be
/// told from what the file says a moment later.
///
/// A large view that others look into waits for that moment, rather than be computed again for each.
fn key(
    file: &FileNode,
    stat: &Stat,
    place: &Place,
    settings: &str,
    view: &View,
) -> Option<CacheKey> {
    // Each further write would leave a result of no use.
    if file.writing().writers > 0 || !is_fine(stat) {
        return None;
    }
    let age = age(stat)?;
    let waits = view.has_views() && stat.size > QUICK;
    if age < SETTLED && !waits {
        return None;
    }
    thread::sleep(SETTLED.saturating_sub(age));
    let times = (stat.mtime.as_nanos(), stat.ctime.as_nanos());
    let moment = format!("{:?} {} {times:?}", file.id, stat.size);
    let (place, view) = (place.file(), exact(view));
    let parts = ["of a file", &moment, &place, settings, &view];
    CacheKey::of(&parts.map(str::as_bytes))
}

/// What `view` prints of a text that is kept by `base` is kept by this.
pub(crate) fn key_of_view(base: &CacheKey, view: &View) -> Option<CacheKey> {
    CacheKey::of(&[b"of a view", base.as_bytes(), exact(view).as_bytes()])
}

/// Not as it is displayed: a query may hold bytes that cannot be.
fn exact(view: &View) -> String {
    format!("{view:?}")
}

impl Shared {
    /// As [`key`]; none, where secrets are masked: the disk then has no more of them than before.
    pub(crate) fn key(
        &self,
        file: &FileNode,
        stat: &Stat,
        place: &Place,
        limits: &Limits,
        view: &View,
    ) -> Option<CacheKey> {
        match self.options.redaction {
            Some(_) => None,
            None => key(file, stat, place, &format!("{limits:?}"), view),
        }
    }

    /// ENOSPC where results on disk would leave too little room there.
    pub(crate) fn room_for_result(&self, length: u64) -> io::Result<()> {
        let room = self.room.on_disk(&self.store, &self.cache, &self.options, length, || Ok(()));
        room.map_err(|error| io::Error::from_raw_os_error(error.errno().0))
    }
}

/// How long ago the file changed; none, where that is to come.
fn age(stat: &Stat) -> Option<Duration> {
    let changed = stat.ctime.max(stat.mtime);
    let since_epoch = Duration::new(u64::try_from(changed.seconds).ok()?, changed.nanos);
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH + since_epoch).ok()
}

/// Whether the disk keeps more of its times than seconds.
fn is_fine(stat: &Stat) -> bool {
    let Time { nanos, .. } = stat.ctime;
    nanos != 0
}
