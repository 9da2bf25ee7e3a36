//! The keys of texts in the store's cache, which outlive this process. Only bytes that cannot
//! change unnoticed have one.

use std::time::Duration;

use crate::engine::Engine;
use crate::engine::FileId;
use crate::engine::Snapshot;
use crate::engine::sync::thread;
use crate::engine::workers::QUICK_INPUT;
use crate::model::Limits;
use crate::store::CacheKey;
use crate::view::View;

/// The longest time for which a computation waits until the times of its file tell it from a later
/// state.
const WAIT: Duration = Duration::from_millis(20);

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
    if engine.secrets.are_masked() || snapshot.is_written {
        return None;
    }
    // Where the clock was set back, it may give a time once more.
    stat.ctime.max(stat.mtime).age()?;
    if let Some(pause) = engine.store.clock().settles_in(stat) {
        let waits = view.has_views() && stat.size > QUICK_INPUT && pause <= WAIT;
        waits.then(|| thread::sleep(pause))?;
    }
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
