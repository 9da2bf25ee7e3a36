//! The output of a command: its logs, the copy for a user at a terminal, and the part that is held
//! in memory in case the store fails.

use std::io::{self, Write as _};
use std::iter;

use crate::hooks::{Host, OutputLength, ReplacePolicy, Replaced};
use crate::put::TargetConversation;
use crate::run::live::LiveBeginning;
use ctxfs_core::materialize::error_lines;
use ctxfs_core::model::{Component, Content, Limits, Provenance, text};
use ctxfs_engine::{
    EngineError, Intake, Loss, OutputName, Replace, StoredOutput, Tail, cut_line_of, left_out,
    whole_lines_before,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputStream {
    Stdout,
    Stderr,
}

pub(crate) type OpenOutput = (OutputStream, std::os::fd::OwnedFd);

const LEFT_OPEN: &str = "another process still had its output open";
const LIVE: &str = "it is live: a process in the background still writes to it";

pub(crate) struct CommandOutput<'a> {
    logs: CommandLogs<'a>,
    rule: OutputRule,
    length: OutputLength,
    held: HeldOutput,
    destination: Destination<'a>,
}

/// The place to which an output goes while the command runs: to a terminal completely, and
/// otherwise only its beginning. With `is_apart`, the rest of each stream goes to the same stream
/// of this process, and otherwise everything goes to standard output.
pub(crate) enum Destination<'a> {
    Terminal,
    Pipe { beginning: LiveBeginning<'a>, is_apart: bool },
}

/// The output of a command that has ended. `is_written` is true if a helper process continues the
/// logs. With `is_whole`, the output is printed unchanged. If that is all and it need not be stored,
/// the logs are removed, unless `is_written` is true. If `held` contains more of the output than
/// the logs, `why` is the reason. `passed` is the beginning of the output, as it was printed while
/// the command ran.
pub(crate) struct ClosedOutput {
    pub(crate) is_whole: bool,
    pub(crate) stored: Result<Option<StoredOutput>, EngineError>,
    pub(crate) held: HeldOutput,
    pub(crate) why: Option<String>,
    pub(crate) is_written: bool,
    pub(crate) passed: Vec<u8>,
}

pub(crate) struct HandedLogs {
    pub(crate) names: Vec<String>,
    pub(crate) cut: Option<String>,
    pub(crate) is_discarded: bool,
}

impl<'a> CommandOutput<'a> {
    pub(crate) fn new(
        logs: CommandLogs<'a>,
        rule: OutputRule,
        destination: Destination<'a>,
    ) -> Self {
        let (length, held) = (OutputLength::default(), HeldOutput::default());
        Self { logs, rule, length, held, destination }
    }

    pub(crate) fn take(&mut self, stream: OutputStream, bytes: &[u8]) {
        self.logs.write(stream, bytes);
        self.length.add(bytes);
        match &mut self.destination {
            Destination::Terminal => {
                self.held.add(OutputStream::Stdout, bytes);
                let mut out = io::stdout().lock();
                // If the terminal is closed, the command still continues.
                let _closed = out.write_all(bytes).and_then(|()| out.flush());
            }
            Destination::Pipe { beginning, is_apart } => {
                let stream = if *is_apart { stream } else { OutputStream::Stdout };
                self.held.add(stream, bytes);
                beginning.pass(&self.held);
            }
        }
    }

    /// Closes the logs, or removes them if the output is short. `left` holds the streams that other
    /// processes still have open. If there are any, `hand_over` starts a process that continues the
    /// logs.
    pub(crate) fn close(
        self,
        newer: &Provenance,
        left: Vec<OpenOutput>,
        hand_over: impl FnOnce(Vec<OpenOutput>, HandedLogs) -> io::Result<()>,
    ) -> ClosedOutput {
        let Self { mut logs, rule, length, held, destination } = self;
        let is_whole = rule.is_whole(length, newer.exit_code);
        let is_discarded = is_whole && held.is_whole() && !rule.is_stored(length, newer.exit_code);
        let passed = match destination {
            Destination::Terminal => Vec::new(),
            Destination::Pipe { beginning, .. } => beginning.passed,
        };
        let loss = logs.finish(newer);
        let cut = loss.map(|loss| loss.why.clone());
        let why = cut.clone().filter(|_| held.is_whole() || loss.is_some_and(|loss| !loss.has_end));
        let is_left = !left.is_empty();
        let is_written = is_left && {
            let handed = HandedLogs { names: logs.names(), cut, is_discarded };
            let handed = hand_over(left, handed);
            handed.inspect_err(|error| tracing::debug!(%error, "nobody reads on")).is_ok()
        };
        let cut = (is_left && !is_written).then_some(LEFT_OPEN);
        let stored = if is_written {
            logs.leave(LIVE).map(Some)
        } else if is_discarded && cut.is_none() {
            logs.discard();
            Ok(None)
        } else {
            logs.seal(cut).map(Some)
        };
        ClosedOutput { is_whole, stored, held, why, is_written, passed }
    }
}

/// The logs of a command: one for both streams, and with `--split` also one for each stream. If the
/// output exceeds a limit, its middle is dropped and the command does not fail.
pub(crate) struct CommandLogs<'a> {
    both: Intake<'a>,
    apart: Option<(Intake<'a>, Intake<'a>)>,
}

impl<'a> CommandLogs<'a> {
    pub(crate) fn create(
        target: &'a TargetConversation,
        id: &str,
        split: bool,
        provenance: &Provenance,
    ) -> anyhow::Result<Self> {
        let both = target.intake(OutputName::Log(id.to_owned()), provenance.clone())?;
        let mut both = both.keeping_end();
        let stem = std::path::Path::new(both.path().file_name()).to_owned();
        let stream = |extension| -> anyhow::Result<Intake<'a>> {
            let name = OutputName::Stream(Component::new(stem.with_extension(extension))?);
            Ok(target.intake(name, provenance.clone())?.as_copy().keeping_end())
        };
        let apart = if split { Some((stream("stdout.log")?, stream("stderr.log")?)) } else { None };
        Ok(Self { both, apart })
    }

    /// Continues existing logs that another process has begun: one log, or three with `--split`.
    pub(crate) fn take_over(
        target: &'a TargetConversation,
        names: &[String],
        newer: &Provenance,
    ) -> anyhow::Result<Self> {
        let log = |name: &String| -> anyhow::Result<Intake<'a>> {
            let (engine, conversation) = (&target.engine, &target.conversation);
            let log = Intake::take_over(engine, conversation, &Component::from_text(name)?, newer)?;
            Ok(log.keeping_end())
        };
        let apart = match names {
            [_, out, err] => Some((log(out)?.as_copy(), log(err)?.as_copy())),
            _ => None,
        };
        let both = names.first().ok_or_else(|| anyhow::anyhow!("no log is named"))?;
        Ok(Self { both: log(both)?, apart })
    }

    pub(crate) fn names(&mut self) -> Vec<String> {
        let name = |log: &mut Intake<'_>| text::encode(log.path().file_name().as_encoded_bytes());
        self.each().map(name).collect()
    }

    pub(crate) fn write(&mut self, stream: OutputStream, bytes: &[u8]) {
        let apart = match (&mut self.apart, stream) {
            (Some((out, _)), OutputStream::Stdout) => Some(out),
            (Some((_, err)), OutputStream::Stderr) => Some(err),
            (None, _) => None,
        };
        for log in [Some(&mut self.both), apart].into_iter().flatten() {
            // A failed write is reported at the end.
            drop(log.write_all(bytes));
        }
    }

    /// Adds the facts in `newer` to each log. Writes the bytes that masking held back, and the end
    /// of an output that exceeded a limit. Returns the loss in the log of both streams, if there is
    /// any. Nothing may be written afterwards.
    pub(crate) fn finish(&mut self, newer: &Provenance) -> Option<&Loss> {
        for log in self.each() {
            log.say(newer);
            // The log records failures itself.
            let _finished = log.finish();
        }
        self.both.loss.as_ref()
    }

    pub(crate) fn seal(self, cut: Option<&str>) -> Result<StoredOutput, EngineError> {
        let (both, apart) = self.into_parts();
        for log in apart {
            seal(log, cut)?;
        }
        seal(both, cut)
    }

    /// Leaves all logs to another process. Returns the log of both streams up to now, marked as
    /// incomplete for the reason `why`.
    pub(crate) fn leave(self, why: &str) -> Result<StoredOutput, EngineError> {
        let (both, apart) = self.into_parts();
        for log in apart {
            log.leave(why)?;
        }
        both.leave(why)
    }

    pub(crate) fn discard(self) {
        let (both, apart) = self.into_parts();
        for log in apart.chain([both]) {
            if let Err(error) = log.discard() {
                tracing::debug!(%error, "the log of a short output stays");
            }
        }
    }

    fn each(&mut self) -> impl Iterator<Item = &mut Intake<'a>> {
        let apart = self.apart.iter_mut().flat_map(|(out, err)| [out, err]);
        iter::once(&mut self.both).chain(apart)
    }

    fn into_parts(self) -> (Intake<'a>, impl Iterator<Item = Intake<'a>>) {
        let both_ends = |(out, err)| iter::once(out).chain(iter::once(err));
        (self.both, self.apart.into_iter().flat_map(both_ends))
    }
}

fn seal(log: Intake<'_>, cut: Option<&str>) -> Result<StoredOutput, EngineError> {
    match cut {
        Some(why) => log.seal_incomplete(why),
        None => log.seal(),
    }
}

const HEAD: usize = 64 * 1024;

/// The first 64 KiB of an output and the last 256 KiB of the rest, held in memory. While that is
/// everything, `parts` are the streams from which the bytes came, with the number of consecutive
/// bytes.
#[derive(Debug, Default)]
pub(crate) struct HeldOutput {
    head: Vec<u8>,
    tail: Tail,
    parts: Vec<(OutputStream, usize)>,
}

impl HeldOutput {
    pub(crate) fn add(&mut self, stream: OutputStream, bytes: &[u8]) {
        let (head, rest) = bytes.split_at(bytes.len().min(HEAD - self.head.len()));
        self.head.extend(head);
        self.tail.add(rest);
        let is_whole = self.is_whole();
        match self.parts.last_mut() {
            _ if !is_whole => self.parts = vec![(OutputStream::Stdout, usize::MAX)],
            Some((last, length)) if *last == stream => *length += bytes.len(),
            _ => self.parts.push((stream, bytes.len())),
        }
    }

    pub(crate) fn head(&self) -> &[u8] {
        &self.head
    }

    pub(crate) fn parts(&self) -> impl Iterator<Item = (OutputStream, usize)> {
        self.parts.iter().copied()
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.tail.dropped() == 0
    }

    // Returns true if a line looks like an error.
    pub(crate) fn names_error(&mut self) -> bool {
        let mut parts = [&*self.head, self.tail.bytes()].into_iter();
        parts.any(|part| !error_lines(part.split(|byte| *byte == b'\n')).is_empty())
    }

    pub(crate) fn is_short(&self, limits: &Limits) -> bool {
        let length = self.head.len() as u64;
        let chars = || String::from_utf8_lossy(&self.head).chars().count() as u64;
        self.head.len() < HEAD && limits.are_kept_by(length, chars())
    }

    // Returns the held bytes. A line with the reason `why` replaces missing bytes.
    pub(crate) fn text(&mut self, why: &str) -> Vec<u8> {
        let Self { head, tail, .. } = self;
        let dropped = tail.dropped();
        let tail = tail.bytes();
        if dropped == 0 {
            return [head, tail].concat();
        }
        let (kept, skipped) = (whole_lines_before(head), cut_line_of(tail));
        let missing = (head.len() - kept + skipped) as u64 + dropped;
        let newline = if head[..kept].ends_with(b"\n") { "" } else { "\n" };
        let mark = format!("{newline}{}", left_out(missing, why));
        [&head[..kept], mark.as_bytes(), &tail[skipped..]].concat()
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct HostRule {
    pub(crate) host: Option<Host>,
    pub(crate) policy: ReplacePolicy,
}

/// The rule that decides which outputs are printed unchanged, and which of these are stored.
///
/// Without a host and `discards_short`, an output within the limits is printed from its log, as any
/// other.
pub(crate) struct OutputRule {
    pub(crate) host: Option<HostRule>,
    pub(crate) limits: Limits,
    pub(crate) discards_short: bool,
}

impl HostRule {
    /// Returns the condition under which a stored output is replaced.
    pub(crate) fn replace(
        &self,
        output: &dyn Content,
        limits: &Limits,
        exit_code: i32,
    ) -> io::Result<Replace> {
        let shown = self.policy.shown_of_command(self.host, Some(exit_code));
        if limits.mirror || output.len() > shown.most_bytes() {
            return Ok(Replace::OverLimits);
        }
        let length =
            OutputLength::of(&output.bytes(0, usize::try_from(output.len()).unwrap_or(0))?);
        Ok(if shown.holds(length) { Replace::Economy } else { Replace::OverLimits })
    }
}

impl OutputRule {
    fn is_whole(&self, length: OutputLength, exit_code: Option<i32>) -> bool {
        let is_shown = self.host.map(|HostRule { host, policy }| {
            policy.replaced == Replaced::Cut
                && policy.shown_of_command(host, exit_code).holds(length)
        });
        (self.discards_short || is_shown.is_some())
            && (self.limits.are_kept_by(length.bytes, length.chars) || is_shown == Some(true))
    }

    // Returns true if an output that is printed unchanged is stored all the same.
    fn is_stored(&self, length: OutputLength, exit_code: Option<i32>) -> bool {
        let is_kept = |host: HostRule| {
            let has_failed = exit_code.is_some_and(|code| code != 0);
            host.policy.stores_shown(&self.limits, length, has_failed)
        };
        self.limits.mirror || self.host.is_some_and(is_kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: usize = HEAD + 256 * 1024;

    fn held(bytes: &[u8], step: usize) -> HeldOutput {
        let mut held = HeldOutput::default();
        bytes.chunks(step).for_each(|piece| held.add(OutputStream::Stdout, piece));
        held
    }

    #[test]
    fn what_fits_is_whole() {
        for length in [0, 1, HEAD - 1, HEAD, HEAD + 1, MOST - 1, MOST] {
            let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            for step in [999, 65_536, MOST] {
                let mut held = held(&bytes, step);
                assert!(held.is_whole(), "{length}");
                assert_eq!(held.text("why"), bytes);
            }
        }
    }

    #[test]
    fn a_line_stands_for_the_middle_and_the_rest_is_there() {
        let lines = "a line of an output\n".repeat(50_000);
        let long = "x".repeat(MOST + 1);
        for text in [lines, long] {
            let mut held = held(text.as_bytes(), 65_536);
            assert!(!held.is_whole());
            let shown = String::from_utf8(held.text("no room")).unwrap();
            let (head, rest) = shown.split_once("[ctxfs] ").unwrap();
            let (mark, tail) = rest.split_once('\n').unwrap();
            let count = mark.strip_suffix(" bytes left out here: no room").unwrap();
            let head = head.strip_suffix('\n').unwrap();
            assert!(text.starts_with(head) && text.ends_with(tail) && shown.len() < MOST + 100);
            let newline = usize::from(text.contains('\n'));
            let missing = text.len() - head.len() - newline - tail.len();
            assert_eq!(count.parse::<usize>().unwrap(), missing);
        }
    }
}
