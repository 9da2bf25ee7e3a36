//! The keys of texts in the store's cache, which outlive this process. Only bytes that cannot
//! change unnoticed have one.

use std::time::Duration;

use crate::shown::FileFacts;
use crate::sync::thread;
use crate::workers::QUICK_INPUT;
use crate::{Engine, FileId, Identity, Snapshot};
use ctxfs_core::model::Record;
use ctxfs_store::{CacheKey, Stat};
use ctxfs_view::View;

/// The longest time for which a computation waits until the times of its file tell it from a later
/// state.
const WAIT: Duration = Duration::from_millis(20);

/// Returns the keys of the text of `view`: first the one to keep it by, then that of a text which
/// was made before the file was sealed. There are none if a later state of the file could not be
/// told from this one, or if secrets are masked, so that no further copy of one gets on the disk.
///
/// A large view that can have views of its own waits until the file's times have settled, rather
/// than be computed again for each of them.
pub(super) fn cache_keys(
    engine: &Engine,
    snapshot: &Snapshot,
    facts: &FileFacts,
    view: &View,
) -> Vec<CacheKey> {
    if !may_be_kept(engine, snapshot, view) {
        return Vec::new();
    }
    let sealed = match &snapshot.identity {
        Identity::Sealed(digest) => Some(format!("{digest} {}", said(&facts.record))),
        Identity::Local(_) => None,
    };
    let local = moment(&snapshot.stat.original(&facts.record));
    let (place, settings) = (snapshot.place.file(), format!("{:?}", facts.limits));
    let key = |bytes: String| {
        let parts = ["of a file", &bytes, &place, &settings, &exact(view)];
        CacheKey::of(&parts.map(str::as_bytes))
    };
    sealed.into_iter().chain([local]).filter_map(key).collect()
}

/// Returns true if the text may be kept, after a pause where that is short and worth it.
fn may_be_kept(engine: &Engine, Snapshot { stat, is_written, .. }: &Snapshot, view: &View) -> bool {
    // Each further write would leave a useless text behind. Where the clock was set back, it may
    // give a time once more.
    if engine.secrets.are_masked() || *is_written || stat.ctime.max(stat.mtime).age().is_none() {
        return false;
    }
    let Some(pause) = engine.store.clock().settles_in(stat) else { return true };
    let waits = view.has_views() && stat.size > QUICK_INPUT && pause <= WAIT;
    if waits {
        thread::sleep(pause);
    }
    waits
}

/// Returns what tells a state of a local file from all others.
fn moment(stat: &Stat) -> String {
    let times = (stat.mtime.as_nanos(), stat.ctime.as_nanos());
    format!("{:?} {} {times:?}", FileId::of(stat), stat.size)
}

/// Returns what the record says of an artifact beside its bytes.
fn said(record: &Record) -> String {
    let Record { generation, state, created, provenance, .. } = record;
    format!("{generation} {state:?} {created} {provenance:?}")
}

/// Returns the key of `view` of a text whose own key is `base`.
pub(super) fn of_view(base: &CacheKey, view: &View) -> Option<CacheKey> {
    CacheKey::of(&[b"of a view", base.as_bytes(), exact(view).as_bytes()])
}

/// Returns `view` as text. `Display` would not do: a query may hold bytes that are not UTF-8.
fn exact(view: &View) -> String {
    format!("{view:?}")
}
