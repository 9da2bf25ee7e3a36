//! The running command: the sources of its output, the user's terminal, signals, and the event loop
//! that handles them.

use std::io::{self, PipeReader, Stdin};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{self, Command, ExitStatus};
use std::time::{Duration, Instant};
use std::{ffi::OsString, fs::File, os::unix::net::UnixStream};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{
    Pid, Resource, Rlimit, Signal, getpgid, getpid, kill_process, set_parent_process_death_signal,
    setrlimit,
};
use rustix::termios::{
    LocalModes, OptionalActions, Termios, Winsize, isatty, tcgetattr, tcgetpgrp, tcgetwinsize,
    tcsetattr,
};
use rustix::{io::Errno, pty::OpenptFlags};
use signal_hook::consts::{
    SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2,
    SIGWINCH,
};
use signal_hook::low_level::siginfo::{Cause, Origin};
use signal_hook::{iterator::backend::SignalDelivery, iterator::exfiltrator::WithOrigin};

use crate::run::output::{CommandOutput, OpenOutput, OutputStream};
use crate::system;

const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;
// Shells add this to the number of the signal that ended a command.
const BY_SIGNAL: i32 = 128;

#[derive(Debug)]
pub(crate) enum SpawnError {
    Command { text: String, code: i32 },
    Machine(io::Error),
}

#[derive(Debug)]
pub(crate) struct Child {
    process: process::Child,
    ended: Option<ExitStatus>,
    pub(crate) outputs: Vec<OpenOutput>,
    // This process's end of the terminal that was created for the command.
    pub(crate) terminal: Option<OwnedFd>,
    // True if the command is killed with this process, and nobody reads its output once standard
    // output has no reader.
    ends_with_us: bool,
    // What filters of the command know it by.
    _memory: Option<File>,
}

/// A command as it is started, a pipe that has to stay open until then, and a file that has to stay
/// open until the command has ended.
pub(crate) struct CommandStart {
    pub(crate) command: Command,
    pub(crate) read_first: Option<PipeReader>,
    pub(crate) memory: Option<File>,
}

impl CommandStart {
    pub(crate) fn of(command: &[OsString]) -> Self {
        Self { command: start_of(command), read_first: None, memory: None }
    }
}

impl Child {
    /// Starts a command. With `ends_with_us`, it is killed if this process is, and its output is
    /// closed once standard output has no reader. `prepare` gets the standard error of the command.
    pub(crate) fn on_pipes(
        command: &[OsString],
        split: bool,
        ends_with_us: bool,
        prepare: impl FnOnce(BorrowedFd<'_>) -> CommandStart,
    ) -> Result<Self, SpawnError> {
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
        let CommandStart { command: mut start, read_first: _first, memory } =
            prepare(error.as_fd());
        start.stdout(writer).stderr(error);
        if ends_with_us {
            kill_with_us(&mut start);
        }
        let process = spawn(start, command)?;
        Ok(Self { process, ended: None, outputs, terminal: None, ends_with_us, _memory: memory })
    }

    pub(crate) fn on_terminal(
        command: &[OsString],
        user_terminal: &UserTerminal,
    ) -> Result<Self, SpawnError> {
        let (ours, theirs) = open_terminal(user_terminal).map_err(SpawnError::Machine)?;
        let copy = |end: &OwnedFd| end.try_clone().map_err(SpawnError::Machine);
        let mut start = start_of(command);
        start.stdin(copy(&theirs)?).stdout(copy(&theirs)?).stderr(theirs);
        before_exec(&mut start, || {
            rustix::process::setsid()?;
            rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())
        });
        let outputs = vec![(OutputStream::Stdout, copy(&ours)?)];
        let (process, terminal) = (spawn(start, command)?, Some(ours));
        Ok(Self { process, ended: None, outputs, terminal, ends_with_us: false, _memory: None })
    }

    pub(crate) fn has_ended(&mut self) -> io::Result<bool> {
        if self.ended.is_none() {
            self.ended = self.process.try_wait()?;
        }
        Ok(self.ended.is_some())
    }

    pub(crate) fn wait(&mut self) -> io::Result<ExitStatus> {
        self.ended.map_or_else(|| self.process.wait(), Ok)
    }

    // Sends a signal. If the command has its own terminal, sends it to the whole process group.
    pub(crate) fn signal(&mut self, number: i32) -> io::Result<()> {
        let Some(signal) = Signal::from_named_raw(number) else { return Ok(()) };
        if self.has_ended()? {
            return Ok(());
        }
        let pid = Pid::from_child(&self.process);
        // Fails if the command has already ended.
        let _sent = match self.terminal {
            Some(_) => rustix::process::kill_process_group(pid, signal),
            None => kill_process(pid, signal),
        };
        Ok(())
    }
}

/// Returns the exit code, or 128 plus the signal if a signal ended the command.
pub(crate) fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| BY_SIGNAL + status.signal().unwrap_or_default())
}

pub(crate) fn exit_status(code: impl Into<i32>) -> ExitStatus {
    ExitStatus::from_raw(code.into() << 8)
}

/// Returns the start of a command, which ignores SIGPIPE if this process was started so.
pub(crate) fn start_of(command: &[OsString]) -> Command {
    let mut start = Command::new(&command[0]);
    start.args(&command[1..]);
    if system::began_without_sigpipe() {
        before_exec(&mut start, || {
            #[expect(unsafe_code, reason = "no safe wrapper ignores a signal")]
            // SAFETY: `signal` may be called between fork and exec, and this sets no handler.
            unsafe {
                libc::signal(libc::SIGPIPE, libc::SIG_IGN)
            };
            Ok(())
        });
    }
    start
}

/// Has a command killed when this process ends.
pub(crate) fn kill_with_us(start: &mut Command) {
    before_exec(start, || {
        // A sandbox may refuse it.
        let _refused = set_parent_process_death_signal(Some(Signal::KILL));
        Ok(())
    });
}

/// Becomes a program, with the standard descriptors closed that this process was started without.
/// Returns the error if that fails.
pub(crate) fn replace_us_by(mut start: Command) -> io::Error {
    before_exec(&mut start, || {
        for fd in system::closed_at_start() {
            #[expect(unsafe_code, reason = "no safe wrapper closes a standard descriptor")]
            // SAFETY: nothing in this process uses `/dev/null`, which is in its place.
            unsafe {
                libc::close(fd)
            };
        }
        Ok(())
    });
    start.exec()
}

fn spawn(mut start: Command, command: &[OsString]) -> Result<process::Child, SpawnError> {
    let lacking = [libc::EAGAIN, libc::EMFILE, libc::ENFILE, libc::ENOMEM];
    start.spawn().map_err(|error| {
        if error.raw_os_error().is_some_and(|code| lacking.contains(&code)) {
            return SpawnError::Machine(error);
        }
        let (text, code) = not_run(command, &error);
        SpawnError::Command { text, code: code.into() }
    })
}

pub(crate) fn not_run(command: &[OsString], error: &io::Error) -> (String, u8) {
    let found = error.kind() != io::ErrorKind::NotFound;
    let name = command[0].to_string_lossy();
    let text = format!("ctxfs: cannot run `{name}`: {error}\n");
    (text, if found { NOT_EXECUTABLE } else { NOT_FOUND })
}

fn open_terminal(user_terminal: &UserTerminal) -> io::Result<(OwnedFd, OwnedFd)> {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let ours = rustix::pty::openpt(flags)?;
    rustix::pty::grantpt(&ours)?;
    rustix::pty::unlockpt(&ours)?;
    let theirs = rustix::pty::ioctl_tiocgptpeer(&ours, flags)?;
    rustix::termios::tcsetwinsize(&ours, user_terminal.size())?;
    if !isatty(&user_terminal.stdin) {
        turn_off_echo(&theirs)?;
    }
    let nonblocking = rustix::fs::fcntl_getfl(&ours)? | rustix::fs::OFlags::NONBLOCK;
    rustix::fs::fcntl_setfl(&ours, nonblocking)?;
    Ok((ours, theirs))
}

// Turns off echo, because input that no user types is not part of the output.
fn turn_off_echo(terminal: impl AsFd) -> io::Result<()> {
    let mut modes = rustix::termios::tcgetattr(&terminal)?;
    modes.local_modes.remove(LocalModes::ECHO);
    Ok(rustix::termios::tcsetattr(&terminal, OptionalActions::Now, &modes)?)
}

// Calls `begin` in the new process, which must make system calls alone.
#[expect(unsafe_code, reason = "what happens between fork and exec is unsafe to say")]
fn before_exec(start: &mut Command, begin: fn() -> rustix::io::Result<()>) {
    // SAFETY: `begin` makes a few system calls, allocates no memory and takes no lock.
    unsafe { start.pre_exec(move || Ok(begin()?)) };
}

/// Ends this process by the signal that ended its command. Returns if that is not possible.
pub(crate) fn end_by(signal: i32) {
    // The command may have left a core dump. Another one would replace it.
    let limit = rustix::process::getrlimit(Resource::Core);
    let _limited = setrlimit(Resource::Core, Rlimit { current: Some(0), ..limit });
    if signal == SIGKILL {
        let _killed = kill_process(getpid(), Signal::KILL);
    } else {
        let _unknown = signal_hook::low_level::emulate_default_handler(signal);
    }
}

const SIZE: Winsize = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };

/// The terminal on the standard input of ctxfs itself. Raw mode passes keys on unchanged. The
/// previous mode is restored on drop.
#[derive(Debug)]
pub(crate) struct UserTerminal {
    stdin: Stdin,
    before: Option<Termios>,
}

impl UserTerminal {
    pub(crate) fn find() -> Self {
        Self { stdin: io::stdin(), before: None }
    }

    // Returns false outside the foreground process group of the terminal, because the kernel stops
    // processes that read from the terminal there.
    pub(crate) fn may_read(&self) -> bool {
        !isatty(&self.stdin) || tcgetpgrp(&self.stdin).ok() == getpgid(None).ok()
    }

    pub(crate) fn make_raw(&mut self) {
        if self.before.is_some() || !isatty(&self.stdin) || !self.may_read() {
            return;
        }
        let Ok(before) = tcgetattr(&self.stdin) else { return };
        let mut raw = before.clone();
        raw.make_raw();
        if tcsetattr(&self.stdin, OptionalActions::Drain, &raw).is_ok() {
            self.before = Some(before);
        }
    }

    pub(crate) fn restore(&mut self) {
        if let Some(before) = self.before.take() {
            // The terminal may no longer exist.
            let _restored = tcsetattr(&self.stdin, OptionalActions::Drain, &before);
        }
    }

    pub(crate) fn size(&self) -> Winsize {
        let size = tcgetwinsize(&self.stdin).or_else(|_| tcgetwinsize(io::stdout()));
        size.ok().filter(|size| size.ws_col > 0 && size.ws_row > 0).unwrap_or(SIZE)
    }
}

impl Drop for UserTerminal {
    fn drop(&mut self) {
        self.restore();
    }
}

// Signals that are passed on to the command, except for SIGCHLD.
const CAUGHT: [i32; 10] =
    [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH, SIGCHLD];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CaughtSignal {
    pub(crate) number: i32,
    // True if the other processes of the group have received the signal too. A terminal sends
    // signals to the whole group, and a signal from a member of the group is assumed to be sent to
    // the whole group.
    pub(crate) shared: bool,
}

pub(crate) struct CaughtSignals(SignalDelivery<UnixStream, WithOrigin>);

impl CaughtSignals {
    pub(crate) fn catch() -> io::Result<Self> {
        let (read, write) = UnixStream::pair()?;
        read.set_nonblocking(true)?;
        write.set_nonblocking(true)?;
        let caught =
            CAUGHT.into_iter().filter(|number| *number == SIGCHLD || !system::is_ignored(*number));
        Ok(Self(SignalDelivery::with_pipe(read, write, WithOrigin::default(), caught)?))
    }

    pub(crate) fn pending(&mut self) -> Vec<CaughtSignal> {
        self.0.pending().map(|origin| caught(&origin)).collect()
    }
}

impl AsFd for CaughtSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.get_read().as_fd()
    }
}

fn caught(origin: &Origin) -> CaughtSignal {
    let from_group = origin.process.as_ref().is_some_and(|sender| {
        let group = Pid::from_raw(sender.pid).and_then(|pid| getpgid(Some(pid)).ok());
        group.is_some() && group == getpgid(None).ok()
    });
    CaughtSignal { number: origin.signal, shared: origin.cause == Cause::Kernel || from_group }
}

// The capacity of a pipe.
pub(crate) const BLOCK: usize = 64 * 1024;
// The length of the longest line of a terminal.
const INPUT: usize = 4096;
// The character VEOF in termios(3).
const END_OF_INPUT: u8 = 4;

#[derive(Debug)]
pub(crate) struct CommandEnd {
    pub(crate) status: ExitStatus,
    pub(crate) left: Vec<OpenOutput>,
}

// The last output may pass through another process, such as `tee` in `exec > >(tee log)`.
const GRACE: Duration = Duration::from_millis(50);

/// A running command with its input, output and signals. The loop ends when the command has ended
/// and its output has been read, even if other processes still have the output open.
pub(crate) struct EventLoop<'a, 'b> {
    child: Child,
    signals: CaughtSignals,
    user_terminal: UserTerminal,
    output: &'a mut CommandOutput<'b>,
    block: Vec<u8>,
    input: PendingInput,
    taken: u64,
}

#[derive(Debug, Default)]
struct PendingInput {
    bytes: std::collections::VecDeque<u8>,
    ended: bool,
    at_line_end: bool,
}

#[expect(clippy::struct_excessive_bools, reason = "each is a source of its own")]
struct ReadySources {
    is_unread: bool,
    outputs: Vec<bool>,
    signals: bool,
    input: bool,
    terminal: bool,
}

impl<'a, 'b> EventLoop<'a, 'b> {
    pub(crate) fn new(
        child: Child,
        signals: CaughtSignals,
        user_terminal: UserTerminal,
        output: &'a mut CommandOutput<'b>,
    ) -> Self {
        let (block, input) =
            (vec![0; BLOCK], PendingInput { at_line_end: true, ..PendingInput::default() });
        Self { child, signals, user_terminal, output, block, input, taken: 0 }
    }

    pub(crate) fn run(mut self) -> io::Result<CommandEnd> {
        if self.child.terminal.is_some() {
            self.user_terminal.make_raw();
        }
        while !self.child.has_ended()? {
            let ready = self.wait(None)?;
            self.handle(&ready)?;
        }
        self.drain()?;
        let left = std::mem::take(&mut self.child.outputs);
        // Processes that use the terminal end when the terminal is closed.
        let left = if self.child.terminal.is_some() { Vec::new() } else { left };
        Ok(CommandEnd { status: self.child.wait()?, left })
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
        self.take_outputs(&ready.outputs)?;
        if ready.is_unread {
            self.child.outputs.retain(|(stream, _)| *stream == OutputStream::Stderr);
            // What standard error brings is still read, if by another reader.
            rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
        }
        Ok(())
    }

    // Reads the bytes that are in the outputs when the command ends. Continues to read until the
    // outputs end or the grace period is over.
    fn drain(&mut self) -> io::Result<()> {
        let present = |(_, fd): &OpenOutput| rustix::io::ioctl_fionread(fd).unwrap_or(0);
        let all = self.taken + self.child.outputs.iter().map(present).sum::<u64>();
        let end = Instant::now() + GRACE;
        while !self.child.outputs.is_empty() {
            let left = end.saturating_duration_since(Instant::now());
            let ready = self.wait(Some(left))?;
            let is_quiet = !ready.outputs.contains(&true);
            self.handle(&ready)?;
            // Even if no bytes are left, an output may be ready because its end of file has not
            // been read.
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
        let is_stdout = |(stream, _): &OpenOutput| *stream == OutputStream::Stdout;
        let is_read = self.child.ends_with_us && self.child.outputs.iter().any(is_stdout);
        // Without a flag, only errors are reported: a pipe has one once it has no reader.
        let reader = || PollFd::from_borrowed_fd(rustix::stdio::stdout(), PollFlags::empty());
        fds.extend(is_read.then(reader));
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
            is_unread: next(is_read),
            input: next(takes.is_some()),
            terminal: next(gives.is_some()),
        })
    }

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

    fn pass(&mut self, caught: CaughtSignal) -> io::Result<()> {
        let has_it = caught.shared && self.child.terminal.is_none();
        if has_it { Ok(()) } else { self.child.signal(caught.number) }
    }

    // The kernel sends the signal to the processes of the terminal.
    fn resize(&mut self, caught: CaughtSignal) -> io::Result<()> {
        match &self.child.terminal {
            Some(terminal) => {
                Ok(rustix::termios::tcsetwinsize(terminal, self.user_terminal.size())?)
            }
            None => self.pass(caught),
        }
    }

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
    fn is_taken(&self) -> bool {
        self.bytes.is_empty() && !self.ended
    }

    fn add(&mut self, bytes: &[u8]) {
        self.at_line_end = bytes.last() == Some(&b'\n');
        self.bytes.extend(bytes);
    }

    // In the middle of a line, the first end-of-input character only ends the line.
    fn end(&mut self) {
        let count = if self.at_line_end { 1 } else { 2 };
        self.bytes.extend(std::iter::repeat_n(END_OF_INPUT, count));
        self.ended = true;
    }
}

/// Reads at most one block. Returns `None` if no input is ready, and 0 at the end of the input.
pub(crate) fn read(from: impl AsFd, block: &mut [u8]) -> io::Result<Option<usize>> {
    match rustix::io::read(from, block) {
        Ok(count) => Ok(Some(count)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        // No process has the terminal open.
        Err(Errno::IO) => Ok(Some(0)),
        Err(error) => Err(error.into()),
    }
}
