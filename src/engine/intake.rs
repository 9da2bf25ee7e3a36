//! Taking in an output: its bytes go to the store as they come, within the limits, and are
//! analysed, recorded and counted once.

use std::io;
use std::io::Write;
use std::sync::Arc;

use crate::bounded_writer::BoundedWriter;
use crate::overflow::Loss;
use crate::redaction::MaskedForm;
use crate::stand_in::StoredOutput;
use crate::{Engine, Reservation, Result, overflow};
use ctxfs_core::model::{ArtifactState, Component, Folder, Provenance, Record, RelPath};
use ctxfs_store::{ArtifactWriter, Completed, Conversation};

/// An output that is about to come in.
#[derive(Debug)]
pub struct NewOutput {
    /// The name of its artifact.
    pub name: OutputName,
    /// The description of the call.
    pub provenance: Provenance,
    /// Its length, if that is known. Then there must be room for all of it, or it is not begun.
    pub length: Option<u64>,
}

/// The name of the artifact of an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputName {
    /// `<call>.json` or `<call>.txt` in `artifacts/tool`; see [`ArtifactWriter::create_for_call`].
    Call(String),
    /// `<call>.log` in `artifacts/terminal`.
    Log(String),
    /// This name in `artifacts/terminal`, of which there must be none.
    Stream(Component),
}

/// A writer that takes an output in.
///
/// Every byte is in the file before `write` returns, except for the last ones if secrets are masked
/// in what is stored. Where a limit is met or the disk fails, the bytes before are kept and nothing
/// more is taken, unless [`Intake::keeping_end`] says otherwise. An intake that is dropped leaves an
/// incomplete artifact.
pub struct Intake<'a> {
    engine: &'a Engine,
    conversation: Arc<Conversation>,
    sink: MaskedForm<'a, BoundedWriter<'a>>,
    /// The reason why no more bytes are taken.
    failed: Option<String>,
    loss: Option<Loss>,
    /// True if it is an output of its own, which is counted.
    is_counted: bool,
}

impl<'a> Intake<'a> {
    /// Begins the artifact of an output.
    pub(super) fn begin(
        engine: &'a Engine,
        conversation: &Arc<Conversation>,
        output: NewOutput,
    ) -> Result<Self> {
        let room = match output.length {
            Some(length) => engine.reserve_for_output(conversation, length)?,
            // Even an output of which nothing fits is begun, so that its record says why.
            None => Reservation::default(),
        };
        let provenance = engine.secrets.provenance_to_store(output.provenance);
        let mut artifact = match &output.name {
            OutputName::Call(call) => {
                ArtifactWriter::create_for_call(conversation, Folder::Tool, call, provenance)
            }
            OutputName::Log(call) => {
                ArtifactWriter::create_for_call(conversation, Folder::Terminal, call, provenance)
            }
            OutputName::Stream(name) => {
                ArtifactWriter::create(conversation, Folder::Terminal, name, provenance)
            }
        }?;
        if engine.options.write_once {
            artifact = artifact.write_once();
        }
        let reserved = output.length.unwrap_or(0);
        Ok(Self::of(engine, conversation, artifact, reserved, room))
    }

    /// Continues the log `name` of another process, which must not write to it from here on, and
    /// adds `newer` facts.
    pub fn take_over(
        engine: &'a Engine,
        conversation: &Arc<Conversation>,
        name: &Component,
        newer: &Provenance,
    ) -> Result<Self> {
        let artifact = ArtifactWriter::take_over(conversation, Folder::Terminal, name, newer)?;
        Ok(Self::of(engine, conversation, artifact, 0, Reservation::default()))
    }

    fn of(
        engine: &'a Engine,
        conversation: &Arc<Conversation>,
        artifact: ArtifactWriter,
        reserved: u64,
        room: Reservation,
    ) -> Self {
        let conversation = Arc::clone(conversation);
        let sink = engine.secrets.stored_form(BoundedWriter {
            engine,
            conversation: Arc::clone(&conversation),
            artifact,
            reserved,
            room,
            keeps_end: false,
            over: None,
        });
        Self { engine, conversation, sink, failed: None, loss: None, is_counted: true }
    }

    /// Makes it a copy of bytes of another output. A copy is not counted.
    #[must_use]
    pub fn as_copy(self) -> Self {
        Self { is_counted: false, ..self }
    }

    /// Returns the path of the artifact, which may change when it is sealed.
    pub fn path(&mut self) -> &RelPath {
        self.sink.get_mut().artifact.path()
    }

    /// Adds what is known only now, such as an exit code.
    pub fn say(&mut self, newer: &Provenance) {
        self.sink.get_mut().artifact.say(newer);
    }

    /// Makes writing never fail, for a caller that reads its source to the end; `finish` fails
    /// instead.
    ///
    /// At a limit or on a full disk, the end of the output replaces the last stored bytes: at most
    /// 256 KiB, and a quarter of the artifact. A line before it tells how many bytes are missing, and
    /// why. An artifact below 16 KiB, or on a failing disk, keeps its beginning alone.
    #[must_use]
    pub fn keeping_end(mut self) -> Self {
        self.sink.get_mut().keeps_end = true;
        self
    }

    /// Writes what masking holds back, and the end of an output that passed a limit. No byte may
    /// follow. Fails if not all of it is stored.
    pub fn finish(&mut self) -> io::Result<()> {
        self.check()?;
        let finished = self.sink.finish();
        finished.inspect_err(|error| self.note(error))?;
        let sink = self.sink.get_mut();
        let Some(mut over) = sink.over.take() else { return Ok(()) };
        let (loss, reason) = over.settle(&mut sink.artifact);
        (self.loss, self.failed) = (Some(loss), Some(reason));
        Err(over.error)
    }

    /// Returns the loss that `finish` found, with [`Intake::keeping_end`].
    pub fn loss(&self) -> Option<&Loss> {
        self.loss.as_ref()
    }

    /// Completes the artifact: it is synced, recorded and counted. If not all bytes were kept, it
    /// is incomplete. If the call has an output of the same bytes, that is returned.
    pub fn seal(self) -> Result<StoredOutput> {
        self.close(None)
    }

    /// Closes the artifact as incomplete for the reason `why`, unless there is an earlier one.
    pub fn seal_incomplete(self, why: &str) -> Result<StoredOutput> {
        self.close(Some(why.to_owned()))
    }

    /// Leaves the artifact to a process that has taken it over. Returns the output as it stands,
    /// which counts as incomplete for the reason `why`.
    pub fn leave(self, why: &str) -> Result<StoredOutput> {
        let Self { engine, conversation, sink, .. } = self;
        let path = sink.into_inner().artifact.leave();
        let stat = conversation.dir().stat_at(&path)?;
        let record = conversation.record_for(&path, &stat)?;
        let state = ArtifactState::Incomplete(why.to_owned());
        StoredOutput::open(engine, &conversation, Record { state, ..record }, true)
    }

    /// Removes the artifact, as if the output had never come in.
    pub fn discard(self) -> Result<()> {
        let Self { engine, conversation, sink, .. } = self;
        sink.into_inner().artifact.discard()?;
        engine.space.freed(conversation.id());
        Ok(())
    }

    fn close(mut self, why: Option<String>) -> Result<StoredOutput> {
        // What fails is noted.
        let _finished = self.finish();
        let Self { engine, conversation, sink, failed, loss: _, is_counted } = self;
        let artifact = sink.into_inner().artifact;
        let Completed { record, is_new } = match failed.or(why) {
            Some(why) => artifact.seal_incomplete(&why)?,
            None => artifact.seal()?,
        };
        let id = conversation.id();
        if is_counted && is_new {
            engine.counting.stored(id, &record);
        }
        if is_new {
            engine.retention.note_sealed(&engine.options.keep, id, record.size);
            engine.changed(id, Some(record.size));
        } else {
            engine.space.freed(id);
        }
        StoredOutput::open(engine, &conversation, record, true)
    }

    /// Fails if no more bytes are taken.
    fn check(&self) -> io::Result<()> {
        self.failed.as_ref().map_or(Ok(()), |why| Err(io::Error::other(why.clone())))
    }

    fn note(&mut self, error: &io::Error) {
        if error.kind() != io::ErrorKind::Interrupted {
            self.failed.get_or_insert_with(|| overflow::reason(error));
        }
    }
}

impl Write for Intake<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.check()?;
        let written = self.sink.write(bytes);
        written.inspect_err(|error| self.note(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

impl std::fmt::Debug for Intake<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("Intake");
        debug.field("conversation", self.conversation.id()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
