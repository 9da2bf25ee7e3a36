//! The signals that ask a gateway to stop.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

pub(super) struct Signals([Signal; 3]);

impl Signals {
    pub(super) fn listen() -> io::Result<Self> {
        let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
        let [terminate, interrupt, hang_up] = kinds.map(signal);
        Ok(Self([terminate?, interrupt?, hang_up?]))
    }

    /// Waits for any of them.
    pub(super) async fn any(&mut self) {
        let [terminate, interrupt, hang_up] = &mut self.0;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hang_up.recv() => {}
        }
    }
}
