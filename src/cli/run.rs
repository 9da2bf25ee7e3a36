//! `ctxfs run`: runs a command and stores its output as a log while it runs.
//!
//! One thread does everything: `event_loop` waits for output, input and signals at once.

mod background;
mod bare;
mod child;
mod event_loop;
mod held_output;
mod log;
mod output;
mod short_output;
mod signals;
mod user_terminal;

use std::io;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use crate::args::{Cli, KeepOutputArgs, PutFormat, RunArgs};
use crate::context::Context;
use crate::output::is_closed;
use crate::put::{PrintOptions, PutOutput, TargetConversation};
pub(super) use crate::run::background::keep as keep_output;
use crate::run::bare::{BareCommand, Preparation};
use crate::run::child::{Child, OutputStream, SpawnError};
use crate::run::event_loop::{CommandEnd, EventLoop};
use crate::run::held_output::HeldOutput;
use crate::run::log::CommandLogs;
use crate::run::output::{ClosedOutput, CommandOutput, HandedLogs};
use crate::run::short_output::{HostRule, ShortOutput};
use crate::run::signals::Signals;
use crate::run::user_terminal::UserTerminal;
use crate::{hook, page_link, put};
use ctxfs_core::model::{Limits, Provenance};
use ctxfs_engine::{Replace, StoredOutput};

pub(super) fn run(args: &RunArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<ExitCode> {
    let id = args.id.clone().unwrap_or_else(put::new_call);
    let preparation = Preparation::begin(args);
    let prepared = prepare(args, cli, context);
    let prepared = prepared.as_ref().map_err(ToString::to_string).and_then(|(target, host)| {
        let logs = CommandLogs::create(target, &id, args.split, &provenance(args, &id));
        Ok((target, *host, logs.map_err(|error| error.to_string())?))
    });
    preparation.end();
    let (target, host, logs) = match prepared {
        Ok(prepared) => prepared,
        Err(why) => return Ok(BareCommand::of(args).run(&why, &mut context.printer).into()),
    };
    let seen = io::stdout().is_terminal();
    let limits = target.engine.limits(provenance(args, &id).tool_name().as_deref());
    let short = ShortOutput::new(args.discard_short, host, limits.clone());
    let mut output = CommandOutput::new(logs, short, seen);
    let started = Instant::now();
    let CommandEnd { code, left } = execute(args, &mut output)?;
    let newer = Provenance {
        exit_code: Some(code),
        duration_ms: u64::try_from(started.elapsed().as_millis()).ok(),
        ..Provenance::default()
    };
    let closed = output.close(&newer, left, |left, HandedLogs { names, cut, is_short }| {
        let args = KeepOutputArgs {
            conversation: target.conversation.id().to_text(),
            exit_code: code,
            duration_ms: newer.duration_ms.unwrap_or_default(),
            cut,
            discard: is_short,
            logs: names,
        };
        background::start(left, &args, target.engine.store().root(), cli)
    });
    let replace = replace(args, host, &closed, &limits, code);
    let options = PrintOptions { format: args.format, replace, tools: &args.has_tool, seen };
    // Whatever becomes of the stand-in, the exit code of the command counts.
    if let Err(error) = print(closed, target, &limits, &options, context)
        && !is_closed(&error)
    {
        context.printer.failure(&error.into());
    }
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}

/// Returns the condition on which the stand-in is printed.
fn replace(
    args: &RunArgs,
    host: Option<HostRule>,
    closed: &ClosedOutput,
    limits: &Limits,
    code: i32,
) -> Replace {
    match (host, &closed.stored) {
        _ if args.always => Replace::Always,
        // If the log cannot be read, making the stand-in fails as well, and the held output is printed.
        (Some(host), Ok(Some(output))) => {
            host.replace(output.content(), limits, code).unwrap_or(Replace::OverLimits)
        }
        _ => Replace::OverLimits,
    }
}

/// Prints the stand-in, or the held output if that has more of the output than the logs.
fn print(
    closed: ClosedOutput,
    target: &TargetConversation,
    limits: &Limits,
    options: &PrintOptions<'_>,
    context: &mut Context,
) -> anyhow::Result<()> {
    let ClosedOutput { short, stored, held, mut why, is_written } = closed;
    if let Some(bytes) = short {
        return pass(&bytes, target, options, context);
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
    page_link::tell(context, store.root(), Some(target.conversation.id()), Some(&path));
    Ok(())
}

/// Prints the held output. For a long one, a single line gives the reason `why`: in place of the
/// missing bytes, or else on standard error.
fn print_held(
    held: HeldOutput,
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
        context.printer.say(&format_args!("ctxfs: the output is not stored whole: {why}"));
    }
    pass(&held.text(why.unwrap_or_default()), target, options, context)
}

/// Prints bytes of an output unless they were seen already, unchanged except for masks.
fn pass(
    bytes: &[u8],
    target: &TargetConversation,
    options: &PrintOptions<'_>,
    context: &mut Context,
) -> anyhow::Result<()> {
    if options.seen { Ok(()) } else { context.printer.bytes(&target.engine.shown(bytes)?) }
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
fn execute(args: &RunArgs, output: &mut CommandOutput<'_>) -> anyhow::Result<CommandEnd> {
    // Caught before the command starts, so that no signal is lost.
    let signals = Signals::catch()?;
    let user_terminal = UserTerminal::find();
    let spawned = if args.pty {
        Child::on_terminal(&args.command, &user_terminal)
    } else {
        Child::on_pipes(&args.command, args.split)
    };
    match spawned {
        Ok(child) => Ok(EventLoop::new(child, signals, user_terminal, output).run()?),
        Err(SpawnError::Command { text, code }) => {
            output.take(OutputStream::Stderr, text.as_bytes());
            Ok(CommandEnd { code, left: Vec::new() })
        }
        Err(SpawnError::Machine(error)) => Err(error.into()),
    }
}
