//! Running jq filters. Each filter runs in its own process.

use std::ffi::OsString;
use std::io::{BufWriter, Read as _, Write as _};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use std::{io, thread};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use ctxfs_core::model::{Feed, FilterOutcome, Filters};

const BLOCK: usize = 64 << 10;
/// The interval at which the deadline is checked while a process writes no output.
const LOOK: Duration = Duration::from_millis(20);
/// Maximum number of bytes of error messages that are read when a process ends.
const MOST_ERRORS: u64 = 16 << 10;

/// Starts filter processes. The command confines itself, then reads a filter and its input; see
/// `view::run_filter`. If there is no command, no filter runs.
#[derive(Debug)]
pub(crate) struct FilterProcesses {
    command: Option<Vec<OsString>>,
}

impl FilterProcesses {
    pub(crate) fn new(command: Option<Vec<OsString>>) -> Self {
        Self { command }
    }

    /// Starts a process with an empty environment, except for `TZ`. Returns `None` if there is no
    /// command.
    fn start(&self) -> io::Result<Option<Child>> {
        let Some((program, arguments)) = self.command.as_deref().and_then(<[_]>::split_first)
        else {
            return Ok(None);
        };
        Command::new(program)
            .arg0("ctxfs")
            .args(arguments)
            .env_clear()
            .env("TZ", "UTC")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map(Some)
    }
}

impl Filters for FilterProcesses {
    fn run(
        &self,
        feed: &Feed<'_>,
        expired: &dyn Fn() -> bool,
        take: &mut dyn FnMut(&[u8]) -> io::Result<bool>,
    ) -> io::Result<FilterOutcome> {
        let Some(child) = self.start()? else { return Ok(FilterOutcome::Unavailable) };
        let mut process = FilterProcess(child);
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let input = process.0.stdin.take();
            let feeding = scope.spawn(|| {
                let Some(input) = input else { return Ok(()) };
                let mut input = BufWriter::with_capacity(BLOCK, input);
                feed(&mut input, &|| stop.load(Relaxed))?;
                input.flush()
            });
            let answered = process.answers(expired, take);
            let ended = process.end(answered.as_ref().is_ok_and(Option::is_none));
            stop.store(true, Relaxed);
            match feeding.join() {
                Ok(Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error),
                Ok(_) => {}
                Err(_) => return Err(io::Error::other("feeding a filter panicked")),
            }
            let ended = ended?;
            Ok(answered?.unwrap_or(ended))
        })
    }
}

struct FilterProcess(Child);

impl FilterProcess {
    /// Passes the output of the process to `take`. Returns `None` once the process has closed its
    /// output. Returns an outcome if time runs out or if `take` needs no more output.
    fn answers(
        &mut self,
        expired: &dyn Fn() -> bool,
        take: &mut dyn FnMut(&[u8]) -> io::Result<bool>,
    ) -> io::Result<Option<FilterOutcome>> {
        let Some(mut output) = self.0.stdout.take() else { return Ok(None) };
        let mut block = vec![0; BLOCK];
        loop {
            if expired() {
                return Ok(Some(FilterOutcome::OutOfTime));
            }
            if !is_ready(&output)? {
                continue;
            }
            match output.read(&mut block)? {
                0 => return Ok(None),
                count if !take(&block[..count])? => return Ok(Some(FilterOutcome::Enough)),
                _ => {}
            }
        }
    }

    /// Waits for the process and returns its outcome. Kills the process first unless it ends
    /// `by_itself`.
    fn end(&mut self, by_itself: bool) -> io::Result<FilterOutcome> {
        if !by_itself {
            self.0.kill()?;
        }
        let mut words = Vec::new();
        if let Some(errors) = &mut self.0.stderr {
            errors.take(MOST_ERRORS).read_to_end(&mut words)?;
        }
        Ok(outcome(self.0.wait()?, &String::from_utf8_lossy(&words)))
    }
}

impl Drop for FilterProcess {
    fn drop(&mut self) {
        // The process is still running only after an error or a panic.
        if matches!(self.0.try_wait(), Ok(None)) && self.0.kill().is_ok() {
            drop(self.0.wait());
        }
    }
}

/// Waits up to `LOOK` for output. Returns true if there is output to read or the output has ended.
fn is_ready(output: &impl AsFd) -> io::Result<bool> {
    let mut waited = [PollFd::new(output, PollFlags::IN)];
    let moment = Timespec { tv_sec: 0, tv_nsec: LOOK.subsec_nanos().into() };
    match poll(&mut waited, Some(&moment)) {
        Ok(count) => Ok(count > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Returns the outcome that the exit status and the error messages `words` stand for. When the
/// stack or the memory runs out, Rust's runtime aborts with a message that names the cause.
fn outcome(status: ExitStatus, words: &str) -> FilterOutcome {
    if status.success() {
        return FilterOutcome::Done;
    }
    match status.signal() {
        Some(libc::SIGSEGV) => FilterOutcome::TooDeep,
        Some(libc::SIGABRT) if words.contains("overflowed its stack") => FilterOutcome::TooDeep,
        Some(libc::SIGABRT) if words.contains("memory allocation of") => FilterOutcome::OutOfMemory,
        // The kernel kills a process with SIGKILL when the system has no memory left.
        Some(libc::SIGKILL) => FilterOutcome::OutOfMemory,
        _ => {
            let line = words.lines().find(|line| !line.trim().is_empty());
            FilterOutcome::Failed(line.map_or_else(|| status.to_string(), str::to_owned))
        }
    }
}
