//! What servers write to standard error, in the log, a line each with the server's name.
//!
//! A thread of its own writes, so that a log that nobody reads slows only those that fill it.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The longest part of a line that is logged at once.
const LONGEST: usize = 2048;
/// Lines that wait for the thread.
const WAITING: usize = 256;

/// The log of all servers.
#[derive(Clone)]
pub(super) struct ServerLog(SyncSender<String>);

impl ServerLog {
    pub(super) fn start() -> std::io::Result<Self> {
        let (lines, waiting) = sync_channel::<String>(WAITING);
        thread::Builder::new().name("ctxfs-mcp-log".to_owned()).spawn(move || {
            for line in waiting {
                tracing::info!("{line}");
            }
        })?;
        Ok(Self(lines))
    }

    /// Returns a log that drops all lines.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn unread() -> Self {
        Self(sync_channel(0).0)
    }

    /// Logs a line, or drops it if too many are waiting.
    pub(super) fn say(&self, name: &str, text: &str) {
        drop(self.0.try_send(format!("{name}: {text}")));
    }

    /// Logs the lines of `input` to its end. What comes faster than it is logged waits in the pipe.
    pub(super) async fn copy(self, name: String, mut input: impl AsyncRead + Unpin) {
        let (mut block, mut line) = (vec![0; LONGEST], Vec::new());
        while let Ok(count @ 1..) = input.read(&mut block).await {
            for byte in &block[..count] {
                if *byte != b'\n' {
                    line.push(*byte);
                }
                if (*byte == b'\n' && !line.is_empty()) || line.len() >= LONGEST {
                    self.wait(&name, &std::mem::take(&mut line)).await;
                }
            }
        }
        if !line.is_empty() {
            self.wait(&name, &line).await;
        }
    }

    async fn wait(&self, name: &str, line: &[u8]) {
        let text = String::from_utf8_lossy(line);
        let text = format!("{name}: {}", text.trim_end().replace(char::is_control, " "));
        let mut waiting = Some(text);
        while let Some(text) = waiting.take() {
            if let Err(std::sync::mpsc::TrySendError::Full(text)) = self.0.try_send(text) {
                waiting = Some(text);
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        }
    }
}
