//! Computing the text of a computed file, once for all readers. Runs on the calling thread or on a
//! worker.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use crate::sync::mpsc;
use crate::{
    Base, BaseText, Callback, Computed, Counters, Engine, EngineError, OpenText, Recipe, Result,
    VERSION, Version, ViewText, answers, keyed_hash, manifest, messages, resolve, search, show,
    since,
};
use ctxfs_core::model::Content as _;
use ctxfs_view::{IgnoredIn, RenderCost, View};

impl Computed {
    /// Calls `done` with the text. If the text is not cached, computes it first: on this thread if
    /// that is quick, else on a worker. Concurrent callers wait for the same computation.
    pub fn text(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        done: impl FnOnce(Result<Arc<ViewText>>) + Send + 'static,
    ) {
        text(engine, self, Box::new(done));
    }

    /// Opens the file for reading, and calls `done` with it. Computes the text first, as
    /// [`Self::text`] does.
    pub fn open(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        done: impl FnOnce(Result<OpenText>) + Send + 'static,
    ) {
        let (counting, of) = (Arc::clone(&engine.counting), Arc::clone(self));
        let open = move |text| OpenText::new(&counting, &of, text);
        text(engine, self, Box::new(move |text| done(text.map(open))));
    }

    /// Returns the text. If it is not cached, computes it on this thread, however long that takes.
    /// If another thread is already computing it, waits for that thread.
    pub(crate) fn text_here(self: &Arc<Self>, engine: &Arc<Engine>) -> Result<Arc<ViewText>> {
        if let Some(text) = known(engine, self) {
            return Ok(text);
        }
        let base = match &self.base {
            Base::Text(base) => {
                let asked = Instant::now();
                Some(BaseText { text: base.text_here(engine)?, asked })
            }
            _ => None,
        };
        let (send, receive) = mpsc::channel();
        if self.wait(Box::new(move |text| drop(send.send(text)))) {
            compute(engine, self, base.as_ref());
        }
        receive.recv().unwrap_or_else(|error| Err(io::Error::other(error).into()))
    }
}

impl Recipe {
    /// Returns the version of the file that this recipe makes from a text or a directory, or the part
    /// of it that depends on another output than the file of `base`.
    ///
    /// The version of a search or of the manifest changes with every change below the directory. If
    /// `asks` is true, first fetches the outputs that other hosts have published. For other recipes
    /// and bases, returns the default version: the text never changes, or the door has the version.
    pub fn version(&self, engine: &Engine, base: &Base, asks: bool) -> Result<Version> {
        let dir = match base {
            Base::Dir(dir) => &**dir,
            Base::Text(text) => {
                return Ok(Version { changes: text.work(|work| work.late), ..Version::default() });
            }
            Base::File(source) => return since::version(engine, self, source),
            Base::Nothing | Base::Door(_) => return Ok(Version::default()),
        };
        if asks
            && engine.options.other_hosts.is_some()
            && self.reader().is_some()
            && let Some(id) = dir.place()?.conversation()
        {
            engine.others().ask_for_outputs(id)?;
        }
        match self {
            Self::Manifest(reader) => manifest::version(engine, dir, reader),
            Self::Search(..) => search::version(engine, dir),
            Self::Ignore => {
                let changes = keyed_hash(engine.names_like_listed(dir)?);
                Ok(Version { changes, ..Version::default() })
            }
            Self::Removed(name) => resolve::removed_version(engine, dir, name),
            _ => Ok(Version::default()),
        }
    }
}

#[cfg(any(test, feature = "testing"))]
impl Computed {
    pub fn drop_text(&self, engine: &Engine) {
        engine.texts.remove(&self.number);
    }
}

fn known(engine: &Engine, of: &Computed) -> Option<Arc<ViewText>> {
    of.beginning().or_else(|| engine.texts.get(&of.number))
}

fn text(engine: &Arc<Engine>, of: &Arc<Computed>, done: Callback) {
    if let Some(text) = known(engine, of) {
        return done(Ok(text));
    }
    if !of.wait(done) {
        return;
    }
    // Another thread may have computed the text since the first check.
    if let Some(text) = known(engine, of) {
        return of.answer(Ok(text));
    }
    let Base::Text(base) = &of.base else { return start(engine, of, of.version.size, None) };
    let (shared, of) = (Arc::clone(engine), Arc::clone(of));
    let asked = Instant::now();
    let with_text = move |text: Result<Arc<ViewText>>| match text {
        Ok(text) => start(&shared, &of, text.len(), Some(BaseText { text, asked })),
        Err(error) => of.answer(Err(error)),
    };
    text(engine, &Arc::clone(base), Box::new(with_text));
}

fn start(engine: &Arc<Engine>, of: &Arc<Computed>, input: u64, text: Option<BaseText>) {
    let workers = match of.recipe.cost() {
        Some(RenderCost::Program) => &engine.filter_workers,
        Some(RenderCost::Model) => return ask(engine, of),
        _ if of.recipe.is_quick(input) && !of.base.is_far() => {
            return compute(engine, of, text.as_ref());
        }
        _ => &engine.view_workers,
    };
    let job = {
        let (engine, of) = (Arc::clone(engine), Arc::clone(of));
        move || compute(&engine, &of, text.as_ref())
    };
    if let Err(error) = workers.submit(of.base.conversation(), job) {
        of.answer(Err(error.into()));
    }
}

/// Runs the computation on a thread for questions. If all of these threads are busy, the text says
/// so, because a reader cannot wait until one is free.
fn ask(engine: &Arc<Engine>, of: &Arc<Computed>) {
    let job = {
        let (engine, of) = (Arc::clone(engine), Arc::clone(of));
        move || compute(&engine, &of, None)
    };
    match engine.question_workers.submit_unless_busy(of.base.conversation(), job) {
        Ok(true) => {}
        Ok(false) => finish(engine, of, answers::busy(engine, of)),
        Err(error) => of.answer(Err(error.into())),
    }
}

fn compute(engine: &Arc<Engine>, of: &Arc<Computed>, text: Option<&BaseText>) {
    let outcome = catch_unwind(AssertUnwindSafe(|| compute_again(engine, of, text)))
        .unwrap_or_else(|_| Err(io::Error::other("computing a view panicked").into()));
    Counters::add(&engine.counters.views_computed, 1);
    finish(engine, of, outcome);
}

fn finish(engine: &Engine, of: &Computed, outcome: Result<ViewText>) {
    of.finish(outcome, |text| engine.texts.insert(of.number, Arc::clone(text)));
}

/// Computes the text. Fails with [`EngineError::Stale`] if the text was computed before and had
/// another length. The next look-up then finds the next version.
fn compute_again(engine: &Arc<Engine>, of: &Computed, text: Option<&BaseText>) -> Result<ViewText> {
    let before = of.size();
    let text = compute_text(engine, of, text, before.is_some())?;
    match before {
        Some(size) if size != text.len() => {
            if let Base::File(file) = &of.base {
                file.note_change();
            }
            Err(EngineError::Stale)
        }
        _ => Ok(text),
    }
}

/// Computes the text of `of`. If `of` is a view of another text, `text` is that text. `again` is
/// true if the text was computed before. It must then come from exactly the same version.
fn compute_text(
    engine: &Arc<Engine>,
    of: &Computed,
    text: Option<&BaseText>,
    again: bool,
) -> Result<ViewText> {
    match &of.recipe {
        Recipe::View(view) => match (&of.base, text) {
            (base, _) if let View::Extract(question) = &**view => {
                answers::show(engine, of, base.source()?, question, again)
            }
            (Base::Text(base), Some(text)) => show::show_view_of_view(engine, base, text, view),
            (base, _) => show::show_view(engine, of, base.source()?, view, again),
        },
        Recipe::Search(query, reader) => search::search(engine, of, (query, reader), again),
        Recipe::Readme => Ok(engine.held_text(&ctxfs_view::readme(&engine.options.root), None)?),
        Recipe::TopIgnore => {
            let text = ctxfs_view::ignore(&IgnoredIn::Top(&engine.options.root));
            Ok(engine.held_text(&text, None)?)
        }
        Recipe::Ignore => {
            let real = engine.names_like_listed(of.base.dir()?)?;
            Ok(engine.held_text(&ctxfs_view::ignore(&IgnoredIn::Artifacts(&real)), None)?)
        }
        Recipe::Manifest(reader) => manifest::show_manifest(engine, of.base.dir()?, reader),
        Recipe::Removed(name) => resolve::show_removed(engine, of.base.dir()?, name),
        Recipe::Messages => messages::show_messages(engine, of.base.dir()?, &of.version),
        Recipe::Door(VERSION) => {
            Ok(engine.held_text(concat!(env!("CARGO_PKG_VERSION"), "\n"), None)?)
        }
        Recipe::Door(name) => match &of.base {
            Base::Door(status) => {
                let is_metrics = *name == "metrics";
                let page = if is_metrics { Engine::metrics } else { Engine::status };
                Ok(engine.held_text(&page(engine, &status()?)?, None)?)
            }
            _ => Err(EngineError::Stale),
        },
    }
}
