//! `ctxfs run`: runs a command, and stores its output in a log while the command runs.
//!
//! A single thread does everything: `EventLoop` waits for output, input and signals at the same
//! time. If background processes still write to the output when the command has ended, a helper
//! process continues the logs ([`keep_output`]).

mod child;
mod filter;
mod live;
mod output;

use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitCode, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::time::Instant;
use std::{env, ffi::OsString, fs::File, path::Path, thread};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::FileType;

use crate::args::{PutFormat, RunArgs, ShellArgs, ShellHost};
use crate::helper::{KeptOutput, Role};
use crate::output::{Printer, is_closed, refused};
use crate::put::{self, PrintOptions, PutOutput, STORE_PATIENCE, TargetConversation};
use crate::run::child::{
    CaughtSignals, Child, CommandEnd, CommandStart, EventLoop, SpawnError, UserTerminal,
};
use crate::run::filter::FilterLinks;
use crate::run::live::LiveBeginning;
use crate::run::output::{
    ClosedOutput, CommandLogs, CommandOutput, Destination, HandedLogs, HeldOutput, HostRule,
    OpenOutput, OutputRule, OutputStream,
};
use crate::{Cli, Context, SettingKey, hook, page_link, system};
use ctxfs_core::model::{Limits, Owner, Provenance};
use ctxfs_engine::{Replace, StoredOutput};
use ctxfs_store::running_process;

pub(crate) use crate::run::filter::{link_filters, run_by_name};

pub(crate) fn run(args: &RunArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<ExitCode> {
    let code = child::code(run_command(args, cli, context)?);
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}

/// `ctxfs shell`: outputs of commands that the same process starts have the same conversation. A
/// signal that ends the command ends this process as well.
pub(crate) fn shell(
    args: &ShellArgs,
    cli: &Cli,
    context: &mut Context,
) -> anyhow::Result<ExitCode> {
    let host = || {
        let parent = rustix::process::getppid()?.as_raw_pid();
        let Owner { pid, started } = running_process(parent.cast_unsigned())?;
        Some(format!("shell-{pid}-{started}"))
    };
    let given = args.conversation.clone().filter(|given| !given.is_empty());
    let args = args.as_run(given.or_else(host));
    // Nobody reads a stand-in in `/dev/null`, which is also in place of descriptors that are closed,
    // and it would take the place of standard error, too.
    let is_device = rustix::fs::fstat(rustix::stdio::stdout())
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice);
    let is_closed = system::closed_at_start().next().is_some();
    if is_device || is_closed || io::stderr().is_terminal() {
        return Ok(BareCommand::of(&args).run(&"", &mut context.printer).into());
    }
    let status = run_command(&args, cli, context)?;
    if let Some(signal) = status.signal() {
        child::end_by(signal);
    }
    Ok(ExitCode::from(u8::try_from(child::code(status)).unwrap_or(u8::MAX)))
}

fn run_command(args: &RunArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<ExitStatus> {
    let id = args.id.clone().unwrap_or_else(put::new_call);
    let preparation = Preparation::begin(args);
    let prepared = prepare(args, cli, context);
    let prepared =
        prepared.as_ref().map_err(ToString::to_string).and_then(|(target, host, pipes)| {
            let logs = CommandLogs::create(target, &id, args.split, &provenance(args, &id));
            Ok((target, *host, *pipes, logs.map_err(|error| error.to_string())?))
        });
    preparation.end();
    let (target, host, pipes, logs) = match prepared {
        Ok(prepared) => prepared,
        Err(why) => {
            let code = BareCommand::of(args).run(&why, &mut context.printer);
            return Ok(child::exit_status(code));
        }
    };
    let seen = io::stdout().is_terminal();
    let limits = target.engine.options.limits.limits(provenance(args, &id).tool_name().as_deref());
    let rule = OutputRule { host, limits: limits.clone(), discards_short: args.discard_short };
    let is_apart = args.shell.is_some() && has_two_outputs();
    let destination = if seen {
        Destination::Terminal
    } else {
        let is_passed = args.format == PutFormat::Summary && !args.always;
        let beginning = LiveBeginning::new(&target.engine, is_passed);
        Destination::Pipe { beginning, is_apart }
    };
    let mut output = CommandOutput::new(logs, rule, destination);
    let started = Instant::now();
    let links = args
        .shell
        .filter(|_| pipes)
        .and_then(|ShellHost(host)| FilterLinks::new(host, &id, target, cli, &context.environment));
    let CommandEnd { status, left } = match execute(args, is_apart, links.as_ref(), &mut output)? {
        Ok(ended) => ended,
        Err(error) => {
            let code = BareCommand::of(args).run(&error, &mut context.printer);
            return Ok(child::exit_status(code));
        }
    };
    let code = child::code(status);
    let newer = Provenance {
        exit_code: Some(code),
        duration_ms: u64::try_from(started.elapsed().as_millis()).ok(),
        ..Provenance::default()
    };
    let mut closed = output.close(&newer, left, |left, HandedLogs { names, cut, is_discarded }| {
        let output = KeptOutput {
            conversation: target.conversation.id().to_text(),
            exit_code: code,
            duration_ms: newer.duration_ms.unwrap_or_default(),
            cut,
            discard: is_discarded,
            logs: names,
        };
        hand_over(left, output, target.engine.store().root(), cli)
    });
    if matches!(closed.stored, Ok(Some(_))) {
        target.note_about(host.and_then(|rule| rule.host));
    }
    let replace = replace(args, host, &closed, &limits, code);
    let is_unexplained = links.is_some() && (1..128).contains(&code) && !closed.held.names_error();
    let above = &*std::mem::take(&mut closed.passed);
    let options = PrintOptions { format: args.format, replace, tools: &args.has_tool, seen, above };
    // The exit status is that of the command, even if the stand-in cannot be printed.
    if let Err(error) = print(closed, target, &limits, &options, context)
        && !is_closed(&error)
    {
        context.printer.failure(&error.into());
    }
    if let Some(line) = is_unexplained.then(|| filter::unexplained(target, &id)).flatten() {
        context.printer.message(&line);
    }
    Ok(status)
}

// Returns true if the host reads standard error apart from standard output.
fn has_two_outputs() -> bool {
    let file = |fd| rustix::fs::fstat(fd).map(|stat| (stat.st_dev, stat.st_ino));
    file(rustix::stdio::stdout()) != file(rustix::stdio::stderr())
}

fn replace(
    args: &RunArgs,
    host: Option<HostRule>,
    closed: &ClosedOutput,
    limits: &Limits,
    code: i32,
) -> Replace {
    match (host, &closed.stored) {
        _ if args.always => Replace::Always,
        _ if closed.is_whole => Replace::Never,
        // If the log cannot be read, creating the stand-in fails as well, and the held output is
        // printed instead.
        (Some(host), Ok(Some(output))) => {
            host.replace(output.content(), limits, code).unwrap_or(Replace::OverLimits)
        }
        _ => Replace::OverLimits,
    }
}

// Prints the output if all of it is to be shown and is held, and otherwise the stored output in the
// form of `options`. The held output is printed in its place if it contains more of the output than
// the logs, if a background process still writes to a short output, or if printing the stored output
// fails. Formats for programs always describe the stored output.
fn print(
    closed: ClosedOutput,
    target: &TargetConversation,
    limits: &Limits,
    options: &PrintOptions<'_>,
    context: &mut Context,
) -> anyhow::Result<()> {
    let ClosedOutput { is_whole, stored, held, mut why, is_written, passed: _ } = closed;
    if is_whole && held.is_whole() {
        return print_held(held, None, target, limits, options, context);
    }
    match stored {
        Ok(Some(output)) => {
            let is_for_program = matches!(options.format, PutFormat::Ref | PutFormat::Json);
            let passes = why.is_some()
                || (is_written && options.replace != Replace::Always && held.is_short(limits));
            if is_for_program || !passes {
                match print_stored(output, target, options, context) {
                    Err(error) if !is_closed(&error) => why = Some(error.to_string()),
                    printed => return printed,
                }
            }
        }
        Ok(None) => {}
        Err(error) => why = Some(error.to_string()),
    }
    print_held(held, why.as_deref(), target, limits, options, context)
}

fn print_stored(
    output: StoredOutput,
    target: &TargetConversation,
    options: &PrintOptions<'_>,
    context: &mut Context,
) -> anyhow::Result<()> {
    let engine = Arc::clone(&target.engine);
    let (store, path) = (engine.store().clone(), output.path().to_text());
    put::print(&PutOutput::Stored { engine, output, file: None }, options, context)?;
    page_link::print_link(context, store.root(), Some(target.conversation.id()), Some(&path));
    Ok(())
}

// Prints the held output. If it is long, a line states the reason `why` it is not stored whole. The
// line takes the place of missing bytes, or is printed to standard error if no bytes are missing.
fn print_held(
    mut held: HeldOutput,
    why: Option<&str>,
    target: &TargetConversation,
    limits: &Limits,
    options: &PrintOptions<'_>,
    context: &mut Context,
) -> anyhow::Result<()> {
    if let Some(why) = why
        && (held.is_whole() || options.seen)
        && !held.is_short(limits)
    {
        context.printer.message(&format_args!("ctxfs: the output is not stored whole: {why}"));
    }
    if options.seen {
        return Ok(());
    }
    let shown = target.engine.shown(&held.text(why.unwrap_or_default()))?;
    live::print(&held, &shown, options.above.len()).map_err(refused)
}

fn prepare(
    args: &RunArgs,
    cli: &Cli,
    context: &Context,
) -> anyhow::Result<(TargetConversation, Option<HostRule>, bool)> {
    let flags = args.reader.settings();
    let settings = match args.shell {
        // Standard error belongs to the command.
        Some(_) => context.quiet_settings(cli, flags),
        None => context.settings(cli, flags),
    };
    let settings = Arc::new(settings?);
    let policy = hook::replace_policy(&settings, &context.environment);
    let host = args.shell.map(|ShellHost(host)| HostRule { host, policy });
    let target = TargetConversation::open(args.conversation.as_deref(), &settings, context)?;
    Ok((target, host, settings.is_on(SettingKey::HooksPipes)))
}

fn provenance(args: &RunArgs, id: &str) -> Provenance {
    let command: Vec<_> = args.command.iter().map(|word| word.to_string_lossy()).collect();
    Provenance {
        call: Some(id.to_owned()),
        tool: Some(args.tool.clone()),
        server: Some(args.server.clone()),
        args: Some(serde_json::json!({ "command": command }).to_string()),
        host: args.shell.map(|_| args.server.clone()),
        directory: env::current_dir().ok().map(|path| path.to_string_lossy().into_owned()),
        ..Provenance::default()
    }
}

// Returns the inner error if the command cannot be started here, for lack of descriptors or memory.
fn execute(
    args: &RunArgs,
    is_apart: bool,
    links: Option<&FilterLinks>,
    output: &mut CommandOutput<'_>,
) -> io::Result<io::Result<CommandEnd>> {
    // Signals are caught before the command starts, so that none is lost.
    let signals = match CaughtSignals::catch() {
        Ok(signals) => signals,
        Err(error) => return Ok(Err(error)),
    };
    let user_terminal = UserTerminal::find();
    let spawned = if args.pty {
        Child::on_terminal(&args.command, &user_terminal)
    } else {
        let is_shell = args.shell.is_some();
        Child::on_pipes(&args.command, args.split || is_apart, is_shell, |stderr| {
            let linked = links.and_then(|links| links.start(&args.command, stderr).ok());
            linked.unwrap_or_else(|| CommandStart::of(&args.command))
        })
    };
    match spawned {
        Ok(child) => EventLoop::new(child, signals, user_terminal, output).run().map(Ok),
        Err(SpawnError::Command { text, code }) => {
            output.take(OutputStream::Stderr, text.as_bytes());
            Ok(Ok(CommandEnd { status: child::exit_status(code), left: Vec::new() }))
        }
        Err(SpawnError::Machine(error)) => Ok(Err(error)),
    }
}

/// The phase before the command starts, in which the store is opened. If this takes more than
/// [`STORE_PATIENCE`], the command runs without ctxfs.
struct Preparation {
    is_decided: Arc<AtomicBool>,
    ended: mpsc::Sender<()>,
}

impl Preparation {
    fn begin(args: &RunArgs) -> Self {
        let (ended, wait) = mpsc::channel();
        let is_decided = Arc::new(AtomicBool::new(false));
        let (bare, decided) = (BareCommand::of(args), Arc::clone(&is_decided));
        let _watching = thread::Builder::new().name("patience".to_owned()).spawn(move || {
            let late = wait.recv_timeout(STORE_PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout);
            if late && !decided.swap(true, Relaxed) {
                let mut printer = Printer::new(false);
                exit_with(bare.run(&"the store does not answer", &mut printer));
            }
        });
        Self { is_decided, ended }
    }

    // Does not return if the command already runs without ctxfs.
    fn end(self) {
        if self.is_decided.swap(true, Relaxed) {
            loop {
                thread::park();
            }
        }
        drop(self.ended);
    }
}

/// A command that is run directly by `exec`, without ctxfs. Unless `is_quiet` is true, a notice
/// says that the output is not stored. `is_quiet` is true in `ctxfs shell`, and with
/// `--discard-short` unless standard error is a terminal: a short output would not be stored anyway.
pub(crate) struct BareCommand {
    command: Vec<OsString>,
    is_quiet: bool,
}

impl BareCommand {
    /// Returns the command of `ctxfs shell` in arguments that this version does not know.
    pub(crate) fn in_unknown(args: impl Iterator<Item = OsString>) -> Option<Self> {
        let args: Vec<_> = args.collect();
        let end = args.iter().position(|word| word == "--")?;
        let is_shell = args[..end].iter().skip(1).any(|word| word == "shell");
        let command = args[end + 1..].to_vec();
        (is_shell && !io::stderr().is_terminal() && !command.is_empty())
            .then_some(Self { command, is_quiet: true })
    }

    fn of(args: &RunArgs) -> Self {
        let is_quiet = args.shell.is_some() || (args.discard_short && !io::stderr().is_terminal());
        Self { command: args.command.clone(), is_quiet }
    }

    pub(crate) fn run(&self, why: &dyn std::fmt::Display, printer: &mut Printer) -> u8 {
        if !self.is_quiet {
            printer.message(&format_args!("ctxfs: the output is not stored: {why}"));
        }
        let error = child::replace_us_by(child::start_of(&self.command));
        let (text, code) = child::not_run(&self.command, &error);
        printer.message(&text.trim_end());
        code
    }
}

#[expect(clippy::exit, reason = "the main thread waits for the store")]
fn exit_with(code: u8) {
    std::process::exit(code.into());
}

const READY: &[u8] = b"ready\n";

// Starts the process that continues reading, and returns once it has taken over the logs that
// `output` names.
fn hand_over(left: Vec<OpenOutput>, output: KeptOutput, store: &Path, cli: &Cli) -> io::Result<()> {
    let (mut reader, writer) = io::pipe()?;
    let mut command = Role::KeepOutput(output).command();
    command.arg("--store").arg(std::path::absolute(store)?);
    if let Some(config) = &cli.config {
        command.arg("--config").arg(std::path::absolute(config)?);
    }
    command.stdin(nothing()?).stdout(nothing()?).stderr(writer);
    for (stream, source) in left {
        match stream {
            OutputStream::Stdout => command.stdin(source),
            OutputStream::Stderr => command.stdout(source),
        };
    }
    // The child is not waited for, because it outlives this process.
    let _started = command.spawn()?;
    drop(command);
    let mut reply = Vec::new();
    reader.read_to_end(&mut reply)?;
    if reply.ends_with(READY) {
        return Ok(());
    }
    Err(io::Error::other(String::from_utf8_lossy(&reply).into_owned()))
}

/// Continues the logs of a command that has ended while background processes still write to its
/// output. Standard input is the output of the command. If the command has a separate stream for
/// errors, that stream is standard output, which is opened for reading.
///
/// Runs in its own session, without the file descriptors that the caller of `ctxfs run` waits for.
pub(crate) fn keep_output(output: &KeptOutput, cli: &Cli, context: &Context) -> anyhow::Result<()> {
    rustix::process::setsid()?;
    let settings = Arc::new(context.settings(cli, Vec::new())?);
    let target = TargetConversation::find(&output.conversation, &settings, context)?;
    let target = target.ok_or_else(|| anyhow::anyhow!("there is no such conversation"))?;
    let newer = Provenance {
        exit_code: Some(output.exit_code),
        duration_ms: Some(output.duration_ms),
        ..Provenance::default()
    };
    let mut logs = CommandLogs::take_over(&target, &output.logs, &newer)?;
    report_ready()?;
    let count = take_all(&mut logs)?;
    let _loss = logs.finish(&Provenance::default());
    if output.discard && count == 0 {
        logs.discard();
    } else {
        logs.seal(output.cut.as_deref())?;
    }
    target.engine.finish();
    Ok(())
}

fn report_ready() -> anyhow::Result<()> {
    io::stderr().write_all(READY)?;
    Ok(rustix::stdio::dup2_stderr(nothing()?)?)
}

fn nothing() -> io::Result<File> {
    File::options().read(true).write(true).open("/dev/null")
}

fn take_all(logs: &mut CommandLogs<'_>) -> io::Result<u64> {
    let mut open = vec![
        (OutputStream::Stdout, rustix::stdio::stdin()),
        (OutputStream::Stderr, rustix::stdio::stdout()),
    ];
    let (mut block, mut all) = (vec![0; child::BLOCK], 0);
    while !open.is_empty() {
        let ready = wait_for(&open)?;
        let mut ready = ready.into_iter();
        let mut failed = Ok(());
        open.retain(|(stream, source)| {
            if ready.next() != Some(true) {
                return true;
            }
            match child::read(source, &mut block) {
                Ok(count) => {
                    let bytes = &block[..count.unwrap_or(0)];
                    logs.write(*stream, bytes);
                    all += bytes.len() as u64;
                    count != Some(0)
                }
                Err(error) => {
                    failed = Err(error);
                    false
                }
            }
        });
        failed?;
    }
    Ok(all)
}

fn wait_for(sources: &[(OutputStream, std::os::fd::BorrowedFd<'_>)]) -> io::Result<Vec<bool>> {
    let mut fds: Vec<_> =
        sources.iter().map(|(_, fd)| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    rustix::io::retry_on_intr(|| poll(&mut fds, None))?;
    Ok(fds.iter().map(|fd| !fd.revents().is_empty()).collect())
}
