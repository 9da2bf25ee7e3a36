//! The output of a command: its logs, the copy for a person at a terminal, and the part in memory.

use std::ffi::OsString;
use std::io;
use std::io::Write as _;

use crate::run::child::{OpenOutput, OutputStream};
use crate::run::held_output::HeldOutput;
use crate::run::log::CommandLogs;
use crate::run::short_output::ShortOutput;
use ctxfs_core::model::Provenance;
use ctxfs_engine::{EngineError, StoredOutput};

/// The reason that a log may lack its end, if other processes had its source open.
const LEFT_OPEN: &str = "another process still had its output open";
/// The reason that a log counts as incomplete while a process in the background writes it.
const LIVE: &str = "it is live: a process in the background still writes to it";

/// The output of a running command.
pub(super) struct CommandOutput<'a> {
    logs: CommandLogs<'a>,
    short: ShortOutput,
    held: HeldOutput,
    /// True if a person sees the output as it comes.
    is_live: bool,
}

/// The output of a command that has ended.
pub(super) struct ClosedOutput {
    /// The whole output, if it is short and not to be stored.
    pub(super) short: Option<Vec<u8>>,
    /// The log of both streams; `None` if the logs were removed.
    pub(super) stored: Result<Option<StoredOutput>, EngineError>,
    /// The beginning and the end of the output.
    pub(super) held: HeldOutput,
    /// The reason that `held` has more of the output than the logs, if it has.
    pub(super) why: Option<String>,
    /// True if a process in the background still writes to the logs.
    pub(super) is_written: bool,
}

/// The logs that another process is to go on with.
pub(super) struct HandedLogs {
    pub(super) names: Vec<OsString>,
    /// The reason that they are incomplete already.
    pub(super) cut: Option<String>,
    /// True if they are to be removed unless more comes.
    pub(super) is_short: bool,
}

impl<'a> CommandOutput<'a> {
    pub(super) fn new(logs: CommandLogs<'a>, short: ShortOutput, is_live: bool) -> Self {
        Self { logs, short, held: HeldOutput::default(), is_live }
    }

    /// Takes bytes of one stream.
    pub(super) fn take(&mut self, stream: OutputStream, bytes: &[u8]) {
        self.logs.write(stream, bytes);
        self.short.add(bytes);
        self.held.add(bytes);
        if self.is_live {
            let mut out = io::stdout().lock();
            // Without a terminal, the command still goes on.
            self.is_live = out.write_all(bytes).and_then(|()| out.flush()).is_ok();
        }
    }

    /// Closes the logs, or discards them if the output is short. If other processes have sources of
    /// it open, `hand_over` starts a process that goes on with the logs.
    pub(super) fn close(
        self,
        newer: &Provenance,
        left: Vec<OpenOutput>,
        hand_over: impl FnOnce(Vec<OpenOutput>, HandedLogs) -> io::Result<()>,
    ) -> ClosedOutput {
        let Self { mut logs, short, held, is_live: _ } = self;
        let short = short.finish(newer.exit_code);
        let loss = logs.finish(newer);
        let cut = loss.map(|loss| loss.why.clone());
        let why = cut.clone().filter(|_| held.is_whole() || loss.is_some_and(|loss| !loss.has_end));
        let is_left = !left.is_empty();
        let is_written = is_left && {
            let handed = HandedLogs { names: logs.names(), cut, is_short: short.is_some() };
            let handed = hand_over(left, handed);
            handed.inspect_err(|error| tracing::debug!(%error, "nobody reads on")).is_ok()
        };
        let cut = (is_left && !is_written).then_some(LEFT_OPEN);
        let stored = if is_written {
            logs.leave(LIVE).map(Some)
        } else if short.is_some() && cut.is_none() {
            logs.discard();
            Ok(None)
        } else {
            logs.seal(cut).map(Some)
        };
        ClosedOutput { short, stored, held, why, is_written }
    }
}
