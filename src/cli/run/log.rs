//! The logs of a command: both streams in one, and each by itself where that is wanted.

use std::io;
use std::io::Write;
use std::sync::Arc;

use crate::cli::put::CallSettings;
use crate::cli::run::child::OutputStream;
use crate::cli::settings::Key;
use crate::cli::settings::Settings;
use crate::model::Component;
use crate::model::Folder;
use crate::model::Record;
use crate::model::Said;
use crate::redact::Stream;
use crate::store::ArtifactWriter;
use crate::store::Conversation;
use crate::store::StoreError;
use crate::store::call_stem;

/// The logs, being written.
pub(super) struct CommandLogs<'a> {
    both: CommandLog<'a>,
    /// Standard output and standard error.
    apart: Option<(CommandLog<'a>, CommandLog<'a>)>,
    /// Whether a person's terminal still takes what is shown.
    shown: bool,
}

impl<'a> CommandLogs<'a> {
    /// Begins `<id>.log`, and where they are `split`, `<id>.stdout.log` and `<id>.stderr.log`.
    pub(super) fn create(
        conversation: &Arc<Conversation>,
        id: &str,
        split: bool,
        asked: &'a CallSettings,
    ) -> anyhow::Result<Self> {
        let stem = call_stem(id).to_text();
        let log = |extension| -> anyhow::Result<CommandLog<'a>> {
            let name = Component::new(format!("{stem}.{extension}"))?;
            let said = asked.said();
            let writer = ArtifactWriter::create(conversation, Folder::Terminal, &name, said)?;
            Ok(CommandLog::new(
                CappedWriter { writer, cap: cap(&asked.settings), over: None },
                asked,
            ))
        };
        let apart = if split { Some((log("stdout.log")?, log("stderr.log")?)) } else { None };
        Ok(Self { both: log("log")?, apart, shown: true })
    }

    /// Keeps what came of one stream, and shows it where a person watches.
    pub(super) fn write(&mut self, which: OutputStream, bytes: &[u8], live: bool) {
        self.both.write(bytes);
        match (&mut self.apart, which) {
            (Some((out, _)), OutputStream::Stdout) => out.write(bytes),
            (Some((_, err)), OutputStream::Stderr) => err.write(bytes),
            (None, _) => {}
        }
        if live && self.shown {
            let mut out = io::stdout().lock();
            // A terminal that is gone ends the watching, not the command.
            self.shown = out.write_all(bytes).and_then(|()| out.flush()).is_ok();
        }
    }

    /// Closes all, as lacking their ends where `cut` says why. Answers the record of the log of both.
    pub(super) fn close(self, newer: &Said, cut: Option<&str>) -> Result<Record, StoreError> {
        if let Some((out, err)) = self.apart {
            out.close(newer, cut)?;
            err.close(newer, cut)?;
        }
        self.both.close(newer, cut)
    }
}

/// Most bytes of a log, where there is such a limit.
fn cap(settings: &Settings) -> Option<u64> {
    let caps = [Key::MaxArtifact, Key::MaxTerminal].map(|key| settings.number(key));
    caps.into_iter().flatten().min()
}

/// One log; where what is stored is masked, it comes later by what a secret may take.
enum CommandLog<'a> {
    Plain(CappedWriter),
    Masked(Stream<'a, CappedWriter>),
}

impl<'a> CommandLog<'a> {
    fn new(kept: CappedWriter, asked: &'a CallSettings) -> Self {
        match asked.stored_rules() {
            Some(rules) => Self::Masked(Stream::new(rules, kept)),
            None => Self::Plain(kept),
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        match self {
            Self::Plain(kept) => kept.keep(bytes),
            Self::Masked(stream) => drop(stream.write_all(bytes)),
        }
    }

    fn close(self, newer: &Said, cut: Option<&str>) -> Result<Record, StoreError> {
        let kept = match self {
            Self::Plain(kept) => kept,
            Self::Masked(stream) => match stream.finish() {
                Ok(kept) => kept,
                Err(never) => unreachable!("what is kept takes everything: {never}"),
            },
        };
        kept.close(newer, cut)
    }
}

/// An artifact that takes everything, and keeps as much as it may. The command goes on: it is not
/// to fail because it talks too much.
struct CappedWriter {
    writer: ArtifactWriter,
    cap: Option<u64>,
    over: Option<Overflow>,
}

/// What is not kept.
struct Overflow {
    why: String,
    bytes: u64,
}

impl CappedWriter {
    fn keep(&mut self, bytes: &[u8]) {
        let room = self.cap.map_or(u64::MAX, |cap| cap.saturating_sub(self.writer.written()));
        let room = if self.over.is_some() { 0 } else { room };
        let (fits, rest) = bytes.split_at(bytes.len().min(usize::try_from(room).unwrap_or(0)));
        let before = self.writer.written();
        let why = match (self.writer.write_all(fits), self.cap) {
            (Err(error), _) => format!("the store failed: {error}"),
            (Ok(()), Some(cap)) => format!("the artifact has reached its cap of {cap} bytes"),
            (Ok(()), None) => return,
        };
        let lost = fits.len() as u64 - (self.writer.written() - before) + rest.len() as u64;
        if lost > 0 {
            self.over.get_or_insert(Overflow { why, bytes: 0 }).bytes += lost;
        }
    }

    fn close(mut self, newer: &Said, cut: Option<&str>) -> Result<Record, StoreError> {
        self.writer.say(newer);
        match (self.over, cut) {
            (Some(Overflow { why, bytes }), _) => {
                self.writer.seal_incomplete(&format!("{why}; {bytes} bytes more were not kept"))
            }
            (None, Some(why)) => self.writer.seal_incomplete(why),
            (None, None) => self.writer.seal(),
        }
    }
}

impl Write for CappedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.keep(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
