//! Filters in the shell of an agent, such as `tail` in `cargo test | tail -20`. The input of a filter
//! is stored if the filter drops lines of it, and a line on standard error tells the model of errors
//! that it has not seen.
//!
//! `ctxfs shell` has bash start this program in place of a filter ([`FilterLinks`]), under the name
//! of the filter ([`run_by_name`]). It then runs the filter as its child between two pipes, or
//! becomes the filter, where nothing is to be stored.

mod arguments;
mod keeping;
mod links;
mod passing;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{self, Command, ExitCode};
use std::{env, io, io::Read as _, io::Write as _};

use rustix::fs::{FileType, OFlags, fcntl_setfl, fstat};
use rustix::param::linux_execfn;
use rustix::process::{Resource, getrlimit};
use rustix::stdio::{stdin, stdout};
use rustix::thread::set_name;

use crate::run::child;
use crate::run::filter::arguments::{FILTERS, reads_all};
use crate::run::filter::keeping::InputKeeper;
use crate::run::filter::links::{identity, is_program};
use crate::run::filter::passing::FilterPipes;
use crate::system;

pub(crate) use crate::run::filter::keeping::unexplained;
pub(crate) use crate::run::filter::links::{FilterLinks, link_filters};

const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;
// The definition of a function of the shell that is the filter.
const FUNCTION: &str = "CTXFS_FILTER_FUNCTION";
// The search of a process without a `PATH`.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
// Bash looks at so many bytes of a program that the kernel does not run.
const SAMPLE: u64 = 80;

/// A filter, in whose place bash has started this process by a link.
struct Filter {
    name: &'static str,
    link: &'static Path,
    program: PathBuf,
    function: Option<OsString>,
    arguments: Vec<OsString>,
}

/// Runs the filter by whose link this process was started, if it was, as that filter would run.
/// Returns its exit status. Ends by the signal that ends the filter.
pub(crate) fn run_by_name() -> Option<ExitCode> {
    // A command can set the first argument to anything.
    let link = Path::new(OsStr::from_bytes(linux_execfn().to_bytes()));
    let name = FILTERS.into_iter().find(|name| link.file_name() == Some(OsStr::new(name)))?;
    let function = env::var_os(FUNCTION);
    let program = if function.is_some() { Some("bash".into()) } else { program(name) };
    let Some(program) = program else {
        // The words of bash, whose search finds this program.
        let _told = writeln!(io::stderr(), "bash: line 1: {name}: command not found");
        return Some(NOT_FOUND.into());
    };
    let arguments = env::args_os().skip(1).collect();
    let filter = Filter { name, link, program, function, arguments };
    if let Some(keeper) = keeper(name, &filter.arguments)
        && let Ok((child, pipes)) = start_between(filter.start())
    {
        return Some(run_between(name, child, pipes, keeper));
    }
    // Bash says why a program cannot run.
    let _failed = child::replace_us_by(filter.start());
    let error = child::replace_us_by(filter.start_by(&["-c", "\"$@\"", "bash"]));
    let _told = writeln!(io::stderr(), "bash: line 1: {}: {error}", filter.program.display());
    Some(NOT_EXECUTABLE.into())
}

impl Filter {
    // Returns the start of the filter as bash would start it.
    fn start(&self) -> Command {
        let mut start = if let Some(function) = &self.function {
            let mut text = function.clone();
            text.push(format!("\n{} \"$@\"", self.name));
            let words = [self.program.clone().into(), "-c".into(), text, self.name.into()];
            let mut start = child::start_of(&[&words, &*self.arguments].concat());
            start.env_remove(FUNCTION).env_remove("BASH_ENV");
            start
        } else if is_script(&self.program) {
            self.start_by(&[])
        } else {
            let words = [self.program.clone().into()];
            let mut start = child::start_of(&[&words, &*self.arguments].concat());
            if let Some(first) = env::args_os().next().filter(|first| first != self.link) {
                start.arg0(first);
            }
            start
        };
        if env::var_os("_").is_some_and(|path| path == self.link) {
            start.env("_", &self.program);
        }
        start
    }

    // Returns the start of a bash that gets the program and its arguments after `words`.
    fn start_by(&self, words: &[&str]) -> Command {
        let words = [&["bash"], words].concat().into_iter().map(OsString::from);
        let words = words.chain([self.program.clone().into()]);
        child::start_of(&words.chain(self.arguments.iter().cloned()).collect::<Vec<_>>())
    }
}

// Finds the program that bash would run, which is another than this one.
fn program(name: &str) -> Option<PathBuf> {
    let own = fs::metadata("/proc/self/exe").ok().map(|own| identity(&own));
    let path = env::var_os("PATH").unwrap_or(PATH.into());
    env::split_paths(&path).map(|dir| dir.join(name)).find(|file| {
        is_program(file) && fs::metadata(file).ok().map(|found| identity(&found)) != own
    })
}

// Returns true for a program without a form, which bash runs as a script of its own.
fn is_script(program: &Path) -> bool {
    let mut sample = Vec::new();
    let read = File::open(program).and_then(|file| file.take(SAMPLE).read_to_end(&mut sample));
    let is_text = |line: &[u8]| !line.starts_with(b"#!") && !line.contains(&0);
    read.is_ok() && sample.split(|byte| *byte == b'\n').next().is_some_and(is_text)
}

// Returns what stores the input, if it all passes through a pipe, and below a `ctxfs shell`.
fn keeper(name: &'static str, arguments: &[OsString]) -> Option<InputKeeper> {
    let is_pipe =
        |fd| fstat(fd).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo);
    let texts: Option<Vec<&str>> = arguments.iter().map(|argument| argument.to_str()).collect();
    let has_room = |(limit, least)| getrlimit(limit).current.is_none_or(|most| most >= least);
    // Memory and time of this process are more than those of the filter.
    let limits = [
        (Resource::Nofile, 32),
        (Resource::Stack, 1 << 20),
        (Resource::As, u64::MAX),
        (Resource::Data, u64::MAX),
        (Resource::Cpu, u64::MAX),
    ];
    // A filter that ignores SIGPIPE says itself that no process reads its output, and a child of
    // this process cannot be waited for if SIGCHLD is ignored.
    let is_usual = !system::began_without_sigpipe()
        && !system::is_ignored(libc::SIGCHLD)
        && system::closed_at_start().next().is_none();
    let is_kept = is_usual
        && is_pipe(stdin())
        && is_pipe(stdout())
        && reads_all(name, texts?.into_iter())
        && limits.into_iter().all(has_room);
    is_kept.then(links::shell_above)?.map(|shell| InputKeeper::new(shell, name, arguments))
}

// Starts a filter between pipes. Standard input and output are as they were if that fails.
fn start_between(mut start: Command) -> io::Result<(process::Child, FilterPipes)> {
    let ((input, to), (from, output)) = (io::pipe()?, io::pipe()?);
    fcntl_setfl(&to, OFlags::NONBLOCK)?;
    // A signal to this process ends the filter.
    child::kill_with_us(&mut start);
    let filter = start.stdin(input).stdout(output).spawn()?;
    // With `start`, the ends of the filter are closed here.
    Ok((filter, FilterPipes::new(to, from)))
}

fn run_between(
    name: &str,
    mut filter: process::Child,
    pipes: FilterPipes,
    mut keeper: InputKeeper,
) -> ExitCode {
    let _named = set_name(&std::ffi::CString::new(name).unwrap_or_default());
    pipes.pass(&mut keeper);
    // Fails only if SIGCHLD is ignored.
    let status = filter.wait().unwrap_or_default();
    let is_unread = keeper.has_lost_output && status.success();
    keeper.finish();
    if let Some(signal) = status.signal().or(is_unread.then_some(libc::SIGPIPE)) {
        child::end_by(signal);
    }
    u8::try_from(child::code(status)).unwrap_or(u8::MAX).into()
}
