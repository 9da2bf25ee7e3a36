//! What server and watchdog say to each other, in lines.
//!
//! ```text
//! server     unmount                 watchdog   +            it is done
//!            stat <pid>                         +<text>      what /proc/<pid>/stat holds
//!            another, a descriptor              -<why>       it failed
//!                                               X            a signal came: between two lines
//! ```

use std::io;
use std::io::BufRead as _;
use std::io::BufReader;
use std::io::IoSlice;
use std::io::IoSliceMut;
use std::io::Read as _;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use rustix::net::RecvAncillaryBuffer;
use rustix::net::RecvAncillaryMessage;
use rustix::net::RecvFlags;
use rustix::net::SendAncillaryBuffer;
use rustix::net::SendAncillaryMessage;
use rustix::net::SendFlags;

/// What `signal_hook` writes for a signal.
const SIGNAL: u8 = b'X';
/// Longest answer: an entry of /proc is shorter.
const LONGEST: u64 = 4096;

/// What the server asks for.
#[derive(Debug)]
pub(super) enum Ask<'a> {
    /// Unmount.
    Unmount,
    /// What is known of a process.
    Stat(u32),
    /// Start another watchdog, with this as its socket.
    Another(BorrowedFd<'a>),
}

/// The same, as it comes in.
#[derive(Debug)]
pub(super) enum Asked {
    Unmount,
    Stat(u32),
    Another(OwnedFd),
}

/// What a watchdog answers: what was asked for, or why there is none.
pub(super) type Answer = Result<String, String>;

/// What comes from a watchdog.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    Signal,
    Answer(Answer),
}

impl Ask<'_> {
    pub(super) fn send(&self, to: &UnixStream) -> io::Result<()> {
        let (text, passed) = match self {
            Self::Unmount => ("unmount".to_owned(), None),
            Self::Stat(pid) => (format!("stat {pid}"), None),
            Self::Another(socket) => ("another".to_owned(), Some([*socket])),
        };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if let Some(passed) = &passed {
            control.push(SendAncillaryMessage::ScmRights(passed));
        }
        let text = [IoSlice::new(text.as_bytes())];
        rustix::net::sendmsg(to, &text, &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }
}

impl Asked {
    /// Waits for the next; none, at the end. The server asks one thing at a time, so what comes is
    /// one question, and a short one.
    pub(super) fn receive(from: &UnixStream) -> io::Result<Option<Self>> {
        let mut text = [0; 64];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut buffers = [IoSliceMut::new(&mut text)];
        let length = rustix::io::retry_on_intr(|| {
            rustix::net::recvmsg(from, &mut buffers, &mut control, RecvFlags::CMSG_CLOEXEC)
        })?
        .bytes;
        let passed = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        match (&text[..length], passed) {
            (b"", _) => Ok(None),
            (b"unmount", _) => Ok(Some(Self::Unmount)),
            (b"another", Some(socket)) => Ok(Some(Self::Another(socket))),
            (text, _) => number(text).map(|pid| Some(Self::Stat(pid))),
        }
    }
}

fn number(text: &[u8]) -> io::Result<u32> {
    let pid = text.strip_prefix(b"stat ").and_then(|pid| std::str::from_utf8(pid).ok());
    pid.and_then(|pid| pid.parse().ok()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// An answer as a line. A signal may be written before and after it, never within.
pub(super) fn line(answer: &Answer) -> String {
    let (mark, text) = match answer {
        Ok(text) => ('+', text),
        Err(text) => ('-', text),
    };
    format!("{mark}{}\n", text.trim_end().replace('\n', " "))
}

/// What a watchdog says, word by word.
#[derive(Debug)]
pub(super) struct Words<'a>(BufReader<&'a UnixStream>);

impl<'a> Words<'a> {
    pub(super) fn new(stream: &'a UnixStream) -> Self {
        Self(BufReader::new(stream))
    }
}

impl Iterator for Words<'_> {
    type Item = Said;

    /// Waits for the next; none, at the end.
    fn next(&mut self) -> Option<Said> {
        if *self.0.fill_buf().ok()?.first()? == SIGNAL {
            self.0.consume(1);
            return Some(Said::Signal);
        }
        let mut line = String::new();
        (&mut self.0).take(LONGEST).read_line(&mut line).ok()?;
        let line = line.strip_suffix('\n')?;
        let failed = || line.strip_prefix('-').map(|why| Err(why.to_owned()));
        line.strip_prefix('+').map(|text| Ok(text.to_owned())).or_else(failed).map(Said::Answer)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write as _;
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn what_is_asked_arrives() {
        let (server, watchdog) = UnixStream::pair().unwrap();
        let file = File::open("/dev/null").unwrap();
        Ask::Stat(17).send(&server).unwrap();
        assert!(matches!(Asked::receive(&watchdog).unwrap(), Some(Asked::Stat(17))));
        Ask::Another(file.as_fd()).send(&server).unwrap();
        assert!(matches!(Asked::receive(&watchdog).unwrap(), Some(Asked::Another(_))));
        Ask::Unmount.send(&server).unwrap();
        assert!(matches!(Asked::receive(&watchdog).unwrap(), Some(Asked::Unmount)));
        (&server).write_all(b"stat x").unwrap();
        assert!(Asked::receive(&watchdog).is_err());
        drop(server);
        assert!(Asked::receive(&watchdog).unwrap().is_none());
    }

    #[test]
    fn signals_come_between_answers() {
        let (server, watchdog) = UnixStream::pair().unwrap();
        let answers = [Ok("1 (X) S".to_owned()), Err("no\nway".to_owned())];
        for answer in &answers {
            (&watchdog).write_all(b"XX").unwrap();
            (&watchdog).write_all(line(answer).as_bytes()).unwrap();
        }
        drop(watchdog);
        let said: Vec<Said> = Words::new(&server).collect();
        let answers = [Ok("1 (X) S".to_owned()), Err("no way".to_owned())].map(Said::Answer);
        assert_eq!(said.iter().filter(|said| **said == Said::Signal).count(), 4);
        assert!(answers.iter().all(|answer| said.contains(answer)));
    }
}
