//! Filters in processes of their own.

use std::ffi::OsString;
use std::io;
use std::io::BufWriter;
use std::io::Read as _;
use std::io::Write as _;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Child;
use std::process::Command;
use std::process::ExitStatus;
use std::process::Stdio;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use rustix::event::PollFd;
use rustix::event::PollFlags;
use rustix::event::Timespec;
use rustix::event::poll;

use crate::model::Feed;
use crate::model::FilterOutcome;
use crate::model::Filters;

/// Bytes of answers read at once.
const BLOCK: usize = 64 << 10;
/// How often a process that answers nothing is asked whether its time is up.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes of what a process says of its end that are read.
const LAST_WORDS: u64 = 16 << 10;

/// Starts a process for each filter.
#[derive(Debug)]
pub(crate) struct FilterProcesses {
    command: Option<Vec<OsString>>,
}

impl FilterProcesses {
    /// `command` reads a filter and its input, and limits itself before it does; see
    /// `view::run_filter`.
    pub(crate) fn new(command: Option<Vec<OsString>>) -> Self {
        Self { command }
    }

    /// Nothing of this process's environment is its business.
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
        let mut running = Running(child);
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let input = running.0.stdin.take();
            let feeding = scope.spawn(|| {
                let Some(input) = input else { return Ok(()) };
                let mut input = BufWriter::with_capacity(BLOCK, input);
                feed(&mut input, &|| stop.load(Relaxed))?;
                input.flush()
            });
            let answered = running.answers(expired, take);
            let ended = running.end(answered.as_ref().is_ok_and(Option::is_none));
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

/// A process that ends with this.
struct Running(Child);

impl Running {
    /// Reads until the process has no more to say, or need not say more; then returns why.
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

    /// Waits for it, and says how it ended; `by_itself`, or else it is ended now.
    fn end(&mut self, by_itself: bool) -> io::Result<FilterOutcome> {
        if !by_itself {
            self.0.kill()?;
        }
        let mut words = Vec::new();
        if let Some(errors) = &mut self.0.stderr {
            errors.take(LAST_WORDS).read_to_end(&mut words)?;
        }
        Ok(told(self.0.wait()?, &String::from_utf8_lossy(&words)))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended already, but where an error or a panic came between.
        if matches!(self.0.try_wait(), Ok(None)) && self.0.kill().is_ok() {
            drop(self.0.wait());
        }
    }
}

/// Waits a moment for something to read, or for the end.
fn is_ready(output: &impl AsFd) -> io::Result<bool> {
    let mut waited = [PollFd::new(output, PollFlags::IN)];
    let moment = Timespec { tv_sec: 0, tv_nsec: LOOK.subsec_nanos().into() };
    match poll(&mut waited, Some(&moment)) {
        Ok(count) => Ok(count > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// What the end of a process means. Where the stack or the memory ends, Rust's runtime aborts, and
/// says which it was.
fn told(status: ExitStatus, words: &str) -> FilterOutcome {
    if status.success() {
        return FilterOutcome::Done;
    }
    match status.signal() {
        Some(libc::SIGSEGV) => FilterOutcome::TooDeep,
        Some(libc::SIGABRT) if words.contains("overflowed its stack") => FilterOutcome::TooDeep,
        Some(libc::SIGABRT) if words.contains("memory allocation of") => FilterOutcome::OutOfMemory,
        // By the system, where all memory is used up.
        Some(libc::SIGKILL) => FilterOutcome::OutOfMemory,
        _ => {
            let line = words.lines().find(|line| !line.trim().is_empty());
            FilterOutcome::Failed(line.map_or_else(|| status.to_string(), str::to_owned))
        }
    }
}
