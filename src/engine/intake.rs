//! Intake of outputs. The bytes of an output go to the store as they arrive, within the limits. The
//! output is analysed, recorded and counted once. If an output exceeds a limit, its end may replace
//! the last part of the artifact.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use crate::{
    Engine, EngineError, MaskedForm, OutputParts, Reservation, Result, RoomRequest, ShownOutput,
    StoredOutput, fitting_below_cap, fitting_on_disk, io_error_number, over_quota, reason_of_loss,
    reserve_file, reserve_part,
};
use ctxfs_core::model::{
    Analysis, ArtifactState, Change, Component, Folder, NoFilters, Provenance, Record, RelPath,
    Since,
};
use ctxfs_store::{ArtifactWriter, BLOCK, Completed, Conversation, earlier_run, whole_blocks};
use ctxfs_view::{COMPARED_BYTES, change, run_key};

/// An output to take in.
///
/// - `provenance`: the description of the tool call
/// - `length`: the length in bytes, if known. The intake then starts only if there is room for all
///   of them.
#[derive(Debug)]
pub struct NewOutput {
    pub name: OutputName,
    pub provenance: Provenance,
    pub length: Option<u64>,
}

/// The name under which an output is stored.
///
/// - `Call`: `<call>.json` or `<call>.txt` in `artifacts/tool`; see
///   [`ArtifactWriter::create_for_call`]
/// - `Log`: `<call>.log` in `artifacts/terminal`
/// - `Stream`: an unused name in `artifacts/terminal`
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutputName {
    Call(String),
    Log(String),
    Stream(Component),
}

/// A writer that stores an output.
///
/// All bytes are in the file before `write` returns, except that masking of secrets may hold back
/// the last bytes. At a limit or after a disk failure, the bytes written so far are kept and no
/// more are accepted, unless [`Intake::keeping_end`] was called. Dropping an intake leaves an
/// incomplete artifact.
pub struct Intake<'a> {
    engine: &'a Engine,
    conversation: Arc<Conversation>,
    sink: MaskedForm<'a, BoundedWriter<'a>>,
    /// The reason why no more bytes are accepted.
    failed: Option<String>,
    /// The part that is missing from the artifact. Set by [`Self::finish`] after
    /// [`Intake::keeping_end`].
    pub loss: Option<Loss>,
    is_counted: bool,
}

impl OutputName {
    // The stream of a command that has a log for each.
    fn stream(&self) -> &'static str {
        let Self::Stream(name) = self else { return "" };
        let name = name.as_os_str().as_bytes();
        let is_of = |stream: &&str| name.ends_with(format!(".{stream}.log").as_bytes());
        ["stdout", "stderr"].into_iter().find(is_of).unwrap_or_default()
    }
}

impl Engine {
    /// Starts the intake of an output, within the cap, the quota and the free space on disk.
    pub fn intake(
        &self,
        conversation: &Arc<Conversation>,
        output: NewOutput,
    ) -> Result<Intake<'_>> {
        let room = match output.length {
            Some(length) => {
                self.check_cap(|| false, || Ok(0), length)?;
                reserve_file(self, conversation, length)?
            }
            // An output of unknown length starts even without room, so that its record gives the
            // reason why it is empty.
            None => Reservation::default(),
        };
        let mut provenance = self.secrets.provenance_to_store(output.provenance);
        provenance.run = run_key(&provenance, output.name.stream());
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
        if self.options.write_once {
            artifact = artifact.write_once();
        }
        let reserved = output.length.unwrap_or(0);
        Ok(Intake::of(self, conversation, artifact, reserved, room))
    }
}

impl<'a> Intake<'a> {
    /// Continues the log `name` that another process has written, and adds the facts in `newer`.
    /// The other process must not write to the log from now on.
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

    /// Marks the output as a copy of another output. A copy is not counted.
    #[must_use]
    pub fn as_copy(self) -> Self {
        Self { is_counted: false, ..self }
    }

    /// Returns the path of the artifact. The path may change when the artifact is sealed.
    pub fn path(&mut self) -> &RelPath {
        self.sink.get_mut().artifact.path()
    }

    /// Adds facts that became known during the intake, such as an exit code.
    pub fn say(&mut self, newer: &Provenance) {
        self.sink.get_mut().artifact.provenance().update(newer);
    }

    /// Returns an intake whose `write` never fails, for a caller that reads its source to the end.
    /// Instead, `finish` fails.
    ///
    /// At a limit or on a full disk, the end of the output replaces the last stored bytes. The end
    /// has at most 256 KiB, and at most a quarter of the size of the artifact. A line before the
    /// end gives the number of missing bytes and the reason. An artifact keeps only its beginning
    /// if it is smaller than 16 KiB or if the disk fails.
    #[must_use]
    pub fn keeping_end(mut self) -> Self {
        self.sink.get_mut().keeps_end = true;
        self
    }

    /// Writes the bytes that masking holds back, and the end of an output that exceeded a limit. No
    /// byte may be written afterwards. Fails if the output is not stored completely.
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

    /// Completes the artifact: syncs, records and counts it. An output that is not stored
    /// completely becomes an incomplete artifact. If the call already has an output with the same
    /// bytes, returns that output.
    pub fn seal(self) -> Result<StoredOutput> {
        self.close(None)
    }

    /// Closes the artifact as incomplete. The reason is `why`, unless an earlier reason is known.
    pub fn seal_incomplete(self, why: &str) -> Result<StoredOutput> {
        self.close(Some(why.to_owned()))
    }

    /// Leaves the artifact to a process that has taken it over. Returns the output in its current
    /// state, marked as incomplete for the reason `why`.
    pub fn leave(self, why: &str) -> Result<StoredOutput> {
        let Self { engine, conversation, sink, .. } = self;
        let path = sink.into_inner().artifact.leave();
        let stat = conversation.dir().stat_at(&path)?;
        let record = conversation.record_for(&path, &stat)?;
        let state = ArtifactState::Incomplete(why.to_owned());
        StoredOutput::open(engine, &conversation, Record { state, ..record }, true)
    }

    /// Removes the artifact, as if the output had never arrived.
    pub fn discard(self) -> Result<()> {
        let Self { engine, conversation, sink, .. } = self;
        sink.into_inner().artifact.discard()?;
        engine.space.quotas.freed(conversation.id());
        Ok(())
    }

    fn close(mut self, why: Option<String>) -> Result<StoredOutput> {
        // `finish` notes a failure in `failed`.
        let _finished = self.finish();
        let Self { engine, conversation, sink, failed, loss: _, is_counted } = self;
        let mut artifact = sink.into_inner().artifact;
        let state = match failed.as_ref().or(why.as_ref()) {
            Some(why) => ArtifactState::Incomplete(why.clone()),
            None => ArtifactState::Sealed,
        };
        artifact.note_since(|record, analysis| {
            let record = Record { state, size: analysis.bytes, ..record.clone() };
            let since = since_last_run(engine, &conversation, record, analysis);
            since.unwrap_or_else(|error| {
                tracing::debug!(%error, "an output was not compared with that of the last run");
                None
            })
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
            engine.note_sealed(id, record.size);
        } else {
            engine.space.quotas.freed(id);
        }
        StoredOutput::open(engine, &conversation, record, true)
    }

    fn check(&self) -> io::Result<()> {
        self.failed.as_ref().map_or(Ok(()), |why| Err(io::Error::other(why.clone())))
    }

    fn note(&mut self, error: &io::Error) {
        if error.kind() != io::ErrorKind::Interrupted {
            self.failed.get_or_insert_with(|| failure(error));
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

/// A writer to an artifact that checks for room first, as a write through a mount does.
///
/// If bytes exceed a limit, the writer accepts those that fit. If none fit, `write` fails with the
/// [`EngineError`] for the limit. With `keeps_end`, no write fails: the overflow goes to `over`.
///
/// - `reserved`: the offset up to which room was reserved before the first byte arrived
/// - `room`: the room below the quota that was reserved before the first byte arrived
struct BoundedWriter<'a> {
    engine: &'a Engine,
    conversation: Arc<Conversation>,
    artifact: ArtifactWriter,
    reserved: u64,
    room: Reservation,
    keeps_end: bool,
    over: Option<Overflow>,
}

impl BoundedWriter<'_> {
    /// Returns how many of `length` more bytes fit, and reserves room for them below the quota.
    /// Fails if no byte fits.
    fn room(&self, length: u64) -> Result<(u64, Reservation)> {
        let engine = self.engine;
        let size = self.artifact.written();
        if size + length <= self.reserved {
            return Ok((length, Reservation::default()));
        }
        let is_terminal = self.artifact.path().is_terminal();
        let length = fitting_below_cap(engine, is_terminal, size, length)?;
        let (length, reserved) = self.below_quota(length)?;
        match fitting_on_disk(engine, length, true)? {
            0 => Err(EngineError::DiskNearlyFull(engine.options.min_free)),
            fits => Ok((fits, reserved)),
        }
    }

    fn write_fitting(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (fits, _reserved) = self.room(bytes.len() as u64)?;
        let written = self.artifact.write(&bytes[..fits as usize])?;
        self.room.written(written as u64);
        if written == 0 { Err(io::ErrorKind::WriteZero.into()) } else { Ok(written) }
    }

    fn below_quota(&self, length: u64) -> Result<(u64, Reservation)> {
        let engine = self.engine;
        if engine.options.quota.is_none() {
            return Ok((length, Reservation::default()));
        }
        let size = self.artifact.written();
        let taken = whole_blocks(size);
        let growth = whole_blocks(size + length).saturating_sub(taken);
        let (id, conversation) = (self.conversation.id(), Some(&*self.conversation));
        let reserved =
            reserve_part(engine, &RoomRequest { id, conversation, growth, partly: true })?;
        if reserved.bytes() >= growth {
            return Ok((length, reserved));
        }
        match ((taken + reserved.bytes()) / BLOCK * BLOCK).saturating_sub(size).min(length) {
            0 => Err(over_quota(engine)),
            fits => Ok((fits, reserved)),
        }
    }
}

impl Write for BoundedWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        if let Some(over) = &mut self.over {
            over.tail.add(bytes);
            return Ok(bytes.len());
        }
        match self.write_fitting(bytes) {
            Err(error) if self.keeps_end && error.kind() != io::ErrorKind::Interrupted => {
                let mut tail = Tail::default();
                tail.add(bytes);
                self.over = Some(Overflow { error, tail });
                Ok(bytes.len())
            }
            written => written,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.artifact.flush()
    }
}

/// Maximum number of bytes of a [`Tail`].
const MOST: usize = 256 * 1024;
/// Maximum distance in bytes by which a cut is moved to a newline, so that it falls between two
/// lines.
const NEAR: usize = 4096;

/// The last bytes of a stream, at most 256 KiB.
#[derive(Debug, Default)]
pub struct Tail {
    bytes: VecDeque<u8>,
    dropped: u64,
}

impl Tail {
    /// Adds bytes at the end. Drops the excess at the beginning.
    pub fn add(&mut self, bytes: &[u8]) {
        let more = &bytes[bytes.len().saturating_sub(MOST)..];
        let over = (self.bytes.len() + more.len()).saturating_sub(MOST);
        self.bytes.drain(..over);
        self.bytes.extend(more);
        self.dropped += (over + bytes.len() - more.len()) as u64;
    }

    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    pub fn bytes(&mut self) -> &[u8] {
        self.bytes.make_contiguous()
    }
}

/// Returns the line that replaces `count` missing bytes.
pub fn left_out(count: u64, why: &str) -> String {
    format!("[ctxfs] {count} bytes left out here: {why}\n")
}

/// Returns the length of `head` without an incomplete line at its end, if a newline is close to the
/// end. Otherwise returns the length without an incomplete character.
pub fn whole_lines_before(head: &[u8]) -> usize {
    let from = head.len().saturating_sub(NEAR);
    if let Some(newline) = head[from..].iter().rposition(|byte| *byte == b'\n') {
        return from + newline + 1;
    }
    let begins = head.iter().rev().take(4).position(|byte| !is_inside_char(*byte));
    match begins {
        Some(back) if head[head.len() - 1 - back] >= 0xC0 => head.len() - 1 - back,
        _ => head.len(),
    }
}

/// Returns the length of the incomplete line at the beginning of `tail`, if a newline is close to
/// the beginning. Otherwise returns the length of an incomplete character.
pub fn cut_line_of(tail: &[u8]) -> usize {
    let near = &tail[..tail.len().min(NEAR)];
    if let Some(newline) =
        near.iter().position(|byte| *byte == b'\n').filter(|at| at + 1 < tail.len())
    {
        return newline + 1;
    }
    near.iter().take(3).take_while(|byte| is_inside_char(**byte)).count()
}

fn is_inside_char(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

/// The end of the output replaces at most the last 1/`PART` of the artifact.
const PART: u64 = 4;
/// Minimum size in bytes of the part that the end may replace. If 1/`PART` of the artifact is
/// smaller, the end is not stored.
const LEAST: u64 = 4096;

#[derive(Debug)]
pub(crate) struct Overflow {
    pub(crate) error: io::Error,
    pub(crate) tail: Tail,
}

/// The part of an output that is missing from its artifact.
///
/// - `why`: the reason, as given in the line that replaces the missing part
/// - `has_end`: true if the artifact has the end of the output, after a line that replaces the
///   missing part
#[derive(Debug)]
pub struct Loss {
    pub why: String,
    pub has_end: bool,
}

impl Overflow {
    /// If a limit or a full disk caused the error, replaces the last stored bytes with the end of
    /// the output. Returns the loss, and the reason to put into the record.
    pub(crate) fn settle(&mut self, artifact: &mut ArtifactWriter) -> (Loss, String) {
        let reason = failure(&self.error);
        let number = io_error_number(&self.error);
        let (why, cut) = if [libc::EFBIG, libc::EDQUOT, libc::ENOSPC].contains(&number) {
            let why = format!("no room in the store ({})", self.error);
            let cut = self.store_end(artifact, &why).unwrap_or_else(|error| {
                tracing::debug!(%error, "the end of an output was not stored");
                None
            });
            (why, cut)
        } else {
            (reason.clone(), None)
        };
        let loss = Loss { why, has_end: cut.is_some() };
        if let Some(count) = cut {
            (loss, format!("{reason}; {count} bytes before its end are left out"))
        } else {
            let count = self.tail.dropped() + self.tail.bytes().len() as u64;
            (loss, format!("{reason}; {count} bytes more were not kept"))
        }
    }

    /// Replaces the last bytes of the artifact with a line about the missing bytes and the end of
    /// the output. Returns the number of missing bytes, or `None` if the artifact is too small.
    fn store_end(&mut self, artifact: &mut ArtifactWriter, why: &str) -> io::Result<Option<u64>> {
        let written = artifact.written();
        let most = written / PART;
        if most < LEAST {
            return Ok(None);
        }
        let total = written + self.tail.dropped() + self.tail.bytes().len() as u64;
        let tail = self.tail.bytes();
        let end = &tail[tail.len().saturating_sub(most as usize)..];
        let end = &end[cut_line_of(end)..];
        let longest_mark = left_out(u64::MAX, why).len() + 1;
        let (offset, bytes) = artifact.bytes_before(written - (end.len() + longest_mark) as u64)?;
        let kept = whole_lines_before(&bytes);
        let head = offset + kept as u64;
        let missing = total - head - end.len() as u64;
        let newline = if bytes[..kept].ends_with(b"\n") { "" } else { "\n" };
        let mark = format!("{newline}{}", left_out(missing, why));
        artifact.replace_end(head, &[mark.as_bytes(), end].concat())?;
        Ok(Some(missing))
    }
}

/// Compares an output that is about to be recorded with the output of the last run of its command.
/// Returns `None` if there was none.
fn since_last_run(
    engine: &Engine,
    conversation: &Conversation,
    record: Record,
    analysis: &Analysis,
) -> Result<Option<Since>> {
    let Some(run) = record.provenance.run.as_deref() else { return Ok(None) };
    let found = earlier_run(conversation, run, record.created)?;
    let Some((run, earlier)) = found else { return Ok(None) };
    let since = Since {
        run,
        path: earlier.path.clone(),
        ago: record.created.abs_diff(earlier.created),
        generation: record.generation,
        change: Change::Other,
    };
    let is_same = earlier.size == analysis.bytes && earlier.digest() == Some(&analysis.digest);
    let is_far = earlier.far.as_ref().is_some_and(|far| !far.here);
    let change = if is_same {
        Change::Same
    } else if is_far || earlier.size.max(analysis.bytes) > COMPARED_BYTES {
        Change::Other
    } else {
        let path = RelPath::from_text(&record.path)?;
        let content = conversation.open_artifact(&path)?;
        let place = engine.options.place(conversation.id(), &path);
        let limits = engine.options.limits.limits(record.provenance.tool_name().as_deref());
        let analysis = Arc::new(analysis.clone());
        let parts = OutputParts { content, analysis, record, place, limits };
        let own = ShownOutput::new(parts, engine.options.redaction.as_ref())?;
        let earlier = StoredOutput::open(engine, conversation, earlier, true)?;
        let ShownOutput { file, secrets, .. } = earlier.shown();
        file.with_subject(secrets, &NoFilters, |earlier| {
            own.file.with_subject(&own.secrets, &NoFilters, |subject| change(earlier, subject))
        })?
    };
    Ok(Some(Since { change, ..since }))
}

fn failure(error: &io::Error) -> String {
    let known = reason_of_loss(io_error_number(error), error);
    known.unwrap_or_else(|| format!("the store failed: {error}"))
}

#[cfg(test)]
mod tests;
