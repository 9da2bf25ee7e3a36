//! The protocol between server and watchdog. Requests are messages, replies are lines.
//!
//! ```text
//! server     unmount                 watchdog   +            done
//!            stat <pid>                         +<text>      the content of /proc/<pid>/stat
//!            another, a descriptor              -<why>       failed
//!            remote, a descriptor
//!                                               X            a signal came; only between lines
//! ```

use std::io;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use crate::passing;

/// The byte that `signal_hook` writes for a signal.
const SIGNAL: u8 = b'X';
/// The longest reply in bytes. A `stat` file of /proc is shorter.
const LONGEST: u64 = 4096;

/// A request of the server.
#[derive(Debug)]
pub(super) enum WatchdogRequest<'a> {
    /// Unmounts.
    Unmount,
    /// Reads `/proc/<pid>/stat`.
    Stat(u32),
    /// Starts another watchdog with this socket.
    Another(BorrowedFd<'a>),
    /// Starts the process that asks the bucket, with this socket.
    Remote(BorrowedFd<'a>),
}

/// A request as the watchdog receives it.
#[derive(Debug)]
pub(super) enum ReceivedRequest {
    Unmount,
    Stat(u32),
    Another(OwnedFd),
    Remote(OwnedFd),
}

/// The reply to a request: a text, or the reason of failure.
pub(super) type WatchdogReply = Result<String, String>;

/// A message of a watchdog.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WatchdogMessage {
    Signal,
    Reply(WatchdogReply),
}

impl WatchdogRequest<'_> {
    pub(super) fn send(&self, to: &UnixStream) -> io::Result<()> {
        let (text, passed) = match self {
            Self::Unmount => ("unmount".to_owned(), None),
            Self::Stat(pid) => (format!("stat {pid}"), None),
            Self::Another(socket) => ("another".to_owned(), Some(*socket)),
            Self::Remote(socket) => ("remote".to_owned(), Some(*socket)),
        };
        passing::send(to, text.as_bytes(), passed)
    }
}

impl ReceivedRequest {
    /// Waits for the next request; returns `None` at the end of the stream. The server sends one
    /// request at a time, so one receive holds exactly one, and a short one.
    pub(super) fn receive(from: &UnixStream) -> io::Result<Option<Self>> {
        let mut text = [0; 64];
        let (length, passed) = passing::receive(from, &mut text)?;
        match (&text[..length], passed) {
            (b"", _) => Ok(None),
            (b"unmount", _) => Ok(Some(Self::Unmount)),
            (b"another", Some(socket)) => Ok(Some(Self::Another(socket))),
            (b"remote", Some(socket)) => Ok(Some(Self::Remote(socket))),
            (text, _) => number(text).map(|pid| Some(Self::Stat(pid))),
        }
    }
}

fn number(text: &[u8]) -> io::Result<u32> {
    let pid = text.strip_prefix(b"stat ").and_then(|pid| std::str::from_utf8(pid).ok());
    pid.and_then(|pid| pid.parse().ok()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Formats a reply as a line. A signal may be written before and after it, never within.
pub(super) fn line(reply: &WatchdogReply) -> String {
    let (mark, text) = match reply {
        Ok(text) => ('+', text),
        Err(text) => ('-', text),
    };
    format!("{mark}{}\n", text.trim_end().replace('\n', " "))
}

/// Reads the messages of a watchdog until the stream ends.
pub(super) fn messages(stream: &UnixStream) -> impl Iterator<Item = WatchdogMessage> {
    let mut stream = BufReader::new(stream);
    std::iter::from_fn(move || next(&mut stream))
}

/// Waits for the next message; returns `None` at the end of the stream.
fn next(stream: &mut BufReader<&UnixStream>) -> Option<WatchdogMessage> {
    if *stream.fill_buf().ok()?.first()? == SIGNAL {
        stream.consume(1);
        return Some(WatchdogMessage::Signal);
    }
    let mut line = String::new();
    stream.take(LONGEST).read_line(&mut line).ok()?;
    let line = line.strip_suffix('\n')?;
    let failed = || line.strip_prefix('-').map(|why| Err(why.to_owned()));
    let done = line.strip_prefix('+').map(|text| Ok(text.to_owned()));
    done.or_else(failed).map(WatchdogMessage::Reply)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write as _;
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn requests_arrive() {
        let (server, watchdog) = UnixStream::pair().unwrap();
        let file = File::open("/dev/null").unwrap();
        WatchdogRequest::Stat(17).send(&server).unwrap();
        assert!(matches!(
            ReceivedRequest::receive(&watchdog).unwrap(),
            Some(ReceivedRequest::Stat(17))
        ));
        WatchdogRequest::Another(file.as_fd()).send(&server).unwrap();
        assert!(matches!(
            ReceivedRequest::receive(&watchdog).unwrap(),
            Some(ReceivedRequest::Another(_))
        ));
        WatchdogRequest::Remote(file.as_fd()).send(&server).unwrap();
        assert!(matches!(
            ReceivedRequest::receive(&watchdog).unwrap(),
            Some(ReceivedRequest::Remote(_))
        ));
        WatchdogRequest::Unmount.send(&server).unwrap();
        assert!(matches!(
            ReceivedRequest::receive(&watchdog).unwrap(),
            Some(ReceivedRequest::Unmount)
        ));
        (&server).write_all(b"stat x").unwrap();
        assert!(ReceivedRequest::receive(&watchdog).is_err());
        drop(server);
        assert!(ReceivedRequest::receive(&watchdog).unwrap().is_none());
    }

    #[test]
    fn signals_come_between_replies() {
        let (server, watchdog) = UnixStream::pair().unwrap();
        let replies = [Ok("1 (X) S".to_owned()), Err("no\nway".to_owned())];
        for reply in &replies {
            (&watchdog).write_all(b"XX").unwrap();
            (&watchdog).write_all(line(reply).as_bytes()).unwrap();
        }
        drop(watchdog);
        let said: Vec<WatchdogMessage> = messages(&server).collect();
        let replies =
            [Ok("1 (X) S".to_owned()), Err("no way".to_owned())].map(WatchdogMessage::Reply);
        assert_eq!(said.iter().filter(|said| **said == WatchdogMessage::Signal).count(), 4);
        assert!(replies.iter().all(|reply| said.contains(reply)));
    }
}
