//! The keys of texts that outlast this process: those of bytes that cannot have changed unseen.

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

/// How long ago a file must have changed, so that its next change gets another time. The clock that
/// disks use ticks a hundred times a second or more often.
const SETTLED: Duration = Duration::from_millis(20);

/// Returns the key of the text of `view`; none, where what the file says a moment later could
/// not be told from this, and none where secrets are masked: the disk then has no more of them
/// than before.
///
/// A large view that others look into waits for that moment, rather than be computed again for
/// each.
pub(super) fn cache_key(
    engine: &Engine,
    snapshot: &Snapshot,
    limits: &Limits,
    view: &View,
) -> Option<CacheKey> {
    let stat = &snapshot.stat;
    // Each further write would leave a useless text.
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

/// Returns the key of `view` of a text that is kept by `base`.
pub(super) fn of_view(base: &CacheKey, view: &View) -> Option<CacheKey> {
    CacheKey::of(&[b"of a view", base.as_bytes(), exact(view).as_bytes()])
}

/// Returns `view` as text. Not as it is displayed: a query may hold bytes that cannot be.
fn exact(view: &View) -> String {
    format!("{view:?}")
}

/// Returns how long ago the file changed; none, where that is in the future.
fn age(stat: &Stat) -> Option<Duration> {
    let changed = stat.ctime.max(stat.mtime);
    let since_epoch = Duration::new(u64::try_from(changed.seconds).ok()?, changed.nanos);
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH + since_epoch).ok()
}

/// Returns true if the disk keeps more of its times than seconds.
fn is_fine(stat: &Stat) -> bool {
    let Time { nanos, .. } = stat.ctime;
    nanos != 0
}
