//! Logs what servers write to standard error, one line at a time, under the name of the server.
//!
//! A thread writes the log, so a log that is not read slows only the servers that fill it.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use tokio::io::{AsyncRead, AsyncReadExt as _};

const LONGEST: usize = 2048;
const WAITING: usize = 256;

#[derive(Clone)]
pub(crate) struct ServerLog(SyncSender<String>);

impl ServerLog {
    pub(crate) fn start() -> std::io::Result<Self> {
        let (lines, waiting) = sync_channel::<String>(WAITING);
        thread::Builder::new().name("ctxfs-mcp-log".to_owned()).spawn(move || {
            for line in waiting {
                tracing::info!("{line}");
            }
        })?;
        Ok(Self(lines))
    }

    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn unread() -> Self {
        Self(sync_channel(0).0)
    }

    pub(crate) fn say(&self, name: &str, text: &str) {
        drop(self.0.try_send(format!("{name}: {text}")));
    }

    pub(crate) async fn copy(self, name: String, mut input: impl AsyncRead + Unpin) {
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
