//! `ctxfs hook`: answers an event of an agent host. The host waits for the answer, so the command
//! ends after at most [`DEADLINE`]. A failure is logged, and the exit status is always 0.

mod mounting;

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::{collections::BTreeMap, fmt, fs, sync::Arc, thread, time::Duration};

use crate::args::HookArgs;
use crate::hooks::{
    self, Action, Answer, HookError, Host, MAX_EVENT, Machine, OpenConversation, ReplacePolicy,
    Replaced, Shelf,
};
use crate::put::TargetConversation;
use crate::run::link_filters;
use crate::{Cli, Context, Environment, SettingKey, Settings, places};
use ctxfs_core::model::{Limits, LimitsByTool as _};
use ctxfs_store::{About, about};

// Shorter than the timeout of every host.
const DEADLINE: Duration = Duration::from_secs(10);

pub(crate) fn run(args: &HookArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    // A panic prints nothing, because hosts show standard error to the user.
    std::panic::set_hook(Box::new(|_| {}));
    let log = call_log_path(&context.environment);
    let Some(host) = Host::named(&args.host) else {
        let names: Vec<&str> = Host::ALL.iter().map(|host| host.name()).collect();
        let (name, names) = (&args.host, names.join(", "));
        context.printer.message(&format_args!("`{name}` is no host; the hosts are {names}"));
        return Ok(());
    };
    let (sender, receiver) = mpsc::channel();
    let answer = thread::scope(|scope| {
        let (shared, log) = (&*context, log.as_deref());
        let work = move || sender.send(answer(host, cli, shared)).ok();
        if thread::Builder::new().name("hook".to_owned()).spawn_scoped(scope, work).is_err() {
            return Err("no thread can be started".to_owned());
        }
        match receiver.recv_timeout(DEADLINE) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Disconnected) => Err("it panicked".to_owned()),
            Err(RecvTimeoutError::Timeout) => {
                let why = format!("it took more than {} s", DEADLINE.as_secs());
                add_call(log, host, &HookOutcome::Failed(why));
                #[expect(clippy::exit, reason = "the thread that works waits for something else")]
                std::process::exit(0);
            }
        }
    });
    let (text, outcome) = match answer {
        Ok(Answer { text, action }) => (text, HookOutcome::Done(action)),
        Err(why) => (None, HookOutcome::Failed(why)),
    };
    add_call(log.as_deref(), host, &outcome);
    text.map_or(Ok(()), |text| context.printer.data(&text))
}

fn answer(host: Host, cli: &Cli, context: &Context) -> Result<Answer, String> {
    let event = event().map_err(|error| format!("cannot read the event: {error}"))?;
    // Hosts show standard error to the user, so `ctxfs doctor` prints the notices instead.
    let settings = context.quiet_settings(cli, Vec::new()).map_err(|error| format!("{error:#}"))?;
    let shelf = HookShelf { settings: Arc::new(settings), cli, context };
    let machine = machine(&context.environment);
    hooks::answer(host, &event, &machine, &shelf).map_err(|error| error.to_string())
}

// Reads the event to its end, because some hosts fail otherwise.
fn event() -> io::Result<Vec<u8>> {
    let (mut input, mut event) = (io::stdin().lock(), Vec::new());
    input.by_ref().take(MAX_EVENT).read_to_end(&mut event)?;
    match io::copy(&mut input, &mut io::sink())? {
        0 => Ok(event),
        more => Err(io::Error::other(format!("it has {} bytes", MAX_EVENT + more))),
    }
}

fn machine(environment: &Environment) -> Machine {
    let places = &environment.hosts;
    Machine {
        uid: rustix::process::getuid().as_raw(),
        claude_code_tmp: places.claude_code_tmp.clone().unwrap_or_else(|| PathBuf::from("/tmp")),
        directory: std::env::current_dir().ok(),
        is_cursor: places.is_cursor,
    }
}

pub(crate) fn replace_policy(settings: &Settings, environment: &Environment) -> ReplacePolicy {
    let replaced = match settings.text(SettingKey::HooksReplace) {
        Some("long") => Replaced::Long,
        _ => Replaced::Cut,
    };
    ReplacePolicy {
        replaced,
        stores_long_only: settings.text(SettingKey::HooksStore) == Some("long"),
        has_shell: environment.hosts.has_shell_program(),
        bash_chars: environment.hosts.bash_chars,
    }
}

struct HookShelf<'a> {
    settings: Arc<Settings>,
    cli: &'a Cli,
    context: &'a Context,
}

impl Shelf for HookShelf<'_> {
    fn limits(&self, tool: &str) -> Limits {
        self.settings.limits(Some(tool))
    }

    fn policy(&self) -> ReplacePolicy {
        replace_policy(&self.settings, &self.context.environment)
    }

    fn begin_session(&self) -> Option<String> {
        let environment = &self.context.environment;
        if self.settings.is_on(SettingKey::HooksPipes) {
            // A command in a sandbox cannot make them.
            drop(link_filters(environment));
        }
        if !self.settings.is_on(SettingKey::HooksMount) {
            return None;
        }
        let why = mounting::ensure(self.cli, &self.settings, environment).err()?;
        let store = self.settings.store(environment).ok()?;
        let view = Settings::command_root(&store, environment);
        Some(format!(
            "[ctxfs] Long outputs are stored whole, but the store is not mounted: {why:#}. `{} PATH` \
             prints what a stand-in names.\n",
            view.path()
        ))
    }

    fn open(&self, id: &str) -> Result<OpenConversation, HookError> {
        let target = TargetConversation::open(Some(id), &self.settings, self.context);
        target.map(opened).map_err(|error| HookError::Store(format!("{error:#}")))
    }

    fn find(&self, id: &str) -> Result<Option<OpenConversation>, HookError> {
        let target = TargetConversation::find(id, &self.settings, self.context);
        let target = target.map_err(|error| HookError::Store(format!("{error:#}")))?;
        Ok(target.map(opened))
    }

    fn about(&self, id: &str) -> Option<About> {
        let store = self.settings.store(&self.context.environment).ok()?;
        about::of_id(&store, &places::conversation_id(id).ok()?)
    }
}

fn opened(target: TargetConversation) -> OpenConversation {
    let TargetConversation { engine, conversation } = target;
    OpenConversation { engine, conversation }
}

// Size in bytes at which the log is rotated, after about 20,000 calls.
const ROTATE_AT: u64 = 1 << 20;
const REASON: usize = 400;

/// The outcome of a call, as written to the log. After a failure the host keeps its own result.
enum HookOutcome {
    Done(Action),
    Failed(String),
}

/// Statistics of the calls of one host: the times of the first and the last call, the number of
/// calls by outcome, and the time and reason of the last failure.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct HostCalls {
    pub(crate) first: String,
    pub(crate) last: String,
    pub(crate) outcomes: BTreeMap<String, u64>,
    pub(crate) failure: Option<String>,
}

pub(crate) fn call_log_path(environment: &Environment) -> Option<PathBuf> {
    Some(places::state_dir(environment)?.join("hook.log"))
}

// Appends a call to the log. A call that cannot be logged is not counted.
fn add_call(log: Option<&Path>, host: Host, outcome: &HookOutcome) {
    if let Some(log) = log {
        append_line(log, &format!("{:.0} {host} {outcome}\n", jiff::Timestamp::now())).ok();
    }
}

fn append_line(log: &Path, line: &str) -> io::Result<()> {
    if let Some(dir) = log.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    if fs::metadata(log).is_ok_and(|found| found.len() > ROTATE_AT) {
        fs::rename(log, log.with_extension("log.old"))?;
    }
    let mut file = fs::OpenOptions::new().append(true).create(true).mode(0o600).open(log)?;
    file.write_all(line.as_bytes())
}

/// Counts the calls in `hook.log` and in the previous log. Each line is `<time> <host> <outcome>`.
/// Lines are appended, so that calls do not wait for each other.
pub(crate) fn count_calls(log: &Path) -> BTreeMap<String, HostCalls> {
    let mut hosts = BTreeMap::new();
    for path in [log.with_extension("log.old"), log.to_owned()] {
        let Ok(file) = fs::File::open(path) else { continue };
        for line in BufReader::new(file).lines().map_while(Result::ok) {
            count_line(&line, &mut hosts);
        }
    }
    hosts
}

// An incomplete line is ignored.
fn count_line(line: &str, hosts: &mut BTreeMap<String, HostCalls>) {
    let mut words = line.splitn(3, ' ');
    let (Some(time), Some(host), Some(outcome)) = (words.next(), words.next(), words.next()) else {
        return;
    };
    let (outcome, reason) = outcome.split_once(": ").unwrap_or((outcome, ""));
    let calls = hosts.entry(host.to_owned()).or_default();
    if calls.first.is_empty() {
        time.clone_into(&mut calls.first);
    }
    time.clone_into(&mut calls.last);
    *calls.outcomes.entry(outcome.to_owned()).or_default() += 1;
    if !reason.is_empty() {
        calls.failure = Some(format!("{time}: {reason}"));
    }
}

impl fmt::Display for HookOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done(action) => f.write_str(action_name(*action)),
            Self::Failed(why) => {
                let why: String = why.chars().take(REASON).collect();
                write!(f, "failed: {}", why.replace(char::is_control, " "))
            }
        }
    }
}

fn action_name(action: Action) -> &'static str {
    match action {
        Action::Passed => "passed",
        Action::Short => "short",
        Action::Own => "own",
        Action::Kept => "kept",
        Action::Stored => "stored",
        Action::Told => "told",
    }
}
