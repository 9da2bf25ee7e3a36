//! The bytes between the pipes of a filter.

use std::io::{PipeReader, PipeWriter};
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::run::child::BLOCK;
use crate::run::filter::keeping::InputKeeper;

// poll(2) reports room for so many bytes in a pipe.
const PAGE: usize = 4096;

/// Standard input and output, and the ends of the pipes to and from the filter. An end that is
/// `None` is closed, so that the process on its other side sees what it would see of the filter.
pub(crate) struct FilterPipes {
    stdin: Option<OwnedFd>,
    to: Option<OwnedFd>,
    from: Option<OwnedFd>,
    stdout: OwnedFd,
    input: Block,
    output: Block,
}

/// Bytes that were read and not yet written.
struct Block {
    bytes: Vec<u8>,
    at: usize,
    end: usize,
}

impl FilterPipes {
    /// Takes standard input and output, which nothing else may use from then on. `to` and `from` are
    /// the ends of the pipes to and from a filter, of which `to` does not block.
    pub(crate) fn new(to: PipeWriter, from: PipeReader) -> Self {
        let [stdin, stdout] = inherited();
        let (input, output) = (Block::new(), Block::new());
        let (stdin, to, from) = (Some(stdin), Some(to.into()), Some(from.into()));
        Self { stdin, to, from, stdout, input, output }
    }

    /// Passes bytes on until the filter has closed both of its pipes. `keeper` sees them.
    pub(crate) fn pass(mut self, keeper: &mut InputKeeper) {
        while self.to.is_some() || self.from.is_some() || !self.output.is_empty() {
            let [stdin, to, from, stdout] = self.wait();
            // The filter reads no more.
            if to.contains(PollFlags::ERR) {
                (self.stdin, self.to) = (None, None);
                self.input.clear();
            } else if to.contains(PollFlags::OUT)
                && let Some(to) = &self.to
            {
                self.input.write(to, BLOCK);
            }
            if !stdin.is_empty()
                && let Some(stdin) = &self.stdin
            {
                match self.input.read(stdin) {
                    Some([]) => self.stdin = None,
                    Some(bytes) => keeper.take_input(bytes),
                    None => {}
                }
            }
            if self.stdin.is_none() && self.input.is_empty() {
                self.to = None;
            }
            // No process reads the output.
            if stdout.contains(PollFlags::ERR) {
                let left = self
                    .from
                    .as_ref()
                    .map_or(0, |from| rustix::io::ioctl_fionread(from).unwrap_or(0));
                keeper.has_lost_output |= left > 0 || !self.output.is_empty();
                self.from = None;
                self.output.clear();
            } else if stdout.contains(PollFlags::OUT) {
                self.output.write(&self.stdout, PAGE);
            }
            if !from.is_empty()
                && let Some(from) = &self.from
            {
                match self.output.read(from) {
                    Some([]) => self.from = None,
                    Some(bytes) => keeper.shown.add(bytes),
                    None => {}
                }
            }
        }
    }

    // Waits until something can be done. Returns the events of standard input, of the pipe to the
    // filter, of that from the filter, and of standard output.
    fn wait(&self) -> [PollFlags; 4] {
        let reads =
            |block: &Block| if block.is_empty() { PollFlags::IN } else { PollFlags::empty() };
        let writes =
            |block: &Block| if block.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        let stdin = self.stdin.as_ref().filter(|_| self.input.is_empty());
        let from = self.from.as_ref().filter(|_| self.output.is_empty());
        let is_written = self.from.is_some() || !self.output.is_empty();
        let ends = [
            (stdin, reads(&self.input)),
            (self.to.as_ref(), writes(&self.input)),
            (from, reads(&self.output)),
            (Some(&self.stdout).filter(|_| is_written), writes(&self.output)),
        ];
        let mut events = [PollFlags::empty(); 4];
        let open =
            ends.iter().enumerate().filter_map(|(at, (fd, flags))| Some((at, (*fd)?, *flags)));
        let (places, mut fds): (Vec<_>, Vec<_>) =
            open.map(|(at, fd, flags)| (at, PollFd::new(fd, flags))).unzip();
        // Without an answer, there are no events.
        let _interrupted = poll(&mut fds, None);
        for (at, fd) in places.into_iter().zip(&fds) {
            events[at] = fd.revents();
        }
        events
    }
}

impl Block {
    fn new() -> Self {
        Self { bytes: vec![0; BLOCK], at: 0, end: 0 }
    }

    fn is_empty(&self) -> bool {
        self.at == self.end
    }

    fn clear(&mut self) {
        self.at = self.end;
    }

    // Returns the bytes that were read, or none at the end and after an error, or `None` if none are
    // there yet.
    fn read(&mut self, from: &OwnedFd) -> Option<&[u8]> {
        let count = match rustix::io::read(from, &mut self.bytes[..]) {
            // Other processes may have made the pipe nonblocking.
            Err(Errno::AGAIN | Errno::INTR) => return None,
            read => read.unwrap_or(0),
        };
        (self.at, self.end) = (0, count);
        Some(&self.bytes[..count])
    }

    // Writes at most `most` bytes. A pipe that has lost its reader is reported by poll(2).
    fn write(&mut self, to: &OwnedFd, most: usize) {
        let end = self.end.min(self.at + most);
        self.at += rustix::io::write(to, &self.bytes[self.at..end]).unwrap_or(0);
    }
}

#[expect(
    unsafe_code,
    reason = "nothing else owns standard input and output, so that they can be closed"
)]
fn inherited() -> [OwnedFd; 2] {
    // SAFETY: this process reads its standard input and writes to its standard output only here.
    [rustix::stdio::stdin(), rustix::stdio::stdout()]
        .map(|fd| unsafe { OwnedFd::from_raw_fd(fd.as_fd().as_raw_fd()) })
}
