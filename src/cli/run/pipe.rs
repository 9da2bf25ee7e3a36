//! Filters in the shell of an agent, such as `tail` in `cargo test | tail -20`. The input of a filter
//! is stored if the filter drops lines of it, and a line on standard error tells the model of errors
//! that it has not seen.
//!
//! `ctxfs shell` has bash define a function for each filter ([`PipeFunctions`]). The function runs
//! the filter between two pipes of `ctxfs shell --pipe` ([`run`]).

use std::cell::OnceCell;
use std::ffi::{OsStr, OsString};
use std::io::{self, PipeReader, Write as _};
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::path::{Path, absolute};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::{borrow::Cow, env, sync::Arc, thread};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_setfl, fstat};
use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use rustix::stdio::{stderr, stdin, stdout};

use crate::args::ShellArgs;
use crate::hooks::{Host, OutputLength};
use crate::put::TargetConversation;
use crate::run::child;
use crate::{Cli, Context};
use ctxfs_core::model::Provenance;
use ctxfs_engine::{Intake, ListedArtifact, OutputName};
use ctxfs_view::Title;

const FUNCTIONS: &str = include_str!("pipe.bash");
const BASH_ENV: &str = "BASH_ENV";
// A command of Claude Code sources a snapshot, which defines `grep` and `rg`, and then evaluates the
// command of the model.
const SNAPSHOT: &str = "/shell-snapshots/";
const EVAL: &str = " && eval ";

/// The functions that bash defines before a command. It reads them from a pipe, so that the command
/// has the same environment as without them.
pub(crate) struct PipeFunctions {
    host: Option<Host>,
    words: Vec<String>,
}

impl PipeFunctions {
    /// Returns the functions that store inputs in `target`, under names that begin with `id`.
    pub(crate) fn new(
        host: Option<Host>,
        id: &str,
        target: &TargetConversation,
        cli: &Cli,
    ) -> Self {
        let path = |path| absolute(path).unwrap_or_default().to_string_lossy().into_owned();
        let program = env::current_exe().unwrap_or_default();
        let words = [
            Some(program.to_string_lossy().into_owned()),
            Some("shell".to_owned()),
            Some(format!("--store={}", path(target.engine.store().root()))),
            cli.config.as_deref().map(|config| format!("--config={}", path(config))),
            Some(format!("--conversation={}", target.conversation.id().to_text())),
            Some(format!("--id={id}")),
            host.map(|host| format!("--host={host}")),
        ];
        Self { host, words: words.into_iter().flatten().collect() }
    }

    /// Returns the start of `command` with the functions, and the pipe from which bash reads them.
    /// `stderr` is the standard error of the shell: the functions say nothing elsewhere. Fails if
    /// no bash runs the command.
    pub(crate) fn start(
        &self,
        command: &[OsString],
        stderr: impl AsFd,
    ) -> io::Result<(Command, PipeReader)> {
        let [shell, arguments @ .., last] = command else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let is_command = |word: &OsString| {
            let word = word.as_encoded_bytes();
            word.starts_with(b"-") && !word.starts_with(b"--") && word.ends_with(b"c")
        };
        let is_bash = Path::new(shell).file_name() == Some(OsStr::new("bash"));
        if !is_bash || !arguments.iter().any(is_command) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let (reader, mut writer) = io::pipe()?;
        fcntl_setfd(&reader, FdFlags::empty())?;
        // Fails rather than waits if the kernel gives this user only small pipes.
        fcntl_setfl(&writer, OFlags::NONBLOCK)?;
        let (fd, quoted) =
            (reader.as_raw_fd(), |word: &str| shlex::try_quote(word).map(Cow::into_owned));
        let file = format!("/dev/fd/{fd}");
        let mut start = Command::new(shell);
        start.args(arguments);
        let line = last.to_str().filter(|_| self.host == Some(Host::ClaudeCode));
        let line = line.and_then(|line| line.split_once(EVAL));
        let theirs = if let Some((before, after)) = line.filter(|line| line.0.contains(SNAPSHOT)) {
            start.arg(format!(
                "{before} && {{ \\builtin . {file} || true; }} 2>/dev/null{EVAL}{after}"
            ));
            String::new()
        } else {
            start.arg(last).env(BASH_ENV, &file);
            match env::var(BASH_ENV) {
                // Bash expands the value as it would between double quotes.
                Ok(theirs) => {
                    let name = theirs.replace('"', "\\\"");
                    let theirs = quoted(&theirs).map_err(io::Error::other)?;
                    format!("export BASH_ENV={theirs}\n[[ ! -r \"{name}\" ]] || . \"{name}\"\n")
                }
                Err(env::VarError::NotPresent) => "unset -v BASH_ENV\n".to_owned(),
                Err(error) => return Err(io::Error::other(error)),
            }
        };
        let words: Result<Vec<_>, _> = self.words.iter().map(|word| quoted(word)).collect();
        let words = words.map_err(io::Error::other)?.join(" ");
        let inode = fstat(stderr)?.st_ino;
        let text = FUNCTIONS.replacen("(ctxfs)", &format!("({words} --pipe={inode})"), 1);
        writer.write_all(format!("{theirs}__ctxfs_fd={fd}\n{text}").as_bytes())?;
        Ok((start, reader))
    }
}

// Up to this length, an input is stored only after the filter has ended.
const HELD: usize = 1 << 20;
// A longer output of a filter is not compared with the input.
const SHOWN: usize = 256 * 1024;
// An input of fewer characters is not stored.
const LEAST: u64 = 1000;
// Filters that do not fail by themselves.
const NEVER_FAILING: [&str; 3] = ["| tail", "| sed", "| awk"];
// The status of a filter that SIGPIPE ended.
const UNREAD: u8 = 141;

/// `ctxfs shell --pipe`: passes standard input to a filter, and the output of the filter to standard
/// output. The filter runs between two pipes, whose other ends are the file descriptors 3 and 4.
///
/// Ends with 141 if no process reads standard output, and otherwise with 0, also if nothing can be
/// stored. The line about errors is printed only if standard error is the pipe `inode`.
pub(crate) fn run(args: &ShellArgs, inode: u64, cli: &Cli, context: &Context) -> ExitCode {
    // A signal to the filter, as in `kill $!`, ends the shell that the filter runs in.
    let _refused = set_parent_process_death_signal(Some(Signal::KILL));
    if args.above.is_some_and(|above| getppid().map(Pid::as_raw_pid) != Some(above)) {
        return ExitCode::from(UNREAD);
    }
    let (from, to) = (inherited(3), inherited(4));
    let is_unread = Arc::new(AtomicBool::new(false));
    let unread = Arc::clone(&is_unread);
    let printing = thread::spawn(move || {
        let mut shown = Stream::default();
        let passed = pass(&from, stdout(), |bytes| {
            shown.add(bytes, SHOWN);
            true
        });
        unread.store(passed.is_err(), Relaxed);
        shown
    });
    let target = OnceCell::new();
    let begin = |held: &[u8]| {
        let open = || {
            let settings = Arc::new(context.quiet_settings(cli, Vec::new())?);
            TargetConversation::open(args.conversation.as_deref(), &settings, context)
        };
        let target = target.get_or_init(|| open().ok()).as_ref()?;
        let name = OutputName::Call(format!("{}-pipe", args.id.as_deref().unwrap_or_default()));
        let mut intake = target.intake(name, provenance(args)).ok()?.keeping_end();
        intake.write_all(held).ok()?;
        Some((target, intake))
    };
    let mut input = Stream::default();
    let mut kept: Option<(&TargetConversation, Intake<'_>)> = None;
    let passed = pass(stdin(), &to, |bytes| {
        input.add(bytes, HELD);
        match &mut kept {
            Some((_, intake)) => drop(intake.write_all(bytes)),
            None if input.held.len() >= HELD && input.is_whole() => kept = begin(&input.held),
            None => {}
        }
        !is_unread.load(Relaxed)
    });
    drop(to);
    let shown = printing.join().unwrap_or_default();
    let dropped = input.lines().saturating_sub(shown.lines());
    if is_unread.load(Relaxed) || passed.is_err() || dropped == 0 || input.length.chars < LEAST {
        if let Some((_, intake)) = kept {
            drop(intake.discard());
        }
        return if is_unread.load(Relaxed) { ExitCode::from(UNREAD) } else { ExitCode::SUCCESS };
    }
    let kept = kept.or_else(|| begin(&input.held).filter(|_| input.is_whole()));
    let Some((target, intake)) = kept else { return ExitCode::SUCCESS };
    let is_notice = shown.is_whole() && fstat(stderr()).is_ok_and(|stat| stat.st_ino == inode);
    let place = if args.command[0] == "tail" { "before these" } else { "not shown" };
    let notice = intake.seal().and_then(|output| {
        let shown = if is_notice { Some(&*shown.held) } else { None };
        shown.map_or(Ok(None), |shown| output.dropped_errors(&target.engine, shown, dropped, place))
    });
    target.engine.finish();
    if let Ok(Some(notice)) = notice {
        let newline = if shown.ends_in_line && !shown.held.is_empty() { "\n" } else { "" };
        // Fails if no process reads standard error.
        let _written = rustix::io::write(stderr(), format!("{newline}{notice}").as_bytes());
    }
    ExitCode::SUCCESS
}

/// Returns a line that names what filters of the command `id` have read, for a command that failed
/// and whose output does not say why. Returns `None` if nothing is stored. That `grep` fails because
/// no line matches needs no reason.
pub(crate) fn unexplained(target: &TargetConversation, id: &str) -> Option<String> {
    let (engine, conversation) = (&target.engine, target.conversation.id());
    let listing =
        engine.list_known_artifacts(conversation, |ListedArtifact { path, record, .. }| {
            let command = Title::of(&record.provenance)?.to_string();
            let is_input = record.provenance.call.as_deref() == Some(id)
                && record.incomplete().is_none()
                && NEVER_FAILING.iter().any(|filter| command.starts_with(filter));
            is_input.then(|| {
                format!("`{command}`: {}", engine.options.place(conversation, path).file())
            })
        });
    let inputs: Vec<String> = listing.ok()?.rows.into_iter().flatten().collect();
    let all = inputs.join("; ");
    (!inputs.is_empty())
        .then(|| format!("[ctxfs] nothing here says why it failed; all that came into {all}"))
}

fn provenance(args: &ShellArgs) -> Provenance {
    let words: Vec<_> = args.command.iter().map(|word| word.to_string_lossy()).collect();
    let command = shlex::try_join(words.iter().map(|word| &**word)).unwrap_or_default();
    let host = args.host.map_or("shell", Host::name).to_owned();
    Provenance {
        call: args.id.clone(),
        tool: Some("Bash".to_owned()),
        server: Some(host.clone()),
        host: Some(host),
        args: Some(serde_json::json!({ "command": format!("| {command}") }).to_string()),
        ..Provenance::default()
    }
}

/// The beginning of what passes through a pipe, and its length.
#[derive(Default)]
struct Stream {
    held: Vec<u8>,
    length: OutputLength,
    ends_in_line: bool,
}

impl Stream {
    // Holds `bytes` if fewer than `most` bytes are held.
    fn add(&mut self, bytes: &[u8], most: usize) {
        if self.is_whole() && self.held.len() < most {
            self.held.extend_from_slice(bytes);
        }
        self.length.add(bytes);
        self.ends_in_line = bytes.last() != Some(&b'\n');
    }

    fn is_whole(&self) -> bool {
        self.held.len() as u64 == self.length.bytes
    }

    fn lines(&self) -> u64 {
        self.length.newlines + u64::from(self.ends_in_line)
    }
}

/// Copies `from` to `to`, and gives each block to `seen`. Returns at the end, or when `seen` returns
/// false. Fails if no process reads from `to`.
fn pass(from: impl AsFd, to: impl AsFd, mut seen: impl FnMut(&[u8]) -> bool) -> io::Result<()> {
    let mut block = vec![0; child::BLOCK];
    loop {
        let count = when_ready(&from, PollFlags::IN, || rustix::io::read(&from, &mut block[..]))?;
        let (bytes, mut written) = (&block[..count], 0);
        while written < count {
            written +=
                when_ready(&to, PollFlags::OUT, || rustix::io::write(&to, &bytes[written..]))?;
        }
        if count == 0 || !seen(bytes) {
            return Ok(());
        }
    }
}

// Other processes may have made the pipe nonblocking.
fn when_ready(
    fd: impl AsFd,
    ready: PollFlags,
    mut attempt: impl FnMut() -> Result<usize, Errno>,
) -> io::Result<usize> {
    loop {
        match attempt() {
            Err(Errno::AGAIN) => drop(poll(&mut [PollFd::new(&fd, ready)], None)),
            Err(Errno::INTR) => {}
            done => return Ok(done?),
        }
    }
}

#[expect(unsafe_code, reason = "nothing else gives access to an inherited file descriptor")]
fn inherited(fd: RawFd) -> OwnedFd {
    // SAFETY: the function that starts this process opens the file descriptors 3 and 4, and nothing
    // else in this process uses them.
    unsafe { OwnedFd::from_raw_fd(fd) }
}
