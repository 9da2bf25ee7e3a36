//! The running command and the sources of its output.

use std::ffi::OsString;
use std::io::PipeReader;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitStatus};
use std::{io, process};

use rustix::process::{Pid, Signal};
use rustix::pty::OpenptFlags;
use rustix::termios::{LocalModes, OptionalActions};

use crate::run::user_terminal::UserTerminal;

/// The exit codes of shells for a command that is not found, and for one that cannot be run.
const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;
/// The number that shells add to the signal that ended a command.
const BY_SIGNAL: i32 = 128;

/// A stream of the command. A source that carries both counts as standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutputStream {
    Stdout,
    Stderr,
}

/// A source of output that is still open.
pub(super) type OpenOutput = (OutputStream, OwnedFd);

/// The reason that there is no child process.
#[derive(Debug)]
pub(super) enum SpawnError {
    /// The command cannot be run: a message and the exit code.
    Command { text: String, code: i32 },
    /// The machine provides no pipe or no terminal.
    Machine(io::Error),
}

/// The running command.
#[derive(Debug)]
pub(super) struct Child {
    process: process::Child,
    ended: Option<i32>,
    /// The sources of its output that are still open.
    pub(super) outputs: Vec<OpenOutput>,
    /// Our end of the command's own terminal, if it has one.
    pub(super) terminal: Option<OwnedFd>,
}

impl Child {
    /// Starts the command with one pipe for both streams, or with two if `split` is set.
    pub(super) fn on_pipes(command: &[OsString], split: bool) -> Result<Self, SpawnError> {
        let (reader, writer) = io::pipe().map_err(SpawnError::Machine)?;
        let (more, error) = if split {
            let (reader, writer) = io::pipe().map_err(SpawnError::Machine)?;
            (Some(reader), writer)
        } else {
            (None, writer.try_clone().map_err(SpawnError::Machine)?)
        };
        let output = |which| move |reader: PipeReader| (which, OwnedFd::from(reader));
        let outputs = std::iter::once(reader).map(output(OutputStream::Stdout));
        let outputs = outputs.chain(more.map(output(OutputStream::Stderr))).collect();
        let mut start = start_of(command);
        start.stdout(writer).stderr(error);
        Ok(Self { process: spawn(start, command)?, ended: None, outputs, terminal: None })
    }

    /// Starts the command on a terminal of its own, of the size of the user's.
    pub(super) fn on_terminal(
        command: &[OsString],
        user_terminal: &UserTerminal,
    ) -> Result<Self, SpawnError> {
        let (ours, theirs) = open_terminal(user_terminal).map_err(SpawnError::Machine)?;
        let copy = |end: &OwnedFd| end.try_clone().map_err(SpawnError::Machine);
        let mut start = start_of(command);
        start.stdin(copy(&theirs)?).stdout(copy(&theirs)?).stderr(theirs);
        own_session(&mut start);
        let outputs = vec![(OutputStream::Stdout, copy(&ours)?)];
        Ok(Self { process: spawn(start, command)?, ended: None, outputs, terminal: Some(ours) })
    }

    /// Returns true if the command has ended.
    pub(super) fn has_ended(&mut self) -> io::Result<bool> {
        if self.ended.is_none() {
            self.ended = self.process.try_wait()?.map(code);
        }
        Ok(self.ended.is_some())
    }

    /// Waits for the exit code, which is 128 plus the signal if a signal ended the command.
    pub(super) fn wait(&mut self) -> io::Result<i32> {
        match self.ended {
            Some(code) => Ok(code),
            None => Ok(code(self.process.wait()?)),
        }
    }

    /// Sends a signal to the command, or to its whole group if it has its own terminal.
    pub(super) fn signal(&mut self, number: i32) -> io::Result<()> {
        let Some(signal) = Signal::from_named_raw(number) else { return Ok(()) };
        if self.has_ended()? {
            return Ok(());
        }
        let pid = Pid::from_child(&self.process);
        // It may have ended in the meantime.
        let _sent = match self.terminal {
            Some(_) => rustix::process::kill_process_group(pid, signal),
            None => rustix::process::kill_process(pid, signal),
        };
        Ok(())
    }
}

fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| BY_SIGNAL + status.signal().unwrap_or_default())
}

/// Returns the command, ready to be started.
pub(super) fn start_of(command: &[OsString]) -> Command {
    let mut start = Command::new(&command[0]);
    start.args(&command[1..]);
    start
}

fn spawn(mut start: Command, command: &[OsString]) -> Result<process::Child, SpawnError> {
    start.spawn().map_err(|error| {
        let (text, code) = not_run(command, &error);
        SpawnError::Command { text, code: code.into() }
    })
}

/// Returns a message about a command that cannot be run, and the exit code.
pub(super) fn not_run(command: &[OsString], error: &io::Error) -> (String, u8) {
    let found = error.kind() != io::ErrorKind::NotFound;
    let name = command[0].to_string_lossy();
    let text = format!("ctxfs: cannot run `{name}`: {error}\n");
    (text, if found { NOT_EXECUTABLE } else { NOT_FOUND })
}

/// Opens a new terminal, and returns our end and the command's.
fn open_terminal(user_terminal: &UserTerminal) -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let ours = rustix::pty::openpt(flags)?;
    rustix::pty::grantpt(&ours)?;
    rustix::pty::unlockpt(&ours)?;
    let theirs = rustix::pty::ioctl_tiocgptpeer(&ours, flags)?;
    rustix::termios::tcsetwinsize(&ours, user_terminal.size())?;
    if !user_terminal.is_terminal() {
        turn_off_echo(&theirs)?;
    }
    let nonblocking = rustix::fs::fcntl_getfl(&ours)? | rustix::fs::OFlags::NONBLOCK;
    rustix::fs::fcntl_setfl(&ours, nonblocking)?;
    Ok((ours, theirs))
}

/// Turns off echo: input that nobody types is not part of the output.
fn turn_off_echo(terminal: impl AsFd) -> io::Result<()> {
    let mut modes = rustix::termios::tcgetattr(&terminal)?;
    modes.local_modes.remove(LocalModes::ECHO);
    Ok(rustix::termios::tcsetattr(&terminal, OptionalActions::Now, &modes)?)
}

/// Makes the new process the leader of a session whose terminal is its standard input.
#[expect(unsafe_code, reason = "what happens between fork and exec is unsafe to say")]
fn own_session(start: &mut Command) {
    let begin = || {
        rustix::process::setsid()?;
        rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
        Ok(())
    };
    // SAFETY: two system calls; no memory is allocated and no lock is taken.
    unsafe { start.pre_exec(begin) };
}
