//! Programs with a deadline: a hung mount fails a test instead of hanging the run.

use std::ffi::OsStr;
use std::io::{Read, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use std::{env, fmt, process, thread};

use parking_lot::RwLock;
use rustix::process::{Pid, Signal};

use crate::support::TestStore;

/// The time that a program gets unless a test says otherwise. It ends hung programs; a busy machine
/// does not reach it.
const LIMIT: Duration = Duration::from_mins(3);

/// One run of a program, in a process group of its own.
pub(crate) struct Command {
    inner: process::Command,
    input: Vec<u8>,
    limit: Duration,
}

/// The output and exit code of a program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Output {
    /// The exit code, or minus the signal that ended it.
    pub(crate) code: i32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

impl Command {
    pub(crate) fn new(program: impl AsRef<OsStr>) -> Self {
        Self { inner: process::Command::new(program), input: Vec::new(), limit: LIMIT }
    }

    /// Returns the program under test.
    pub(crate) fn ctxfs() -> Self {
        Self::new(env!("CARGO_BIN_EXE_ctxfs")).without_settings()
    }

    /// Removes the settings of the user who runs the tests. Nothing removes the administrator's.
    pub(crate) fn without_settings(mut self) -> Self {
        assert!(!Path::new("/etc/ctxfs.toml").exists(), "run the tests without /etc/ctxfs.toml");
        let settings = [&b"CTXFS_"[..], b"TOOL_OUTPUT_"];
        for (name, _) in env::vars_os() {
            if settings.iter().any(|prefix| name.as_encoded_bytes().starts_with(prefix)) {
                self.inner.env_remove(name);
            }
        }
        // Nothing can be made below a file, unlike below a directory that is not there yet.
        self.env("XDG_CONFIG_HOME", "/dev/null")
    }

    /// Reads the settings of the user of a store, if there are any.
    pub(crate) fn with_settings_of(self, store: &TestStore) -> Self {
        let file = store.user_file();
        if file.exists() { self.env("CTXFS_CONFIG", file) } else { self }
    }

    /// Returns a shell script, with `arguments` as `$1` and so on.
    pub(crate) fn shell(script: &str, arguments: &[&Path]) -> Self {
        Self::with_signals("sh").args(["-euc", script, "sh"]).args(arguments)
    }

    pub(crate) fn python(script: &str, arguments: &[&Path]) -> Self {
        need("python3", "python3");
        Self::with_signals("python3").args(["-c", script]).args(arguments)
    }

    /// Returns a program that ignores no signal, also where the tests do: they run in the
    /// background, or below `nohup`.
    fn with_signals(program: &str) -> Self {
        Self::new("env").args(["--default-signal", program])
    }

    pub(crate) fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.inner.arg(argument);
        self
    }

    pub(crate) fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.inner.args(arguments);
        self
    }

    /// Has another program run it, which gets it as its last arguments.
    pub(crate) fn below(self, program: &str, arguments: &[&str]) -> Self {
        let mut inner = process::Command::new(program);
        inner.args(arguments).arg(self.inner.get_program()).args(self.inner.get_args());
        for (name, value) in self.inner.get_envs() {
            match value {
                Some(value) => inner.env(name, value),
                None => inner.env_remove(name),
            };
        }
        Self { inner, ..self }
    }

    pub(crate) fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.inner.env(name, value);
        self
    }

    pub(crate) fn current_dir(mut self, dir: &Path) -> Self {
        self.inner.current_dir(dir);
        self
    }

    pub(crate) fn stdin(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = input.into();
        self
    }

    pub(crate) fn limit(mut self, seconds: u64) -> Self {
        self.limit = Duration::from_secs(seconds);
        self
    }

    /// Runs it to the end. Panics at the deadline.
    pub(crate) fn run(self) -> Output {
        let told = format!("{self:?}");
        let limit = self.limit;
        self.finish().unwrap_or_else(|| panic!("{told}: not done after {limit:?}"))
    }

    /// Runs it to the end. At the deadline kills the whole group and returns `None`.
    pub(crate) fn finish(mut self) -> Option<Output> {
        self.inner.process_group(0);
        self.inner.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.start();
        let mut pipe = child.stdin.take().unwrap();
        let input = std::mem::take(&mut self.input);
        // A program may leave its input unread.
        thread::spawn(move || pipe.write_all(&input).ok());
        let stdout = drain(child.stdout.take().unwrap());
        let stderr = drain(child.stderr.take().unwrap());
        let deadline = Instant::now() + self.limit;
        let read = |pipe: &mpsc::Receiver<Vec<u8>>| {
            pipe.recv_timeout(deadline.saturating_duration_since(Instant::now())).ok()
        };
        let (Some(stdout), Some(stderr), Some(status)) =
            (read(&stdout), read(&stderr), wait(&mut child, deadline))
        else {
            rustix::process::kill_process_group(Pid::from_child(&child), Signal::KILL).ok();
            return None;
        };
        let code = status.code().unwrap_or_else(|| -status.signal().unwrap());
        Some(Output { code, stdout, stderr })
    }

    /// Runs it, and returns its standard output. Panics unless it succeeds.
    pub(crate) fn stdout(self) -> Vec<u8> {
        let told = format!("{self:?}");
        let output = self.run();
        assert!(output.code == 0, "{told}: {output}");
        output.stdout
    }

    /// As [`Self::stdout`], as text.
    pub(crate) fn text(self) -> String {
        String::from_utf8_lossy(&self.stdout()).into_owned()
    }

    /// Starts it. The caller has to end it.
    pub(crate) fn spawn(mut self) -> process::Child {
        self.inner.process_group(0);
        self.start()
    }

    fn start(&mut self) -> process::Child {
        let started = {
            let _alone = STARTS.write();
            self.inner.spawn()
        };
        started.unwrap_or_else(|error| panic!("{self:?}: {error}"))
    }

    /// Changes the inner command, for options that only one test needs.
    pub(crate) fn with(mut self, set: impl FnOnce(&mut process::Command)) -> Self {
        set(&mut self.inner);
        self
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.inner)
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |bytes: &[u8]| {
            String::from_utf8_lossy(&bytes[..bytes.len().min(2000)]).trim_end().to_owned()
        };
        write!(f, "code {}\n{}\n{}", self.code, shown(&self.stdout), shown(&self.stderr))
    }
}

/// Held while a program is started: until it runs, it has the descriptors of all threads.
static STARTS: RwLock<()> = RwLock::new(());

/// Does `work` while no program is started. What that closes has no other descriptor.
pub(crate) fn while_none_starts<T>(work: impl FnOnce() -> T) -> T {
    let _none = STARTS.read();
    work()
}

/// Panics unless `program` is on the PATH. `package` is its package in Debian.
pub(crate) fn need(program: &str, package: &str) {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).any(|folder| folder.join(program).is_file());
    assert!(found, "`{program}` is missing: apt-get install {package}");
}

fn drain(mut pipe: impl Read + Send + 'static) -> mpsc::Receiver<Vec<u8>> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).ok();
        send.send(bytes)
    });
    receive
}

fn wait(child: &mut process::Child, deadline: Instant) -> Option<process::ExitStatus> {
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        thread::sleep(Duration::from_millis(1));
    }
    None
}
