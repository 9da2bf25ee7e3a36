//! The loop that handles output, input and signals while a command runs.

use std::collections::VecDeque;
use std::io;
use std::os::fd::AsFd;

use rustix::event::PollFd;
use rustix::event::PollFlags;
use rustix::io::Errno;
use signal_hook::consts::SIGCHLD;
use signal_hook::consts::SIGCONT;
use signal_hook::consts::SIGTSTP;
use signal_hook::consts::SIGWINCH;

use crate::cli::run::child::Child;
use crate::cli::run::log::CommandLogs;
use crate::cli::run::signals::CaughtSignal;
use crate::cli::run::signals::Signals;
use crate::cli::run::user_terminal::UserTerminal;

/// Bytes that are read at once, which is the capacity of a pipe.
const BLOCK: usize = 64 * 1024;
/// Bytes of input that are read at once, which is the longest line of a terminal.
const INPUT: usize = 4096;
/// The character that ends input on a terminal; see VEOF in termios(3).
const END_OF_INPUT: u8 = 4;

/// The end of a command.
#[derive(Debug)]
pub(super) struct CommandEnd {
    /// The exit code.
    pub(super) code: i32,
    /// The reason that the logs may lack their end.
    pub(super) cut: Option<&'static str>,
}

/// A running command with its input, output and signals.
pub(super) struct EventLoop<'a, 'b> {
    child: Child,
    signals: Signals,
    user_terminal: UserTerminal,
    logs: &'a mut CommandLogs<'b>,
    live: bool,
    block: Vec<u8>,
    input: PendingInput,
    /// True to stop waiting for other processes that have the output open.
    cut: bool,
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
    /// Creates the loop. `live` says that the output is shown to a person.
    pub(super) fn new(
        child: Child,
        signals: Signals,
        user_terminal: UserTerminal,
        logs: &'a mut CommandLogs<'b>,
        live: bool,
    ) -> Self {
        let (block, input) =
            (vec![0; BLOCK], PendingInput { at_line_end: true, ..PendingInput::default() });
        Self { child, signals, user_terminal, logs, live, block, input, cut: false }
    }

    /// Runs until the command has ended and all processes have closed its output. Once the command
    /// has ended, a signal to end stops the wait for the other processes.
    pub(super) fn run(mut self) -> io::Result<CommandEnd> {
        if self.child.terminal.is_some() {
            self.user_terminal.make_raw();
        }
        while !self.cut && self.is_running()? {
            let ready = self.wait()?;
            if ready.signals {
                self.pass_signals()?;
            }
            if ready.input {
                self.take_input()?;
            }
            if ready.terminal {
                self.give_input()?;
            }
            self.take_outputs(&ready.outputs)?;
        }
        self.child.outputs.clear();
        let cut = self.cut.then_some("another process still had its output open");
        Ok(CommandEnd { code: self.child.wait()?, cut })
    }

    fn is_running(&mut self) -> io::Result<bool> {
        Ok(!self.child.outputs.is_empty() || !self.child.has_ended()?)
    }

    fn wait(&self) -> io::Result<ReadySources> {
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
        match rustix::event::poll(&mut fds, None) {
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
                self.logs.write(which, &self.block[..count], self.live);
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
        if self.child.has_ended()? && caught.is_ending() {
            self.cut = true;
        }
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
fn read(from: impl AsFd, block: &mut [u8]) -> io::Result<Option<usize>> {
    match rustix::io::read(from, block) {
        Ok(count) => Ok(Some(count)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        // No process has the terminal open any more.
        Err(Errno::IO) => Ok(Some(0)),
        Err(error) => Err(error.into()),
    }
}
