//! The connection to a helper process that is started by the first request, and again after it has
//! ended.
//!
//! ```text
//! server or page (confined)       its starter                 the process
//!   the first request
//!     the end of a socket   ->     starts it with the socket -> confines itself
//!     a socket for a request  ------------------------------>   a thread for it
//!     the request (`remote::ProcessObjects`)  ------------->    answers it
//! ```

use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};
use std::{io, os::unix::net::UnixStream, sync::Arc, thread};

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use ctxfs_sync::{channel, remote::Line};

// The pause doubles from the first to the longest value. It is reset after a process that ran for
// at least the longest pause.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
// If requests pass their deadlines and the process answers nothing for this long, it is considered
// lost.
const SILENT: Duration = Duration::from_secs(10);

/// Starts the process with a socket as its standard input (see `spawn`). Called on a separate
/// thread.
pub(crate) type Starter = Box<dyn Fn(OwnedFd) -> io::Result<()> + Send + Sync>;

/// The connection to a process that is started by the first request. If the process ends or hangs,
/// the next request after a pause starts it again. Requests during the pause fail immediately.
pub(crate) struct SupervisedProcess(Arc<Supervisor>);

struct Supervisor {
    starter: Starter,
    state: Mutex<ProcessState>,
}

struct ProcessState {
    name: &'static str,
    control: Option<Arc<UnixStream>>,
    started: Instant,
    ended: u64,
    why: String,
    pause: Duration,
    until: Instant,
    heard: Instant,
    // The time since which requests have passed their deadlines without any answer.
    silent_since: Option<Instant>,
}

impl SupervisedProcess {
    pub(crate) fn new(name: &'static str, starter: Starter) -> Self {
        let now = Instant::now();
        let state = ProcessState {
            name,
            control: None,
            started: now,
            ended: 0,
            why: String::new(),
            pause: Duration::ZERO,
            until: now,
            heard: now,
            silent_since: None,
        };
        Self(Arc::new(Supervisor { starter, state: Mutex::new(state) }))
    }

    fn name(&self) -> &'static str {
        self.0.state.lock().name
    }

    fn control(&self) -> Result<Arc<UnixStream>, String> {
        let mut state = self.0.state.lock();
        match &state.control {
            Some(control) if !has_ended(control) => return Ok(Arc::clone(control)),
            Some(_) => state.disconnect("it ended"),
            None => {}
        }
        if Instant::now() < state.until {
            return Err(state.description());
        }
        let control = self.start().map_err(|error| {
            state.disconnect(&format!("it cannot be started: {error}"));
            state.description()
        })?;
        state.begin(&control);
        Ok(control)
    }

    // Does not wait until the process runs, because requests wait in the socket.
    fn start(&self) -> io::Result<Arc<UnixStream>> {
        let (control, theirs) = UnixStream::pair()?;
        control.set_nonblocking(true)?;
        let (control, supervised) = (Arc::new(control), Arc::clone(&self.0));
        let started = Arc::clone(&control);
        let start = move || {
            if let Err(error) = (supervised.starter)(theirs.into()) {
                supervised.fail(&started, format!("it cannot be started: {error}"));
            }
        };
        thread::Builder::new().name("start-remote".to_owned()).spawn(start)?;
        Ok(control)
    }
}

impl Line for SupervisedProcess {
    fn connect(&self) -> Result<UnixStream, String> {
        let control = self.control()?;
        let (ours, theirs) = UnixStream::pair().map_err(|error| error.to_string())?;
        match channel::send(&control, &(), Some(theirs.as_fd())) {
            Ok(()) => Ok(ours),
            Err(error) if is_end(&error) => {
                self.0.disconnect(&control, "it ended");
                Err(self.0.state.lock().description())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Err(format!("the process `{}` has too many requests", self.name()))
            }
            Err(error) => Err(format!("the process `{}` is out of reach: {error}", self.name())),
        }
    }

    fn heard(&self) {
        let mut state = self.0.state.lock();
        (state.heard, state.silent_since) = (Instant::now(), None);
    }

    fn missed(&self, since: Instant) {
        let mut state = self.0.state.lock();
        if since < state.started {
            // The failed request was sent to an earlier process.
            return;
        }
        let since = since.max(state.heard);
        let since = state.silent_since.map_or(since, |earlier| earlier.min(since));
        state.silent_since = Some(since);
        if since.elapsed() >= SILENT && state.control.is_some() {
            state.disconnect("it did not answer, and is killed if it still lives");
        }
    }

    fn trouble(&self) -> Option<String> {
        let mut state = self.0.state.lock();
        if state.control.as_ref().is_some_and(has_ended) {
            state.disconnect("it ended");
        }
        (state.control.is_none() && state.ended > 0).then(|| state.description())
    }
}

impl Supervisor {
    fn disconnect(&self, control: &Arc<UnixStream>, why: &str) {
        let mut state = self.state.lock();
        if state.control.as_ref().is_some_and(|now| Arc::ptr_eq(now, control)) {
            state.disconnect(why);
        }
    }

    fn fail(&self, control: &Arc<UnixStream>, why: String) {
        self.disconnect(control, &why);
        let mut state = self.state.lock();
        if state.control.is_none() {
            state.why = why;
        }
    }
}

impl ProcessState {
    fn begin(&mut self, control: &Arc<UnixStream>) {
        let now = Instant::now();
        self.control = Some(Arc::clone(control));
        (self.started, self.heard, self.silent_since) = (now, now, None);
    }

    fn disconnect(&mut self, why: &str) {
        let now = Instant::now();
        let lived = self.control.take().map_or(Duration::ZERO, |_| now - self.started);
        let is_first = self.ended == 0 || lived >= LONGEST_PAUSE;
        self.pause = if is_first { FIRST_PAUSE } else { LONGEST_PAUSE.min(self.pause * 2) };
        let is_known = !is_first && self.why == why;
        (self.ended, self.until, self.why) = (self.ended + 1, now + self.pause, why.to_owned());
        self.silent_since = None;
        // Repeated failures for the same reason are logged only once.
        if !is_known {
            tracing::warn!("{}", self.description());
        }
    }

    fn description(&self) -> String {
        let Self { name, why, ended, .. } = self;
        let times = if *ended == 1 { "once".to_owned() } else { format!("{ended} times") };
        let next = self.until.saturating_duration_since(Instant::now()).as_secs() + 1;
        format!(
            "the process `{name}` is away: {why} ({times} so far); the first request after {next} s \
             tries again"
        )
    }
}

// The process sends nothing over this socket, so the socket becomes readable only when it ends.
fn has_ended(control: &Arc<UnixStream>) -> bool {
    let mut waited = [PollFd::new(&**control, PollFlags::IN)];
    poll(&mut waited, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|count| count > 0)
}

pub(crate) fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, NotConnected};
    matches!(error.kind(), BrokenPipe | ConnectionReset | NotConnected)
}

#[cfg(test)]
mod tests;
