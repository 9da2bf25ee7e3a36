//! The loop that handles output, input and signals while a command runs.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use signal_hook::consts::{SIGCHLD, SIGCONT, SIGTSTP, SIGWINCH};

use crate::run::child::{Child, OpenOutput};
use crate::run::output::CommandOutput;
use crate::run::signals::{CaughtSignal, Signals};
use crate::run::user_terminal::UserTerminal;

/// Bytes that are read at once, which is the capacity of a pipe.
pub(super) const BLOCK: usize = 64 * 1024;
/// Bytes of input that are read at once, which is the longest line of a terminal.
const INPUT: usize = 4096;
/// The character that ends input on a terminal; see VEOF in termios(3).
const END_OF_INPUT: u8 = 4;

/// The end of a command.
#[derive(Debug)]
pub(super) struct CommandEnd {
    /// The exit code.
    pub(super) code: i32,
    /// The sources of output that other processes still have open.
    pub(super) left: Vec<OpenOutput>,
}

/// The time after the end of the command in which its output ends too, where the last of it passes
/// through another process, such as `tee` in `exec > >(tee log)`.
const GRACE: Duration = Duration::from_millis(50);

/// A running command with its input, output and signals.
pub(super) struct EventLoop<'a, 'b> {
    child: Child,
    signals: Signals,
    user_terminal: UserTerminal,
    output: &'a mut CommandOutput<'b>,
    block: Vec<u8>,
    input: PendingInput,
    /// The bytes of output that were read.
    taken: u64,
}

/// Input that has not been written to the command's terminal yet.
#[derive(Debug, Default)]
struct PendingInput {
    bytes: VecDeque<u8>,
    ended: bool,
    /// True if the last input ended a line.
    at_line_end: bool,
}

/// The sources that are ready.
struct ReadySources {
    outputs: Vec<bool>,
    signals: bool,
    input: bool,
    terminal: bool,
}

impl<'a, 'b> EventLoop<'a, 'b> {
    /// Creates the loop.
    pub(super) fn new(
        child: Child,
        signals: Signals,
        user_terminal: UserTerminal,
        output: &'a mut CommandOutput<'b>,
    ) -> Self {
        let (block, input) =
            (vec![0; BLOCK], PendingInput { at_line_end: true, ..PendingInput::default() });
        Self { child, signals, user_terminal, output, block, input, taken: 0 }
    }

    /// Runs until the command has ended and its output is read, whoever else has that open.
    pub(super) fn run(mut self) -> io::Result<CommandEnd> {
        if self.child.terminal.is_some() {
            self.user_terminal.make_raw();
        }
        while !self.child.has_ended()? {
            let ready = self.wait(None)?;
            self.handle(&ready)?;
        }
        self.drain()?;
        let left = std::mem::take(&mut self.child.outputs);
        // The processes of a terminal end with it.
        let left = if self.child.terminal.is_some() { Vec::new() } else { left };
        Ok(CommandEnd { code: self.child.wait()?, left })
    }

    fn handle(&mut self, ready: &ReadySources) -> io::Result<()> {
        if ready.signals {
            self.pass_signals()?;
        }
        if ready.input {
            self.take_input()?;
        }
        if ready.terminal {
            self.give_input()?;
        }
        self.take_outputs(&ready.outputs)
    }

    /// Reads all bytes that are in the outputs when the command ends, and more until they end or the
    /// grace is over.
    fn drain(&mut self) -> io::Result<()> {
        let present = |(_, fd): &OpenOutput| rustix::io::ioctl_fionread(fd).unwrap_or(0);
        let all = self.taken + self.child.outputs.iter().map(present).sum::<u64>();
        let end = Instant::now() + GRACE;
        while !self.child.outputs.is_empty() {
            let left = end.saturating_duration_since(Instant::now());
            let ready = self.wait(Some(left))?;
            let is_quiet = !ready.outputs.contains(&true);
            self.handle(&ready)?;
            // With no byte left, an end of file is still to be read: it makes an output ready.
            if left.is_zero() && (is_quiet || self.taken > all) {
                break;
            }
        }
        Ok(())
    }

    fn wait(&self, patience: Option<Duration>) -> io::Result<ReadySources> {
        let terminal = self.child.terminal.as_ref();
        let takes = terminal.filter(|_| self.input.is_taken());
        let gives = terminal.filter(|_| !self.input.bytes.is_empty());
        let takes = takes.filter(|_| self.user_terminal.may_read()).map(|_| rustix::stdio::stdin());
        let outputs = self.child.outputs.iter().map(|(_, fd)| fd);
        let mut fds: Vec<_> = outputs.map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        let count = fds.len();
        fds.push(PollFd::new(&self.signals, PollFlags::IN));
        let input = takes.as_ref().map(|stdin| PollFd::new(stdin, PollFlags::IN));
        fds.extend(input);
        fds.extend(gives.map(|terminal| PollFd::new(terminal, PollFlags::OUT)));
        let patience = patience.and_then(|patience| Timespec::try_from(patience).ok());
        match rustix::event::poll(&mut fds, patience.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
        let outputs = ready.by_ref().take(count).collect();
        let mut next = |is_asked: bool| is_asked && ready.next() == Some(true);
        Ok(ReadySources {
            outputs,
            signals: next(true),
            input: next(takes.is_some()),
            terminal: next(gives.is_some()),
        })
    }

    /// Reads once from each ready source, and closes those at their end.
    fn take_outputs(&mut self, ready: &[bool]) -> io::Result<()> {
        let mut open = Vec::with_capacity(self.child.outputs.len());
        for ((which, fd), ready) in std::mem::take(&mut self.child.outputs).into_iter().zip(ready) {
            let count = if *ready { read(&fd, &mut self.block)? } else { None };
            if let Some(count) = count {
                self.taken += count as u64;
                self.output.take(which, &self.block[..count]);
            }
            if count != Some(0) {
                open.push((which, fd));
            }
        }
        self.child.outputs = open;
        Ok(())
    }

    fn take_input(&mut self) -> io::Result<()> {
        let mut block = [0; INPUT];
        match read(rustix::stdio::stdin(), &mut block)? {
            None => {}
            Some(0) => self.input.end(),
            Some(count) => self.input.add(&block[..count]),
        }
        Ok(())
    }

    fn give_input(&mut self) -> io::Result<()> {
        let Some(terminal) = &self.child.terminal else { return Ok(()) };
        let bytes = self.input.bytes.make_contiguous();
        match rustix::io::write(terminal, bytes) {
            Ok(count) => drop(self.input.bytes.drain(..count)),
            Err(Errno::AGAIN | Errno::INTR) => {}
            // No process has the terminal open.
            Err(Errno::IO) => self.input = PendingInput { ended: true, ..PendingInput::default() },
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn pass_signals(&mut self) -> io::Result<()> {
        for caught in self.signals.pending() {
            match caught.number {
                SIGCHLD => {}
                SIGWINCH => self.resize(caught)?,
                SIGTSTP => self.stop(caught)?,
                SIGCONT => self.resume(caught)?,
                _ => self.pass(caught)?,
            }
        }
        Ok(())
    }

    /// Passes a signal on, unless the command has received it as a member of this group.
    fn pass(&mut self, caught: CaughtSignal) -> io::Result<()> {
        let has_it = caught.shared && self.child.terminal.is_none();
        if has_it { Ok(()) } else { self.child.signal(caught.number) }
    }

    /// Resizes the command's terminal, and the kernel signals its processes.
    fn resize(&mut self, caught: CaughtSignal) -> io::Result<()> {
        match &self.child.terminal {
            Some(terminal) => {
                Ok(rustix::termios::tcsetwinsize(terminal, self.user_terminal.size())?)
            }
            None => self.pass(caught),
        }
    }

    /// Stops the command and then this process, until SIGCONT.
    fn stop(&mut self, caught: CaughtSignal) -> io::Result<()> {
        self.pass(caught)?;
        self.user_terminal.restore();
        signal_hook::low_level::emulate_default_handler(SIGTSTP)
    }

    fn resume(&mut self, caught: CaughtSignal) -> io::Result<()> {
        if self.child.terminal.is_some() {
            self.user_terminal.make_raw();
        }
        self.child.signal(caught.number)
    }
}

impl PendingInput {
    /// Returns true if more input can be read.
    fn is_taken(&self) -> bool {
        self.bytes.is_empty() && !self.ended
    }

    fn add(&mut self, bytes: &[u8]) {
        self.at_line_end = bytes.last() == Some(&b'\n');
        self.bytes.extend(bytes);
    }

    /// Ends the input. In the middle of a line, the first character ends only the line.
    fn end(&mut self) {
        let count = if self.at_line_end { 1 } else { 2 };
        self.bytes.extend(std::iter::repeat_n(END_OF_INPUT, count));
        self.ended = true;
    }
}

/// Reads up to a block. Returns `None` if no input is ready, and 0 bytes at the end.
pub(super) fn read(from: impl AsFd, block: &mut [u8]) -> io::Result<Option<usize>> {
    match rustix::io::read(from, block) {
        Ok(count) => Ok(Some(count)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        // No process has the terminal open any more.
        Err(Errno::IO) => Ok(Some(0)),
        Err(error) => Err(error.into()),
    }
}
