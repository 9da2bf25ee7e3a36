//! The sizes of the views that directory listings show. They are recorded when an artifact is
//! sealed, so that a listing does not have to compute any view.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use crate::others::others_of;
use crate::workers::QUICK_INPUT;
use crate::{Base, Computed, Engine, Recipe, SourceFile, Version, show};
use ctxfs_core::model::{Analysis, Component, Record, RelPath, ViewSizes};
use ctxfs_store::Stat;
use ctxfs_view::View;

/// Returns the sizes of the views of `file` at `place`. `stat` has the attributes of the file,
/// `record` is its record in the store, and `facts` is the `facts_number` of its version.
///
/// Returns `None` if the sizes must not be recorded: for a large file, for a file that may change
/// without a change of its times, for one of several outputs that were written under the same name,
/// and if secrets are masked.
pub fn measure(
    engine: &Engine,
    file: &Arc<dyn SourceFile>,
    place: &(Component, RelPath),
    (record, facts): (&Record, u64),
    stat: &Stat,
) -> Option<ViewSizes> {
    let is_pinned = engine.secrets.0.is_none() && !engine.store.clock().is_recent(stat);
    let (id, path) = place;
    let has_its_name_alone = || others_of(engine, id, path).is_ok_and(|others| others.is_empty());
    if stat.size > QUICK_INPUT || !is_pinned || !has_its_name_alone() {
        return None;
    }
    let size = |view: &View| {
        let recipe = Recipe::View(view.clone().shared());
        let computed = Computed::new(recipe, Base::File(Arc::clone(file)), Version::default());
        let text = show::show_view(engine, &computed, &**file, view, false).ok()?;
        text.is_whole().then(|| text.len())
    };
    let (summary, tail) = (size(&View::Summary)?, size(&View::Tail)?);
    // Another output of the same name may have arrived while the views were measured.
    has_its_name_alone().then(|| ViewSizes {
        basis: basis(engine, place, (record, facts), stat),
        summary,
        tail,
    })
}

/// Returns a hash of everything on which the views depend. Recorded sizes are valid as long as the
/// hash stays the same.
pub fn basis(
    engine: &Engine,
    (id, path): &(Component, RelPath),
    (record, facts): (&Record, u64),
    stat: &Stat,
) -> String {
    let mut hasher = DefaultHasher::new();
    (env!("CARGO_PKG_VERSION"), Analysis::VERSION).hash(&mut hasher);
    engine.options.place(id, path).file().hash(&mut hasher);
    let limits = engine.options.limits.limits(record.provenance.tool_name().as_deref());
    format!("{limits:?}").hash(&mut hasher);
    (facts, stat.size, stat.mtime.as_nanos()).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}
