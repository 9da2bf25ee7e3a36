//! How a server is asked to stop: by a signal to it, by a signal to its watchdog.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::thread;

use signal_hook::consts::SIGHUP;
use signal_hook::consts::SIGINT;
use signal_hook::consts::SIGTERM;
use signal_hook::iterator::Signals;

/// The signals that ask a server to stop.
pub(super) const SIGNALS: [i32; 3] = [SIGTERM, SIGINT, SIGHUP];

/// What a server waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServerEvent {
    /// It was asked to stop.
    Stop,
    /// The kernel has ended the connection: the mount is gone.
    Ended,
}

/// Counts the requests: the first is passed on, and unmounts cleanly; the second ends the process.
#[derive(Debug, Clone)]
pub(super) struct Stop {
    asked: Arc<AtomicBool>,
    events: Sender<ServerEvent>,
}

impl Stop {
    /// Requests go to `events`.
    pub(super) fn new(events: Sender<ServerEvent>) -> Self {
        Self { asked: Arc::default(), events }
    }

    /// Asks once more. `signal` is what the process dies of if it had been asked before: its mount
    /// is then left to the watchdog.
    pub(super) fn ask(&self, signal: i32) {
        if self.asked.swap(true, Ordering::Relaxed) {
            tracing::warn!("asked to stop again: ending at once");
            drop(signal_hook::low_level::emulate_default_handler(signal));
        }
        // Nobody receives it only where the server is ending already.
        let _ = self.events.send(ServerEvent::Stop);
    }

    /// Catches signals from now on: they wait until somebody listens.
    pub(super) fn signals() -> std::io::Result<Signals> {
        Signals::new(SIGNALS)
    }

    /// Listens for signals, on a thread of its own.
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
