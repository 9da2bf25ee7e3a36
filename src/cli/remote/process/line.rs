//! The way to the process, and when it is started again.

use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, thread};

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::passing;
use crate::remote::process::Starter;
use ctxfs_sync::remote::Line;

/// The pause after the process has ended, and the longest one: each is twice the one before, unless
/// the process lived as long as the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// The time in which a process that lives has answered something: one that has not, and lets a
/// request pass its deadline, counts as lost.
const SILENT: Duration = Duration::from_secs(10);
/// The byte that comes with the socket of a request.
const REQUEST: &[u8] = b"q";

/// The way to a process that is started when it is needed.
pub(crate) struct ProcessLine(Arc<Supervised>);

struct Supervised {
    starter: Starter,
    state: Mutex<State>,
}

/// The state of the process.
struct State {
    name: &'static str,
    /// The socket to it. It may have ended.
    control: Option<Arc<UnixStream>>,
    started: Instant,
    /// How often it ended.
    ended: u64,
    /// Why it ended the last time.
    why: String,
    /// The pause after it ended the last time, and the end of that.
    pause: Duration,
    until: Instant,
    /// When it answered last, or was started.
    heard: Instant,
    /// Since when it has answered nothing of what was asked, as far as a deadline tells.
    silent_since: Option<Instant>,
}

impl ProcessLine {
    /// Returns the way to the process `name`, as its warnings call it.
    pub(crate) fn new(name: &'static str, starter: Starter) -> Self {
        let now = Instant::now();
        let state = State {
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
        Self(Arc::new(Supervised { starter, state: Mutex::new(state) }))
    }

    fn name(&self) -> &'static str {
        self.0.state.lock().name
    }

    /// Returns the socket to the process. Starts it if there is none and the pause has passed.
    fn control(&self) -> Result<Arc<UnixStream>, String> {
        let mut state = self.0.state.lock();
        match &state.control {
            Some(control) if !has_ended(control) => return Ok(Arc::clone(control)),
            Some(_) => state.lose("it ended"),
            None => {}
        }
        if Instant::now() < state.until {
            return Err(state.told());
        }
        let control = self.start().map_err(|error| {
            state.lose(&format!("it cannot be started: {error}"));
            state.told()
        })?;
        state.begin(&control);
        Ok(control)
    }

    /// Has the process started. Nobody waits for that: what is sent meanwhile is read later.
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

impl Line for ProcessLine {
    fn connect(&self) -> Result<UnixStream, String> {
        let control = self.control()?;
        let (ours, theirs) = UnixStream::pair().map_err(|error| error.to_string())?;
        match passing::send(&control, REQUEST, Some(theirs.as_fd())) {
            Ok(()) => Ok(ours),
            Err(error) if is_end(&error) => {
                self.0.lose(&control, "it ended");
                Err(self.0.state.lock().told())
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
            // Another process was asked.
            return;
        }
        let since = since.max(state.heard);
        let since = state.silent_since.map_or(since, |earlier| earlier.min(since));
        state.silent_since = Some(since);
        if since.elapsed() >= SILENT && state.control.is_some() {
            state.lose("it did not answer, and is killed if it still lives");
        }
    }

    fn trouble(&self) -> Option<String> {
        let mut state = self.0.state.lock();
        if state.control.as_ref().is_some_and(has_ended) {
            state.lose("it ended");
        }
        (state.control.is_none() && state.ended > 0).then(|| state.told())
    }
}

impl Supervised {
    /// Takes the process at the end of `control` for lost, unless it is another one by now.
    fn lose(&self, control: &Arc<UnixStream>, why: &str) {
        let mut state = self.state.lock();
        if state.control.as_ref().is_some_and(|now| Arc::ptr_eq(now, control)) {
            state.lose(why);
        }
    }

    /// Says why the process at the end of `control` was not started, also if that end was seen
    /// before.
    fn fail(&self, control: &Arc<UnixStream>, why: String) {
        self.lose(control, &why);
        let mut state = self.state.lock();
        if state.control.is_none() {
            state.why = why;
        }
    }
}

impl State {
    fn begin(&mut self, control: &Arc<UnixStream>) {
        let now = Instant::now();
        self.control = Some(Arc::clone(control));
        (self.started, self.heard, self.silent_since) = (now, now, None);
    }

    /// Closes the socket, at whose end the process ends or is killed, and begins the pause.
    fn lose(&mut self, why: &str) {
        let now = Instant::now();
        let lived = self.control.take().map_or(Duration::ZERO, |_| now - self.started);
        let is_first = self.ended == 0 || lived >= LONGEST_PAUSE;
        self.pause = if is_first { FIRST_PAUSE } else { LONGEST_PAUSE.min(self.pause * 2) };
        let is_known = !is_first && self.why == why;
        (self.ended, self.until, self.why) = (self.ended + 1, now + self.pause, why.to_owned());
        self.silent_since = None;
        // Of those with one reason that follow one another only the first is told.
        if !is_known {
            tracing::warn!("{}", self.told());
        }
    }

    /// Returns what became of the process, for people.
    fn told(&self) -> String {
        let Self { name, why, ended, .. } = self;
        let times = if *ended == 1 { "once".to_owned() } else { format!("{ended} times") };
        let next = self.until.saturating_duration_since(Instant::now()).as_secs() + 1;
        format!(
            "the process `{name}` is away: {why} ({times} so far); the first request after {next} s \
             tries again"
        )
    }
}

/// Returns true if the other end is closed. The process sends nothing over this socket.
fn has_ended(control: &Arc<UnixStream>) -> bool {
    let mut waited = [PollFd::new(&**control, PollFlags::IN)];
    poll(&mut waited, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|count| count > 0)
}

/// Returns true if an error of a socket means that nobody has the other end.
pub(crate) fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, NotConnected};
    matches!(error.kind(), BrokenPipe | ConnectionReset | NotConnected)
}

#[cfg(test)]
mod tests;
