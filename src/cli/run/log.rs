//! The logs of a command: one for both streams, and on request one for each.

use std::io;
use std::io::Write as _;
use std::path::Path;

use crate::cli::put::TargetConversation;
use crate::cli::run::child::OutputStream;
use crate::cli::run::short_output::ShortOutput;
use crate::engine::EngineError;
use crate::engine::Intake;
use crate::engine::OutputName;
use crate::engine::StoredOutput;
use crate::model::Component;
use crate::model::Provenance;

/// The logs of a running command. What does not fit into them is dropped, so that the command does
/// not fail because of too much output.
pub(super) struct CommandLogs<'a> {
    both: Intake<'a>,
    /// Standard output and standard error.
    apart: Option<(Intake<'a>, Intake<'a>)>,
    /// True while the user's terminal accepts output.
    shown: bool,
    short: ShortOutput,
}

/// The end of the logs of a command.
pub(super) enum ClosedLogs {
    /// The output is stored.
    Stored(Box<StoredOutput>),
    /// The output was short, and is not stored.
    Short(Vec<u8>),
}

impl<'a> CommandLogs<'a> {
    /// Creates `<id>.log`, and if `split` is set, `<id>.stdout.log` and `<id>.stderr.log`. If there
    /// are logs of the id, the next are those of `<id>-2`, and so on.
    pub(super) fn create(
        target: &'a TargetConversation,
        id: &str,
        split: bool,
        provenance: &Provenance,
        short: ShortOutput,
    ) -> anyhow::Result<Self> {
        let mut both = target.intake(OutputName::Log(id.to_owned()), provenance.clone())?;
        let stem = Path::new(both.path().file_name()).to_owned();
        let stream = |extension| -> anyhow::Result<Intake<'a>> {
            let name = OutputName::Stream(Component::new(stem.with_extension(extension))?);
            Ok(target.intake(name, provenance.clone())?.as_copy())
        };
        let apart = if split { Some((stream("stdout.log")?, stream("stderr.log")?)) } else { None };
        Ok(Self { both, apart, shown: true, short })
    }

    /// Stores bytes of one stream, and prints them if `live` is set.
    pub(super) fn write(&mut self, stream: OutputStream, bytes: &[u8], live: bool) {
        self.both.keep(bytes);
        self.short.add(bytes);
        match (&mut self.apart, stream) {
            (Some((out, _)), OutputStream::Stdout) => out.keep(bytes),
            (Some((_, err)), OutputStream::Stderr) => err.keep(bytes),
            (None, _) => {}
        }
        if live && self.shown {
            let mut out = io::stdout().lock();
            // Without a terminal, the command still goes on.
            self.shown = out.write_all(bytes).and_then(|()| out.flush()).is_ok();
        }
    }

    /// Closes all logs, and returns that of both streams, or discards them. `cut` is the reason if
    /// they lack their ends: then they stay.
    pub(super) fn close(
        self,
        newer: &Provenance,
        cut: Option<&str>,
    ) -> Result<ClosedLogs, EngineError> {
        let Self { both, apart, short, shown: _ } = self;
        let apart = apart.into_iter().flat_map(|(out, err)| [out, err]);
        if let Some(bytes) = short.finish(newer.exit_code).filter(|_| cut.is_none()) {
            apart.chain([both]).try_for_each(Intake::discard)?;
            return Ok(ClosedLogs::Short(bytes));
        }
        for log in apart {
            close(log, newer, cut)?;
        }
        Ok(ClosedLogs::Stored(Box::new(close(both, newer, cut)?)))
    }
}

fn close(
    log: Intake<'_>,
    newer: &Provenance,
    cut: Option<&str>,
) -> Result<StoredOutput, EngineError> {
    let mut log = log;
    log.say(newer);
    match cut {
        Some(why) => log.seal_incomplete(why),
        None => log.seal(),
    }
}
