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

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::{env, io, io::Write as _};

use rustix::fs::{Access, FileType, access, fstat};
use rustix::process::{Pid, Resource, Signal, getppid, getrlimit, set_parent_process_death_signal};
use rustix::stdio::{stdin, stdout};
use rustix::thread::set_name;

use crate::run::child::{self, before_exec, ignored_signals};
use crate::run::filter::arguments::{FILTERS, reads_all};
use crate::run::filter::keeping::InputKeeper;
use crate::run::filter::links::identity;
use crate::run::filter::passing::FilterPipes;

pub(crate) use crate::run::filter::keeping::unexplained;
pub(crate) use crate::run::filter::links::{FilterLinks, link_filters};

const SIGPIPE: i32 = Signal::PIPE.as_raw();
const NOT_FOUND: u8 = 127;
// The definition of a function of the shell that is the filter.
const FUNCTION: &str = "CTXFS_FILTER_FUNCTION";

/// Runs the filter whose name this process has, if it has one, as that filter would run. Returns
/// its exit status. Ends by the signal that ends the filter.
pub(crate) fn run_by_name() -> Option<ExitCode> {
    let mut words = env::args_os();
    let name = PathBuf::from(words.next()?).file_name()?.to_str()?.to_owned();
    let name = FILTERS.into_iter().find(|filter| *filter == name)?;
    let arguments: Vec<OsString> = words.collect();
    let mut start = if let Some(function) = env::var_os(FUNCTION) {
        let mut start = Command::new("bash");
        let mut text = function;
        text.push(format!("\n{name} \"$@\""));
        start.arg("-c").arg(text).env_remove(FUNCTION).env_remove("BASH_ENV");
        start.arg(name);
        start
    } else if let Some(program) = program(name) {
        let mut start = Command::new(&program);
        start.arg0(name).env("_", &program);
        start
    } else {
        // The words of bash, whose search finds this program.
        let _told = writeln!(io::stderr(), "bash: line 1: {name}: command not found");
        return Some(NOT_FOUND.into());
    };
    start.args(&arguments);
    let parent = getppid().map_or(0, Pid::as_raw_pid);
    let ignores = ignored_signals(parent) >> (SIGPIPE - 1) & 1 == 1;
    // A filter that ignores SIGPIPE says itself that no process reads its output.
    let keeper = if ignores { None } else { keeper(name, &arguments) };
    if let Some(keeper) = keeper
        && let Ok(code) = run_between(&mut start, name, keeper)
    {
        return Some(code);
    }
    if ignores {
        before_exec(&mut start, || {
            #[expect(unsafe_code, reason = "nothing else sets a signal to be ignored there")]
            // SAFETY: `signal` may be called between fork and exec, and this sets no handler.
            unsafe {
                libc::signal(SIGPIPE, libc::SIG_IGN)
            };
            Ok(())
        });
    }
    let _told = writeln!(io::stderr(), "{name}: {}", start.exec());
    Some(NOT_FOUND.into())
}

// Finds the program that bash would run, which is another than this one.
fn program(name: &str) -> Option<PathBuf> {
    let own = fs::metadata("/proc/self/exe").ok().map(|own| identity(&own));
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).map(|dir| dir.join(name)).find(|file| {
        let found = fs::metadata(file).ok().filter(fs::Metadata::is_file);
        found.is_some_and(|found| {
            Some(identity(&found)) != own && access(file, Access::EXEC_OK).is_ok()
        })
    })
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
    let is_kept = is_pipe(stdin())
        && is_pipe(stdout())
        && reads_all(name, texts?.into_iter())
        && limits.into_iter().all(has_room);
    is_kept.then(links::shell_above)?.map(|shell| InputKeeper::new(shell, name, arguments))
}

// Fails if the filter cannot be started so. Nothing of the input has been read then.
fn run_between(start: &mut Command, name: &str, keeper: InputKeeper) -> io::Result<ExitCode> {
    let (pipes, input, output) = FilterPipes::new()?;
    before_exec(start, || {
        // A signal to this process ends the filter.
        let _refused = set_parent_process_death_signal(Some(Signal::KILL));
        Ok(())
    });
    let mut filter = start.stdin(input).stdout(output).spawn()?;
    // The ends of the filter belong to it alone.
    start.stdin(Stdio::null()).stdout(Stdio::null());
    let _named = set_name(&std::ffi::CString::new(name).unwrap_or_default());
    let keeper = pipes.pass(keeper)?;
    let status = filter.wait()?;
    let is_unread = keeper.has_lost_output && status.success();
    keeper.finish();
    if let Some(signal) = status.signal().or(is_unread.then_some(SIGPIPE)) {
        child::end_by(signal);
    }
    Ok(u8::try_from(child::code(status)).unwrap_or(u8::MAX).into())
}
