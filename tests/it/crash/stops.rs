//! Killing a program before a certain system call, by strace.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Child, Stdio};
use std::{fmt, fs};

use crate::support::{Command, Output, eventually, need};

/// The system calls that change a file, a name or metadata.
const CHANGING: &[&str] = &[
    "openat",
    "openat2",
    "write",
    "pwrite64",
    "pwritev2",
    "mkdirat",
    "renameat",
    "renameat2",
    "unlink",
    "unlinkat",
    "rmdir",
    "linkat",
    "fsetxattr",
    "fchmod",
    "utimensat",
    "ftruncate",
    "fsync",
    "fdatasync",
    "syncfs",
    "flock",
];

/// The system calls that change nothing which outlives the program. One that is stopped before any of
/// them leaves what it leaves when it is stopped before the next call.
const READING: &[&str] = &[
    "access",
    "brk",
    "clock_nanosleep",
    "close",
    "epoll_create1",
    "epoll_ctl",
    "epoll_wait",
    "eventfd2",
    "fcntl",
    "fgetxattr",
    "flistxattr",
    "fstat",
    "fstatfs",
    "futex",
    "getdents64",
    "geteuid",
    "getpid",
    "getrandom",
    "gettid",
    "lseek",
    "madvise",
    "mmap",
    "mprotect",
    "munmap",
    "newfstatat",
    "poll",
    "pread64",
    "preadv",
    "prlimit64",
    "read",
    "readlink",
    "readv",
    "rseq",
    "rt_sigaction",
    "rt_sigprocmask",
    "sched_getaffinity",
    "sched_yield",
    "set_robust_list",
    "sigaltstack",
    "statx",
];

/// One system call of a program: the `number`-th of this name, from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Call {
    name: String,
    number: usize,
    /// The call as strace prints it.
    line: String,
}

impl Call {
    /// Returns true if it may change the disk.
    pub(super) fn changes_something(&self) -> bool {
        !self.opens_what_exists() && CHANGING.contains(&self.name.as_str())
    }

    /// Returns true if nothing that outlives the program is another after it.
    pub(super) fn only_reads(&self) -> bool {
        self.opens_what_exists() || READING.contains(&self.name.as_str())
    }

    fn opens_what_exists(&self) -> bool {
        let creates = |flag| self.line.contains(flag);
        let changes = ["O_CREAT", "O_TRUNC", "O_TMPFILE"].into_iter().any(creates);
        self.name.starts_with("open") && !changes
    }

    /// Returns the options with which strace kills the program before this call.
    pub(super) fn options(&self) -> [String; 4] {
        let Self { name, number, .. } = self;
        let inject = format!("inject={name}:signal=KILL:when={number}");
        ["-e".to_owned(), format!("trace={name}"), "-e".to_owned(), inject]
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call {} of `{}`: {}", self.number, self.name, self.line)
    }
}

/// Returns the calls in a trace, from the first line that names `from` on.
pub(super) fn calls(trace: &Path, from: &str) -> Vec<Call> {
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let mut found = Vec::new();
    for (_, name, line) in lines(trace) {
        let number = numbers.entry(name.clone()).or_default();
        *number += 1;
        if !found.is_empty() || line.contains(from) {
            found.push(Call { name, number: *number, line });
        }
    }
    assert!(found.len() > 10, "{}", trace.display());
    found
}

/// Returns the calls in the trace of several threads. Their numbers are those of their threads, as
/// strace counts them.
pub(super) fn calls_by_thread(trace: &Path) -> Vec<Call> {
    let mut numbers: HashMap<(String, String), usize> = HashMap::new();
    let mut found = Vec::new();
    for (thread, name, line) in lines(trace) {
        let number = numbers.entry((thread, name.clone())).or_default();
        *number += 1;
        found.push(Call { name, number: *number, line });
    }
    assert!(found.len() > 10, "{}", trace.display());
    found
}

/// Returns one call of each number: those of other threads with the same number are met with it.
pub(super) fn each_once(calls: Vec<Call>) -> Vec<Call> {
    let mut seen = HashSet::new();
    calls.into_iter().filter(|call| seen.insert(call.options())).collect()
}

/// Returns the lines of a trace that are calls: the thread, which strace names with `-f`, the name
/// and the call.
fn lines(trace: &Path) -> Vec<(String, String, String)> {
    let text = String::from_utf8_lossy(&fs::read(trace).unwrap()).into_owned();
    let call = |line: &str| {
        let call = line.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
        let thread = line[..line.len() - call.len()].trim();
        let (name, _) = call.split_once('(')?;
        let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        // A wait that attaching interrupts goes on with this, which no program calls.
        let is_own = name != "restart_syscall";
        (is_name && is_own).then(|| (thread.to_owned(), name.to_owned(), call.to_owned()))
    };
    text.lines().filter_map(call).collect()
}

/// Returns the program with these arguments, under strace with these options.
pub(super) fn traced(options: &[String], trace: &Path, arguments: &[String]) -> Command {
    traced_program(env!("CARGO_BIN_EXE_ctxfs"), options, trace, arguments)
}

/// Does that with another program.
pub(super) fn traced_program(
    program: impl AsRef<OsStr>,
    options: &[String],
    trace: &Path,
    arguments: &[String],
) -> Command {
    need("strace", "strace");
    Command::new("strace")
        .without_settings()
        .args(["-f", "-qq", "-s", "200", "-o"])
        .arg(trace)
        .args(options)
        .arg(program)
        .args(arguments)
}

/// Starts an strace of one thread, which ends with it.
pub(super) fn attach(thread: u32, options: &[String], trace: &Path) -> Child {
    let place = Path::new("/proc").join(thread.to_string());
    attached(&["-p", &thread.to_string()], options, trace, || is_traced(&place))
}

/// Starts an strace of all threads of a process, which ends with it.
pub(super) fn attach_to_all(process: u32, options: &[String], trace: &Path) -> Child {
    let tasks = Path::new("/proc").join(process.to_string()).join("task");
    attached(&["-f", "-p", &process.to_string()], options, trace, || {
        fs::read_dir(&tasks).unwrap().all(|task| is_traced(&task.unwrap().path()))
    })
}

fn attached(
    whom: &[&str],
    options: &[String],
    trace: &Path,
    is_attached: impl FnMut() -> bool,
) -> Child {
    need("strace", "strace");
    let tracer = Command::new("strace")
        .args(["-qq", "-s", "200", "-o"])
        .arg(trace)
        .args(options)
        .args(whom)
        .with(|inner| {
            inner.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        })
        .spawn();
    eventually("strace is attached", is_attached);
    tracer
}

/// Returns true if a thread is traced, or was killed by the tracer already.
fn is_traced(task: &Path) -> bool {
    let status = fs::read_to_string(task.join("status"));
    status.is_ok_and(|status| !status.contains("TracerPid:\t0\n") || status.contains("State:\tZ"))
}

/// Returns true if strace has killed its program, in which case it ends in the same way.
pub(super) fn was_killed(output: &Output) -> bool {
    output.code == -9 || output.code == 137
}
