//! The keys of texts in the store's cache, which outlive this process. Only bytes that cannot
//! change unnoticed have one.

use std::time::Duration;
use std::time::SystemTime;

use crate::engine::Engine;
use crate::engine::FileId;
use crate::engine::Snapshot;
use crate::engine::sync::thread;
use crate::engine::workers::QUICK_INPUT;
use crate::model::Limits;
use crate::store::CacheKey;
use crate::store::Stat;
use crate::store::Time;
use crate::view::View;

/// The age of a change from which on the next change is sure to get another time. The clock of
/// disks ticks at least a hundred times a second.
const SETTLED: Duration = Duration::from_millis(20);

/// Returns the key of the text of `view`. Returns `None` if a later state of the file could not be
/// told from this one. Also returns `None` if secrets are masked, so that no further copy of one
/// gets on the disk.
///
/// A large view that can have views of its own waits until the file's times have settled, rather
/// than be computed again for each of them.
pub(super) fn cache_key(
    engine: &Engine,
    snapshot: &Snapshot,
    limits: &Limits,
    view: &View,
) -> Option<CacheKey> {
    let stat = &snapshot.stat;
    // Each further write would leave a useless text behind.
    if engine.secrets.are_masked() || snapshot.is_written || !is_fine(stat) {
        return None;
    }
    let age = age(stat)?;
    let waits = view.has_views() && stat.size > QUICK_INPUT;
    if age < SETTLED && !waits {
        return None;
    }
    thread::sleep(SETTLED.saturating_sub(age));
    let times = (stat.mtime.as_nanos(), stat.ctime.as_nanos());
    let moment = format!("{:?} {} {times:?}", FileId::of(stat), stat.size);
    let (place, settings) = (snapshot.place.file(), format!("{limits:?}"));
    let parts = ["of a file", &moment, &place, &settings, &exact(view)];
    CacheKey::of(&parts.map(str::as_bytes))
}

/// Returns the key of `view` of a text whose own key is `base`.
pub(super) fn of_view(base: &CacheKey, view: &View) -> Option<CacheKey> {
    CacheKey::of(&[b"of a view", base.as_bytes(), exact(view).as_bytes()])
}

/// Returns `view` as text. `Display` would not do: a query may hold bytes that are not UTF-8.
fn exact(view: &View) -> String {
    format!("{view:?}")
}

/// Returns the time since the file last changed. `None` if the change is in the future.
fn age(stat: &Stat) -> Option<Duration> {
    let changed = stat.ctime.max(stat.mtime);
    let since_epoch = Duration::new(u64::try_from(changed.seconds).ok()?, changed.nanos);
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH + since_epoch).ok()
}

/// Returns true if the disk keeps times more finely than in whole seconds.
fn is_fine(stat: &Stat) -> bool {
    let Time { nanos, .. } = stat.ctime;
    nanos != 0
}
