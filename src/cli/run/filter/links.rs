//! The names under which bash runs this program in place of filters.

use std::borrow::Cow;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf, absolute};

use rustix::fs::{Access, MemfdFlags, OFlags, access, fcntl_setfl, fstat, memfd_create};
use rustix::io::{FdFlags, fcntl_setfd};

use crate::hooks::Host;
use crate::put::TargetConversation;
use crate::run::child::{self, CommandStart};
use crate::run::filter::arguments::FILTERS;
use crate::{Cli, Environment, places};

const BASH_ENV: &str = "BASH_ENV";
// A command of Claude Code sources a snapshot, and then evaluates the command of the model.
const SNAPSHOT: &str = "/shell-snapshots/";
const EVAL: &str = " && eval ";
const FUNCTIONS: &str = include_str!("snapshot.bash");
// A file in memory with the words for filters, by which they also know the process.
const MEMORY: &str = "ctxfs-shell";
// Options of bash with which it reads `BASH_ENV`, and traces nothing.
const OPTIONS: &str = "abefhkmntuBCEHPT";
// Processes that are searched for the shell above a filter.
const GENERATIONS: usize = 64;

/// Links to this program with the names of filters, in the user's state directory, and what the
/// program needs to know under such a name. Bash keeps the links in its table of paths, which is in
/// the place of a search in `PATH`: shells and programs below have another table, and functions and
/// aliases come first.
pub(crate) struct FilterLinks {
    host: Option<Host>,
    dir: PathBuf,
    // The filters that are installed.
    names: Vec<&'static str>,
    words: Vec<String>,
}

/// The words of a `ctxfs shell` that has started the shell of a filter: a command line that names
/// where inputs are stored, and the inode of the command's standard error. Nothing is said
/// elsewhere.
pub(crate) struct ShellAbove {
    pub(crate) words: Vec<OsString>,
    pub(crate) inode: u64,
}

impl FilterLinks {
    /// Returns the links for a command whose inputs are stored in `target`, under names that begin
    /// with `id`. Returns `None` if links are missing and cannot be made.
    pub(crate) fn new(
        host: Option<Host>,
        id: &str,
        target: &TargetConversation,
        cli: &Cli,
        environment: &Environment,
    ) -> Option<Self> {
        let dir = link_filters(environment).ok()?;
        let is_there = |name: &&str| {
            let mut files = environment.search.iter().map(|dir| dir.join(name));
            files.any(|file| is_program(&file))
        };
        let names = FILTERS.into_iter().filter(is_there).collect();
        let path = |path| absolute(path).unwrap_or_default().to_string_lossy().into_owned();
        let words = [
            Some("ctxfs".to_owned()),
            Some("shell".to_owned()),
            Some(format!("--store={}", path(target.engine.store().root()))),
            cli.config.as_deref().map(|config| format!("--config={}", path(config))),
            Some(format!("--conversation={}", target.conversation.id().to_text())),
            Some(format!("--id={id}")),
            host.map(|host| format!("--host={host}")),
        ];
        Some(Self { host, dir, names, words: words.into_iter().flatten().collect() })
    }

    /// Returns the start of `command` with the links. `stderr` is the standard error of the shell.
    /// Fails if no bash runs the command, or none that reads `BASH_ENV` and says nothing of it.
    pub(crate) fn start(
        &self,
        command: &[OsString],
        stderr: impl AsFd,
    ) -> io::Result<CommandStart> {
        let [before @ .., last] = command else { return Err(io::ErrorKind::InvalidInput.into()) };
        let [shell, options @ ..] = before else { return Err(io::ErrorKind::InvalidInput.into()) };
        let is_bash = Path::new(shell).file_name() == Some(OsStr::new("bash"));
        if !is_bash || !reads_variable(options) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let (reader, mut writer) = io::pipe()?;
        fcntl_setfd(&reader, FdFlags::empty())?;
        // Fails rather than waits if the kernel gives this user only small pipes.
        fcntl_setfl(&writer, OFlags::NONBLOCK)?;
        let (fd, quoted) =
            (reader.as_raw_fd(), |word: &str| shlex::try_quote(word).map(Cow::into_owned));
        let file = format!("/dev/fd/{fd}");
        let mut start = child::start_of(before);
        let line = last.to_str().filter(|_| self.host == Some(Host::ClaudeCode));
        let line = line.and_then(|line| line.split_once(EVAL));
        let theirs = if let Some((before, after)) = line.filter(|line| line.0.contains(SNAPSHOT)) {
            start.arg(format!(
                "{before} && {{ \\builtin . {file} || true; }} 2>/dev/null{EVAL}{after}"
            ));
            let dir = quoted(&self.dir.to_string_lossy()).map_err(io::Error::other)?;
            format!("printf -v __ctxfs_dir %q {dir}\n{FUNCTIONS}")
        } else {
            start.arg(last).env(BASH_ENV, &file);
            match env::var(BASH_ENV) {
                // Bash expands the value as it would between double quotes.
                Ok(theirs) => {
                    let name = theirs.replace('"', "\\\"");
                    let theirs = quoted(&theirs).map_err(io::Error::other)?;
                    format!("export BASH_ENV={theirs}; [[ ! -r \"{name}\" ]] || . \"{name}\"\n")
                }
                Err(env::VarError::NotPresent) => "unset -v BASH_ENV\n".to_owned(),
                Err(error) => return Err(io::Error::other(error)),
            }
        };
        let mut text = "{\n".to_owned();
        for name in &self.names {
            let path = self.dir.join(name);
            let path = quoted(&path.to_string_lossy()).map_err(io::Error::other)?;
            let _infallible = writeln!(text, "builtin hash -p {path} {name}");
        }
        // Without the program, bash searches again.
        let _infallible =
            write!(text, "builtin shopt -s checkhash\n}} 2>/dev/null\nexec {fd}<&-\n{theirs}");
        writer.write_all(text.as_bytes())?;
        let mut memory = File::from(memfd_create(MEMORY, MemfdFlags::CLOEXEC)?);
        let inode = fstat(stderr)?.st_ino.to_string();
        let words = [&inode].into_iter().chain(&self.words);
        let words: Vec<&str> = words.map(String::as_str).collect();
        memory.write_all(words.join("\0").as_bytes())?;
        Ok(CommandStart { command: start, read_first: Some(reader), memory: Some(memory) })
    }
}

/// Creates links that are missing or lead to another program, one for each filter, in a directory of
/// the user's state. Returns the directory.
pub(crate) fn link_filters(environment: &Environment) -> io::Result<PathBuf> {
    let dir = places::state_dir(environment).ok_or(io::ErrorKind::NotFound)?.join("filters");
    let program = env::current_exe()?;
    for name in FILTERS {
        let link = dir.join(name);
        if fs::read_link(&link).ok().as_ref() != Some(&program) {
            fs::create_dir_all(&dir)?;
            let fresh = dir.join(format!(".{name}-{}", std::process::id()));
            std::os::unix::fs::symlink(&program, &fresh)?;
            fs::rename(&fresh, &link)?;
        }
    }
    Ok(dir)
}

// Returns true for the options before a command with which bash reads `BASH_ENV`.
fn reads_variable(options: &[OsString]) -> bool {
    let set = |name| env::var(name).unwrap_or_default();
    let is_other = env::var_os("POSIXLY_CORRECT").is_some()
        || ["posix", "privileged", "xtrace", "verbose"]
            .iter()
            .any(|option| set("SHELLOPTS").contains(option));
    let Some((Some(letters), before)) =
        options.split_last().map(|(last, before)| (last.to_str(), before))
    else {
        return false;
    };
    let is_command = letters
        .strip_prefix('-')
        .and_then(|letters| letters.strip_suffix('c'))
        .is_some_and(|letters| letters.chars().all(|letter| OPTIONS.contains(letter)));
    let is_plain = before.is_empty() || before == ["--noprofile", "-l"];
    is_command && is_plain && !is_other
}

/// Returns the words of the nearest `ctxfs shell` above this process.
pub(crate) fn shell_above() -> Option<ShellAbove> {
    let own = identity(&fs::metadata("/proc/self/exe").ok()?);
    let mut pid = rustix::process::getppid()?.as_raw_pid();
    for _ in 0..GENERATIONS {
        let process = PathBuf::from(format!("/proc/{pid}"));
        if fs::metadata(process.join("exe")).is_ok_and(|exe| identity(&exe) == own)
            && let Some(shell) = words_of(&process)
        {
            return Some(shell);
        }
        let status = fs::read_to_string(process.join("status")).ok()?;
        let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
        pid = parent.trim().parse().ok().filter(|parent| *parent > 0)?;
    }
    None
}

/// Returns true for a file that a shell finds as a program.
pub(crate) fn is_program(file: &Path) -> bool {
    file.is_file() && access(file, Access::EXEC_OK).is_ok()
}

/// Returns what tells a file from all others.
pub(crate) fn identity(file: &fs::Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

fn words_of(process: &Path) -> Option<ShellAbove> {
    let name = format!("/memfd:{MEMORY} (deleted)");
    let mut fds = fs::read_dir(process.join("fd")).ok()?.flatten().map(|entry| entry.path());
    let memory = fds.find(|fd| fs::read_link(fd).is_ok_and(|target| target == Path::new(&name)))?;
    let text = fs::read(memory).ok()?;
    let mut words = text.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec()));
    let inode = words.next()?.to_str()?.parse().ok()?;
    Some(ShellAbove { words: words.collect(), inode })
}
