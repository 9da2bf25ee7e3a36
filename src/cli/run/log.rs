//! The logs of a command: one for both streams, and on request one for each.

use std::io;
use std::io::Write;
use std::sync::Arc;

use crate::cli::put::CallSettings;
use crate::cli::run::child::OutputStream;
use crate::cli::settings::Key;
use crate::cli::settings::Settings;
use crate::model::Component;
use crate::model::Folder;
use crate::model::Provenance;
use crate::model::Record;
use crate::redact::MaskingWriter;
use crate::store::ArtifactWriter;
use crate::store::Conversation;
use crate::store::StoreError;
use crate::store::call_stem;

/// The logs of a running command.
pub(super) struct CommandLogs<'a> {
    both: CommandLog<'a>,
    /// Standard output and standard error.
    apart: Option<(CommandLog<'a>, CommandLog<'a>)>,
    /// True while the user's terminal accepts output.
    shown: bool,
}

impl<'a> CommandLogs<'a> {
    /// Creates `<id>.log`, and if `split` is set, `<id>.stdout.log` and `<id>.stderr.log`.
    pub(super) fn create(
        conversation: &Arc<Conversation>,
        id: &str,
        split: bool,
        call_settings: &'a CallSettings,
    ) -> anyhow::Result<Self> {
        let stem = call_stem(id).to_text();
        let log = |extension| -> anyhow::Result<CommandLog<'a>> {
            let name = Component::new(format!("{stem}.{extension}"))?;
            let provenance = call_settings.provenance();
            let writer = ArtifactWriter::create(conversation, Folder::Terminal, &name, provenance)?;
            Ok(CommandLog::new(
                CappedWriter { writer, cap: cap(&call_settings.settings), over: None },
                call_settings,
            ))
        };
        let apart = if split { Some((log("stdout.log")?, log("stderr.log")?)) } else { None };
        Ok(Self { both: log("log")?, apart, shown: true })
    }

    /// Stores bytes of one stream, and prints them if `live` is set.
    pub(super) fn write(&mut self, stream: OutputStream, bytes: &[u8], live: bool) {
        self.both.write(bytes);
        match (&mut self.apart, stream) {
            (Some((out, _)), OutputStream::Stdout) => out.write(bytes),
            (Some((_, err)), OutputStream::Stderr) => err.write(bytes),
            (None, _) => {}
        }
        if live && self.shown {
            let mut out = io::stdout().lock();
            // Without a terminal, the command still goes on.
            self.shown = out.write_all(bytes).and_then(|()| out.flush()).is_ok();
        }
    }

    /// Closes all logs, and returns the record of the log of both streams. `cut` is the reason if
    /// they lack their ends.
    pub(super) fn close(self, newer: &Provenance, cut: Option<&str>) -> Result<Record, StoreError> {
        if let Some((out, err)) = self.apart {
            out.close(newer, cut)?;
            err.close(newer, cut)?;
        }
        self.both.close(newer, cut)
    }
}

/// Returns the maximum bytes of a log, if there is one.
fn cap(settings: &Settings) -> Option<u64> {
    let caps = [Key::MaxArtifact, Key::MaxTerminal].map(|key| settings.number(key));
    caps.into_iter().flatten().min()
}

/// One log. With masking, its end is held back by the maximum length of a secret.
enum CommandLog<'a> {
    Plain(CappedWriter),
    Masked(MaskingWriter<'a, CappedWriter>),
}

impl<'a> CommandLog<'a> {
    fn new(writer: CappedWriter, call_settings: &'a CallSettings) -> Self {
        match call_settings.stored_rules() {
            Some(rules) => Self::Masked(MaskingWriter::new(rules, writer)),
            None => Self::Plain(writer),
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        match self {
            Self::Plain(writer) => writer.keep(bytes),
            Self::Masked(stream) => drop(stream.write_all(bytes)),
        }
    }

    fn close(self, newer: &Provenance, cut: Option<&str>) -> Result<Record, StoreError> {
        let writer = match self {
            Self::Plain(writer) => writer,
            Self::Masked(stream) => match stream.finish() {
                Ok(writer) => writer,
                Err(never) => unreachable!("the writer accepts everything: {never}"),
            },
        };
        writer.close(newer, cut)
    }
}

/// A writer to an artifact that accepts everything and stores up to its cap, so that a command does
/// not fail because of too much output.
struct CappedWriter {
    writer: ArtifactWriter,
    cap: Option<u64>,
    over: Option<Overflow>,
}

/// The output that is not stored: the reason and its bytes.
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

    fn close(mut self, newer: &Provenance, cut: Option<&str>) -> Result<Record, StoreError> {
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
