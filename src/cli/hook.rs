//! `ctxfs hook`: answers an event of an agent's host.
//!
//! The host waits for it, so it ends after [`DEADLINE`], and whatever fails is no reason to fail.

pub(crate) mod call_log;

use std::io::Read as _;
use std::path::PathBuf;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use std::{io, thread};

use crate::args::{Cli, HookArgs};
use crate::context::Context;
use crate::env::Environment;
use crate::hook::call_log::HookOutcome;
use crate::hooks;
use crate::hooks::{
    Answer, HookError, Host, MAX_EVENT, Machine, OpenConversation, ReplacePolicy, Replaced, Shelf,
};
use crate::put::TargetConversation;
use crate::settings::{Key, Settings};
use ctxfs_core::model::{Limits, LimitsByTool as _};

/// The longest time that a host waits, which is less than any of them has patience for.
const DEADLINE: Duration = Duration::from_secs(10);

pub(super) fn run(args: &HookArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    // What a host shows of standard error disturbs, also the word of a panic.
    std::panic::set_hook(Box::new(|_| {}));
    let log = call_log::path(&context.environment);
    let Some(host) = Host::named(&args.host) else {
        let names: Vec<&str> = Host::ALL.iter().map(|host| host.name()).collect();
        let (name, names) = (&args.host, names.join(", "));
        context.printer.say(&format_args!("`{name}` is no host; the hosts are {names}"));
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
                call_log::add(log, host, &HookOutcome::Failed(why));
                leave()
            }
        }
    });
    let (text, outcome) = match answer {
        Ok(Answer { text, action }) => (text, HookOutcome::Done(action)),
        Err(why) => (None, HookOutcome::Failed(why)),
    };
    call_log::add(log.as_deref(), host, &outcome);
    text.map_or(Ok(()), |text| context.printer.data(&text))
}

#[expect(clippy::exit, reason = "the thread that works waits for something else")]
fn leave() -> ! {
    std::process::exit(0)
}

fn answer(host: Host, cli: &Cli, context: &Context) -> Result<Answer, String> {
    let event = event().map_err(|error| format!("cannot read the event: {error}"))?;
    // What a host shows of standard error disturbs; `ctxfs doctor` tells it.
    let settings = context.quiet_settings(cli, Vec::new()).map_err(|error| format!("{error:#}"))?;
    let shelf = UserShelf { settings: Arc::new(settings), context };
    let machine = machine(&context.environment);
    hooks::answer(host, &event, &machine, &shelf).map_err(|error| error.to_string())
}

/// Reads the event to its end, as some hosts do not expect anything else.
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
        is_cursor: places.is_cursor,
    }
}

/// Returns the settings on which outputs are replaced in a host.
pub(crate) fn policy(settings: &Settings, environment: &Environment) -> ReplacePolicy {
    let replaced = match settings.text(Key::HooksReplace) {
        Some("long") => Replaced::Long,
        _ => Replaced::Cut,
    };
    ReplacePolicy { replaced, bash_chars: environment.hosts.bash_chars }
}

/// The settings and the store, as flags and environment name them.
struct UserShelf<'a> {
    settings: Arc<Settings>,
    context: &'a Context,
}

impl Shelf for UserShelf<'_> {
    fn limits(&self, tool: &str) -> Limits {
        self.settings.limits(Some(tool))
    }

    fn policy(&self) -> ReplacePolicy {
        policy(&self.settings, &self.context.environment)
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
}

fn opened(target: TargetConversation) -> OpenConversation {
    let TargetConversation { engine, conversation } = target;
    OpenConversation { engine, conversation }
}
