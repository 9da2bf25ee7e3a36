//! Taking in an output: its bytes go to the store as they come, within the limits, and are
//! analysed, recorded and counted once.

use std::io;
use std::io::Write;
use std::sync::Arc;

use crate::engine::Engine;
use crate::engine::Reservation;
use crate::engine::Result;
use crate::engine::bounded_writer::BoundedWriter;
use crate::engine::error::io_error_number;
use crate::engine::error::reason_of_loss;
use crate::engine::redaction::MaskedForm;
use crate::engine::stand_in::StoredOutput;
use crate::model::Component;
use crate::model::Folder;
use crate::model::Provenance;
use crate::model::RelPath;
use crate::store::ArtifactWriter;
use crate::store::Completed;
use crate::store::Conversation;

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
/// more is taken. An intake that is dropped leaves an incomplete artifact.
pub struct Intake<'a> {
    engine: &'a Engine,
    conversation: Arc<Conversation>,
    sink: MaskedForm<'a, BoundedWriter<'a>>,
    /// The bytes that [`Intake::keep`] was given.
    offered: u64,
    /// The reason why no more bytes are taken.
    failed: Option<String>,
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
        let conversation = Arc::clone(conversation);
        let sink = engine.secrets.stored_form(BoundedWriter {
            engine,
            conversation: Arc::clone(&conversation),
            artifact,
            reserved: output.length.unwrap_or(0),
            room,
        });
        Ok(Self { engine, conversation, sink, offered: 0, failed: None, is_counted: true })
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

    /// Takes `bytes` as far as it can, and never fails: the artifact tells how many bytes were not
    /// kept, and why.
    pub fn keep(&mut self, bytes: &[u8]) {
        self.offered += bytes.len() as u64;
        if self.failed.is_none() {
            // What fails is noted.
            let _kept = self.write_all(bytes);
        }
    }

    /// Writes what masking holds back. No byte may follow.
    pub fn finish(&mut self) -> io::Result<()> {
        self.check()?;
        let finished = self.sink.finish();
        finished.inspect_err(|error| self.note(error))
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
        let Self { engine, conversation, sink, offered, failed, is_counted } = self;
        let artifact = sink.into_inner().artifact;
        let lost = offered.saturating_sub(artifact.written());
        let failed = failed.map(|failed| match lost {
            0 => failed,
            lost => format!("{failed}; {lost} bytes more were not kept"),
        });
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
            self.failed.get_or_insert_with(|| reason(error));
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

fn reason(error: &io::Error) -> String {
    let known = reason_of_loss(io_error_number(error), error);
    known.unwrap_or_else(|| format!("the store failed: {error}"))
}

#[cfg(test)]
mod tests;
