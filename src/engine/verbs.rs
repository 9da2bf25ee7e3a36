//! The verbs of the engine: take in, show, search, list, count, remove.

use std::ffi::OsStr;
use std::io;
use std::io::Write as _;
use std::sync::Arc;

use serde_json::Value;

use crate::analysis::AnalysisSoFar;
use crate::metrics::Gauge;
use crate::patience::allow_slow;
use crate::quota::RoomRequest;
use crate::{
    Computed, ConversationCounts, Engine, EngineError, FileChange, FileRef, Intake, ListedArtifact,
    ListedConversation, Listing, MessagePage, MessageRange, NewOutput, Recipe, RemovedContent,
    Reservation, Resolved, Result, SourceDir, SourceFile, StandInRequest, StoredOutput,
    UnfinishedMessage, Version, ViewText, analysis, compute, listing, logged, manifest, messages,
    removed, resolve, search, show, space, stand_in, status,
};
use ctxfs_core::model::{Component, Counts, Limits, Place, Record, RelPath, Sums};
use ctxfs_store::message::{Batch, MessageError};
use ctxfs_store::{Conversation, LEAST, ManifestLock, Usage, whole_blocks};
use ctxfs_view::{StandIn, View};

/// Take in.
impl Engine {
    /// Begins to take in an output, within cap, quota and what the disk has left.
    pub fn intake(
        &self,
        conversation: &Arc<Conversation>,
        output: NewOutput,
    ) -> Result<Intake<'_>> {
        Intake::begin(self, conversation, output)
    }

    /// Returns the limits for the outputs of a tool, or of one that is not known.
    pub fn limits(&self, tool: Option<&str>) -> Limits {
        self.options.limits.limits(tool)
    }

    /// Returns an output that is not stored as a model may see it: unchanged except for masks.
    pub fn shown(&self, output: &[u8]) -> io::Result<Vec<u8>> {
        let mut shown = self.secrets.shown_form(Vec::with_capacity(output.len()));
        shown.write_all(output)?;
        shown.finish()?;
        Ok(shown.into_inner())
    }

    /// Returns what goes to a model in place of `output`, and counts it.
    pub fn stand_in(&self, output: &StoredOutput, request: &StandInRequest<'_>) -> Result<StandIn> {
        stand_in::stand_in(self, output, request)
    }

    /// Returns true if `output` is a stand-in for an output of the store. Its reference decides,
    /// not its wording.
    pub fn is_stand_in(&self, output: &[u8], limits: &Limits) -> io::Result<bool> {
        stand_in::is_stand_in(self, output, limits)
    }

    /// Returns the text of `view`, for a model that gets it in place of `output`, and counts it.
    pub fn view_in_place(&self, output: &StoredOutput, view: &View) -> Result<Vec<u8>> {
        stand_in::view_in_place(self, output, view)
    }

    /// Takes in bytes that go on where `unfinished` stopped, and hands the messages that they
    /// complete to `append`: all of them, or none. What follows the last newline stays unfinished.
    pub fn take_messages<E: From<EngineError> + From<MessageError>>(
        &self,
        conversation: &Arc<Conversation>,
        unfinished: &mut UnfinishedMessage,
        bytes: &[u8],
        append: impl FnOnce(&Batch) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        messages::take(self, conversation, unfinished, bytes, append)
    }

    /// Hands a last line that lacks nothing but its newline to `append`. Fails for any other line,
    /// which stays unfinished.
    pub fn finish_messages<E: From<EngineError> + From<MessageError>>(
        &self,
        conversation: &Arc<Conversation>,
        unfinished: &mut UnfinishedMessage,
        append: impl FnOnce(&Batch) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        messages::finish(self, conversation, unfinished, append)
    }

    /// Ends a writer of messages that is gone: appends a last line that lacks nothing but its
    /// newline, and sets any other aside, beside the log. Changes nothing if an error is one after
    /// which the caller `comes_back`.
    pub fn leave_messages<E: From<EngineError> + From<MessageError>>(
        &self,
        conversation: &Arc<Conversation>,
        unfinished: &mut UnfinishedMessage,
        append: impl FnOnce(&Batch) -> std::result::Result<(), E>,
        comes_back: impl FnOnce(&E) -> bool,
    ) -> std::result::Result<(), E> {
        messages::leave(self, conversation, unfinished, append, comes_back)
    }

    /// Checks the cap of a file and the disk for a change of it, and reserves room below the quota
    /// of its conversation. The room stays reserved until the change is made and the reservation
    /// dropped. Asks for what a limit depends on only where that limit is set.
    pub fn reserve_for_change(&self, change: &dyn FileChange) -> Result<Reservation> {
        self.check_cap(&|| change.is_terminal(), &|| change.size(), change.end()?)?;
        self.check_disk(change.length())?;
        if self.options.quota.is_none() {
            return Ok(Reservation::default());
        }
        match change.charged_to() {
            Some(id) => self.reserve_in(&id, change.growth()?),
            None => Ok(Reservation::default()),
        }
    }

    /// Reserves `growth` bytes below the quota of the conversation `id`.
    pub fn reserve_in(&self, id: &Component, growth: u64) -> Result<Reservation> {
        if self.options.quota.is_none() || growth == 0 {
            return Ok(Reservation::default());
        }
        let conversation = match self.conversation(id) {
            Err(EngineError::NotFound) => None,
            found => Some(found?),
        };
        let conversation = conversation.as_deref();
        let request = RoomRequest { id, conversation, growth, partly: false };
        self.space.reserve(self, &request)
    }

    /// Reserves room for something of the conversation `from` that moves to another conversation.
    /// `path` is where it is now.
    pub fn reserve_for_move(
        &self,
        from: &Component,
        path: &RelPath,
        to: &Component,
    ) -> Result<Reservation> {
        if self.options.quota.is_none() || from == to {
            return Ok(Reservation::default());
        }
        allow_slow()?;
        let from = self.conversation(from)?;
        let growth = Usage::of_path(&from, path)?.bytes;
        self.reserve_in(to, growth)
    }

    /// Reserves room for an output of `length` bytes that is added to `conversation`.
    pub(crate) fn reserve_for_output(
        &self,
        conversation: &Conversation,
        length: u64,
    ) -> Result<Reservation> {
        space::check_cap(&self.options, || false, || Ok(0), length)?;
        self.check_disk(length)?;
        self.reserve_in(conversation.id(), whole_blocks(length).max(LEAST))
    }

    /// Reserves room for a line of `length` bytes in a log of `conversation`.
    pub(crate) fn reserve_for_line(
        &self,
        conversation: &Conversation,
        length: u64,
    ) -> Result<Reservation> {
        self.check_disk(length)?;
        self.reserve_in(conversation.id(), length)
    }

    /// Checks that a file of `size` bytes that is to end at `end` stays below its cap.
    pub fn check_cap(
        &self,
        is_terminal: &dyn Fn() -> bool,
        size: &dyn Fn() -> Result<u64>,
        end: u64,
    ) -> Result<()> {
        space::check_cap(&self.options, is_terminal, size, end)
    }

    /// Checks that `length` more bytes leave room on the disk.
    pub fn check_disk(&self, length: u64) -> Result<()> {
        self.space.check_disk(self, length, true)
    }

    /// Returns the analysis of the present bytes of `of`, which is open as `file`. Covers only the
    /// first bytes if `expired` reports that time has run out.
    pub fn analysis(
        &self,
        of: &dyn SourceFile,
        file: FileRef<'_>,
        record: Option<&Record>,
        expired: &dyn Fn() -> bool,
    ) -> Result<AnalysisSoFar> {
        analysis::analysis(self, of, file, record, expired)
    }
}

/// Show, search and list.
impl Engine {
    /// Hands the text of `of` to `done`. If it is not cached, computes it first: at once if that is
    /// quick, else on a worker. Callers that ask meanwhile wait for the same computation.
    pub fn text(
        self: &Arc<Self>,
        of: &Arc<Computed>,
        done: impl FnOnce(Result<Arc<ViewText>>) + Send + 'static,
    ) {
        compute::text(self, of, Box::new(done));
    }

    /// Drops the cached text of `of`, so that it has to be computed again.
    #[cfg(any(test, feature = "testing"))]
    pub fn drop_text(&self, of: &Computed) {
        self.texts.remove(&of.number());
    }

    /// Returns the length that the pages of `of` divide: that of a file, or of the text of a log.
    pub fn text_length(&self, of: &dyn SourceFile) -> Result<u64> {
        show::text_length(self, of)
    }

    /// Returns the version of the computed file that `recipe` makes of the directory `dir`.
    pub fn version(&self, recipe: &Recipe, dir: &dyn SourceDir) -> Result<Version> {
        match recipe {
            Recipe::Manifest(reader) => manifest::version(self, dir, reader),
            Recipe::Search(..) => search::version(self, dir),
            _ => Ok(Version::default()),
        }
    }

    /// Returns what `name` stands for in `dir`, or [`EngineError::NotFound`]. `is_top` is true for
    /// the root that the door shows.
    pub fn resolve<'a>(
        &self,
        dir: &dyn SourceDir,
        is_top: bool,
        name: &'a OsStr,
    ) -> Result<Resolved<'a>> {
        resolve::resolve(self, dir, is_top, name)
    }

    /// Lists the conversations that this door shows, in the order of their ids.
    pub fn list_conversations(&self) -> Result<Listing<ListedConversation>> {
        listing::conversations(self)
    }

    /// Returns the place of the file at `path` in the conversation `id`, as its readers name it.
    pub fn place(&self, id: &Component, path: &RelPath) -> Place {
        self.options.place(id, path)
    }

    /// Lists what `row` makes of each artifact of the conversation `id`, in no order. Holds the
    /// record of one at a time.
    pub fn list_artifacts<T>(
        &self,
        id: &Component,
        row: impl Fn(&ListedArtifact) -> T,
    ) -> Result<Listing<T>> {
        self.ask_for_outputs(id)?;
        self.list_known_artifacts(id, row)
    }

    /// Does that, and asks no other host: for whoever lists many conversations.
    pub fn list_known_artifacts<T>(
        &self,
        id: &Component,
        row: impl Fn(&ListedArtifact) -> T,
    ) -> Result<Listing<T>> {
        listing::artifacts(self, &*self.conversation(id)?, row)
    }

    /// Returns the records of artifacts of the conversation `id` that were removed or renamed and
    /// of which a trace stays, in the order in which that happened.
    pub fn list_traces(&self, id: &Component) -> Result<Vec<Record>> {
        let traces = self.conversation(id)?.manifest().traces()?;
        let mut traces: Vec<Record> = traces.collect::<std::result::Result<_, _>>()?;
        for record in &mut traces {
            self.secrets.mask_provenance(&mut record.provenance);
        }
        Ok(traces)
    }

    /// Returns a page of at most `most` messages of the conversation `id`.
    pub fn messages(
        &self,
        id: &Component,
        range: MessageRange,
        most: usize,
    ) -> Result<MessagePage> {
        logged::messages(self, id, range, most)
    }

    /// Finds the removed content whose summary `name` means in the directory `dir`.
    pub fn removed(&self, dir: &dyn SourceDir, name: &OsStr) -> Result<Option<RemovedContent>> {
        removed::find(self, dir, name)
    }
}

/// Count.
impl Engine {
    /// Counts what happened with a tool. It is in the store a few seconds later, if counting was
    /// started, or when it ends.
    pub fn count(&self, id: &Component, tool: String, counts: &Counts) {
        self.counting.add(id.clone(), tool, counts);
    }

    /// Returns the counts of `only` one conversation, or of all that this door shows, up to now.
    pub fn counts(&self, only: Option<&Component>) -> Result<ConversationCounts> {
        match only {
            Some(id) => listing::counts(self, std::slice::from_ref(id)),
            None => listing::counts(self, &listing::shown(self)?),
        }
    }

    /// Returns the sums of all conversations that this door shows, up to now.
    pub fn sums(&self) -> Result<Sums> {
        status::sums(self)
    }

    /// Returns the page for Prometheus, with the gauges that the door adds.
    pub fn metrics(&self, gauges: &[Gauge]) -> Result<String> {
        status::metrics(self, gauges)
    }

    /// Returns the status page, with the members that the door adds.
    pub fn status(&self, door: &Value) -> Result<String> {
        status::status(self, door)
    }
}

/// Remove.
impl Engine {
    /// Removes a conversation that holds nothing but the store's own files. Fails with ENOTEMPTY
    /// otherwise.
    pub fn remove_conversation(&self, id: &Component) -> Result<()> {
        self.conversations.remove(id);
        self.counting.forget(id);
        self.space.forget(id);
        self.store.remove_conversation(id)?;
        self.changed(id, None);
        Ok(())
    }

    /// Forgets the artifact at `path`, whose file of `bytes` bytes was removed. The caller has
    /// locked the manifest.
    pub fn forget_artifact(
        &self,
        conversation: &Conversation,
        manifest: &ManifestLock,
        path: &RelPath,
        bytes: u64,
    ) -> Result<()> {
        let record = conversation.forget_locked(manifest, path)?;
        self.note_removed(conversation, bytes, record);
        Ok(())
    }

    /// Counts the removal of an artifact of `bytes` bytes, which had this `record`.
    pub fn note_removed(&self, conversation: &Conversation, bytes: u64, record: Option<Record>) {
        self.space.freed(conversation.id());
        self.changed(conversation.id(), None);
        self.counting.deleted(conversation.id(), bytes, record);
    }
}
