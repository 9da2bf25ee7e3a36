//! The logs of a command: one for both streams, and on request one for each.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;

use crate::put::TargetConversation;
use crate::run::child::OutputStream;
use ctxfs_core::model::{Component, Provenance};
use ctxfs_engine::{EngineError, Intake, Loss, OutputName, StoredOutput};

/// The logs of a command. What does not fit into them is dropped, except for the end, so that the
/// command does not fail because of too much output.
pub(super) struct CommandLogs<'a> {
    both: Intake<'a>,
    /// Standard output and standard error.
    apart: Option<(Intake<'a>, Intake<'a>)>,
}

impl<'a> CommandLogs<'a> {
    /// Creates `<id>.log`, and if `split` is set, `<id>.stdout.log` and `<id>.stderr.log`. If there
    /// are logs of the id, the next are those of `<id>-2`, and so on.
    pub(super) fn create(
        target: &'a TargetConversation,
        id: &str,
        split: bool,
        provenance: &Provenance,
    ) -> anyhow::Result<Self> {
        let both = target.intake(OutputName::Log(id.to_owned()), provenance.clone())?;
        let mut both = both.keeping_end();
        let stem = Path::new(both.path().file_name()).to_owned();
        let stream = |extension| -> anyhow::Result<Intake<'a>> {
            let name = OutputName::Stream(Component::new(stem.with_extension(extension))?);
            Ok(target.intake(name, provenance.clone())?.as_copy().keeping_end())
        };
        let apart = if split { Some((stream("stdout.log")?, stream("stderr.log")?)) } else { None };
        Ok(Self { both, apart })
    }

    /// Goes on with the logs of these names, which another process has begun: one, or three.
    pub(super) fn take_over(
        target: &'a TargetConversation,
        names: &[OsString],
        newer: &Provenance,
    ) -> anyhow::Result<Self> {
        let log = |name: &OsString| -> anyhow::Result<Intake<'a>> {
            let (engine, conversation) = (&target.engine, &target.conversation);
            let log = Intake::take_over(engine, conversation, &Component::new(name)?, newer)?;
            Ok(log.keeping_end())
        };
        let apart = match names {
            [_, out, err] => Some((log(out)?.as_copy(), log(err)?.as_copy())),
            _ => None,
        };
        let both = names.first().ok_or_else(|| anyhow::anyhow!("no log is named"))?;
        Ok(Self { both: log(both)?, apart })
    }

    /// Returns the names of the logs.
    pub(super) fn names(&mut self) -> Vec<OsString> {
        self.each().map(|log| log.path().file_name().to_owned()).collect()
    }

    /// Stores bytes of one stream.
    pub(super) fn write(&mut self, stream: OutputStream, bytes: &[u8]) {
        let apart = match (&mut self.apart, stream) {
            (Some((out, _)), OutputStream::Stdout) => Some(out),
            (Some((_, err)), OutputStream::Stderr) => Some(err),
            (None, _) => None,
        };
        for log in [Some(&mut self.both), apart].into_iter().flatten() {
            // What is not kept is told at the end.
            drop(log.write_all(bytes));
        }
    }

    /// Adds `newer` facts, and writes the bytes that masking held back and the end of an output that
    /// passed a limit. Returns the loss of the log of both streams. No byte may follow.
    pub(super) fn finish(&mut self, newer: &Provenance) -> Option<&Loss> {
        for log in self.each() {
            log.say(newer);
            // What fails is noted.
            let _finished = log.finish();
        }
        self.both.loss()
    }

    /// Seals all logs, and returns the log of both streams. `cut` is the reason if they lack their
    /// ends.
    pub(super) fn seal(self, cut: Option<&str>) -> Result<StoredOutput, EngineError> {
        let (both, apart) = self.into_parts();
        for log in apart {
            seal(log, cut)?;
        }
        seal(both, cut)
    }

    /// Leaves all logs to another process, and returns the log of both streams as it stands, which
    /// counts as incomplete for the reason `why`.
    pub(super) fn leave(self, why: &str) -> Result<StoredOutput, EngineError> {
        let (both, apart) = self.into_parts();
        for log in apart {
            log.leave(why)?;
        }
        both.leave(why)
    }

    /// Removes all logs.
    pub(super) fn discard(self) {
        let (both, apart) = self.into_parts();
        for log in apart.chain([both]) {
            if let Err(error) = log.discard() {
                tracing::debug!(%error, "the log of a short output stays");
            }
        }
    }

    fn each(&mut self) -> impl Iterator<Item = &mut Intake<'a>> {
        let apart = self.apart.iter_mut().flat_map(|(out, err)| [out, err]);
        std::iter::once(&mut self.both).chain(apart)
    }

    fn into_parts(self) -> (Intake<'a>, impl Iterator<Item = Intake<'a>>) {
        (self.both, self.apart.into_iter().flat_map(|(out, err)| [out, err]))
    }
}

fn seal(log: Intake<'_>, cut: Option<&str>) -> Result<StoredOutput, EngineError> {
    match cut {
        Some(why) => log.seal_incomplete(why),
        None => log.seal(),
    }
}
