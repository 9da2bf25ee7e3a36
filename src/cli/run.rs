//! `ctxfs run`: runs a command and stores its output as a log while it runs.
//!
//! One thread does everything: `event_loop` waits for output, input and signals at once.

mod bare;
mod child;
mod event_loop;
mod log;
mod short_output;
mod signals;
mod user_terminal;

use std::io;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use crate::cli::args::Cli;
use crate::cli::args::RunArgs;
use crate::cli::context::Context;
use crate::cli::hook;
use crate::cli::output;
use crate::cli::page_link;
use crate::cli::put;
use crate::cli::put::PrintOptions;
use crate::cli::put::PutOutput;
use crate::cli::put::TargetConversation;
use crate::cli::run::bare::Preparation;
use crate::cli::run::child::Child;
use crate::cli::run::child::OutputStream;
use crate::cli::run::child::SpawnError;
use crate::cli::run::event_loop::CommandEnd;
use crate::cli::run::event_loop::EventLoop;
use crate::cli::run::log::ClosedLogs;
use crate::cli::run::log::CommandLogs;
use crate::cli::run::short_output::HostRule;
use crate::cli::run::short_output::ShortOutput;
use crate::cli::run::signals::Signals;
use crate::cli::run::user_terminal::UserTerminal;
use crate::engine::Replace;
use crate::model::Provenance;

pub(super) fn run(args: &RunArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<ExitCode> {
    let id = args.id.clone().unwrap_or_else(put::new_call);
    let preparation = Preparation::begin(&args.command);
    let prepared = prepare(args, cli, context);
    let prepared = prepared.as_ref().map_err(ToString::to_string).and_then(|(target, host)| {
        let provenance = provenance(args, &id);
        let limits = target.engine.limits(provenance.tool_name().as_deref());
        let short = ShortOutput::new(args.discard_short, *host, limits);
        let logs = CommandLogs::create(target, &id, args.split, &provenance, short);
        Ok((target, *host, logs.map_err(|error| error.to_string())?))
    });
    preparation.end();
    let (target, host, mut logs) = match prepared {
        Ok(prepared) => prepared,
        Err(why) => return Ok(bare::run(&args.command, &why, &mut context.printer).into()),
    };
    let seen = io::stdout().is_terminal();
    let started = Instant::now();
    let ending = execute(args, seen, &mut logs)?;
    let newer = Provenance {
        exit_code: Some(ending.code),
        duration_ms: u64::try_from(started.elapsed().as_millis()).ok(),
        ..Provenance::default()
    };
    let closed = logs.close(&newer, ending.cut).map_err(anyhow::Error::from);
    let printed = closed.and_then(|closed| {
        let replace = replace(args, host, &closed, target, ending.code)?;
        let options = PrintOptions { format: args.format, replace, tools: &args.has_tool, seen };
        print(closed, target, &options, context)
    });
    // Whatever becomes of the stand-in, the exit code of the command counts.
    if let Err(error) = printed
        && !output::is_closed(&error)
    {
        context.printer.failure(&error.into());
    }
    Ok(ExitCode::from(u8::try_from(ending.code).unwrap_or(u8::MAX)))
}

/// Returns the condition on which the stand-in is printed.
fn replace(
    args: &RunArgs,
    host: Option<HostRule>,
    closed: &ClosedLogs,
    target: &TargetConversation,
    code: i32,
) -> anyhow::Result<Replace> {
    match (host, closed) {
        _ if args.always => Ok(Replace::Always),
        (Some(host), ClosedLogs::Stored(output)) => {
            let limits = target.engine.limits(provenance(args, "").tool_name().as_deref());
            Ok(host.replace(output.content(), &limits, code)?)
        }
        _ => Ok(Replace::OverLimits),
    }
}

fn print(
    closed: ClosedLogs,
    target: &TargetConversation,
    options: &PrintOptions<'_>,
    context: &mut Context,
) -> anyhow::Result<()> {
    let engine = &target.engine;
    match closed {
        ClosedLogs::Stored(output) => {
            let engine = Arc::clone(engine);
            let (store, path) = (engine.store().clone(), output.path().to_text());
            let output = PutOutput::Stored { engine, output: *output, file: None };
            put::print(&output, options, context)?;
            let id = target.conversation.id();
            page_link::tell(context, store.root(), Some(id), Some(&path));
            Ok(())
        }
        ClosedLogs::Short(_) if options.seen => Ok(()),
        ClosedLogs::Short(bytes) => context.printer.bytes(&engine.shown(&bytes)?),
    }
}

/// Opens the conversation, and finds out what the host of the command is shown.
fn prepare(
    args: &RunArgs,
    cli: &Cli,
    context: &Context,
) -> anyhow::Result<(TargetConversation, Option<HostRule>)> {
    let settings = Arc::new(context.settings(cli, args.reader.settings())?);
    let policy = hook::policy(&settings, &context.environment);
    let host = args.host.map(|host| HostRule { host, policy });
    Ok((TargetConversation::open(args.conversation.as_deref(), &settings, context)?, host))
}

fn provenance(args: &RunArgs, id: &str) -> Provenance {
    let command: Vec<_> = args.command.iter().map(|word| word.to_string_lossy()).collect();
    Provenance {
        call: Some(id.to_owned()),
        tool: Some(args.tool.clone()),
        server: Some(args.server.clone()),
        args: Some(serde_json::json!({ "command": command }).to_string()),
        ..Provenance::default()
    }
}

/// Runs the command to its end. If it cannot be run, its output is the reason.
fn execute(args: &RunArgs, live: bool, logs: &mut CommandLogs<'_>) -> anyhow::Result<CommandEnd> {
    // Caught before the command starts, so that no signal is lost.
    let signals = Signals::catch()?;
    let user_terminal = UserTerminal::find();
    let spawned = if args.pty {
        Child::on_terminal(&args.command, &user_terminal)
    } else {
        Child::on_pipes(&args.command, args.split)
    };
    match spawned {
        Ok(child) => Ok(EventLoop::new(child, signals, user_terminal, logs, live).run()?),
        Err(SpawnError::Command { text, code }) => {
            logs.write(OutputStream::Stderr, text.as_bytes(), live);
            Ok(CommandEnd { code, cut: None })
        }
        Err(SpawnError::Machine(error)) => Err(error.into()),
    }
}
