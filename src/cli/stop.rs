//! Requests to stop a server, which come as signals to it or to a watchdog.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// The signals that ask a server to stop.
pub(super) const SIGNALS: [i32; 3] = [SIGTERM, SIGINT, SIGHUP];

/// An event that a server waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServerEvent {
    /// A request to stop.
    Stop,
    /// The end of the connection to the kernel: the mount is gone.
    Left,
    /// The end of all work: what was written last is sealed.
    Ended,
}

/// The requests to stop. The first one unmounts cleanly; the second one ends the process.
#[derive(Debug, Clone)]
pub(super) struct Stop {
    asked: Arc<AtomicBool>,
    events: Sender<ServerEvent>,
}

impl Stop {
    /// Sends the first request to `events`.
    pub(super) fn new(events: Sender<ServerEvent>) -> Self {
        Self { asked: Arc::default(), events }
    }

    /// Requests a stop. If this is the second request, ends the process by `signal`, and leaves its
    /// mount to the watchdog.
    pub(super) fn ask(&self, signal: i32) {
        if self.asked.swap(true, Ordering::Relaxed) {
            tracing::warn!("asked to stop again: ending at once");
            drop(signal_hook::low_level::emulate_default_handler(signal));
        }
        // Fails only if the server is ending already.
        let _ = self.events.send(ServerEvent::Stop);
    }

    /// Catches signals from now on. They wait until [`Stop::listen`].
    pub(super) fn signals() -> std::io::Result<Signals> {
        Signals::new(SIGNALS)
    }

    /// Starts a thread that handles signals.
    pub(super) fn listen(&self, mut signals: Signals) -> std::io::Result<()> {
        let stop = self.clone();
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for signal in &mut signals {
                stop.ask(signal);
            }
        })?;
        Ok(())
    }
}
