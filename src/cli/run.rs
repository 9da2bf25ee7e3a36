//! `ctxfs run`: a command whose output becomes a log, while it runs.
//!
//! One thread does it all: `stream` waits for whatever comes next, output, input or a signal.

mod child;
mod log;
mod outer;
mod signals;
mod stream;

use std::io;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use std::time::Instant;

use crate::cli::Context;
use crate::cli::args::Cli;
use crate::cli::args::RunArgs;
use crate::cli::config::Key;
use crate::cli::config::Settings;
use crate::cli::output;
use crate::cli::put;
use crate::cli::put::Asked;
use crate::cli::put::Home;
use crate::cli::put::Wish;
use crate::cli::run::child::Child;
use crate::cli::run::child::NotRun;
use crate::cli::run::log::Logs;
use crate::cli::run::outer::Outer;
use crate::cli::run::signals::Signals;
use crate::cli::run::stream::Ending;
use crate::cli::run::stream::Streaming;
use crate::model::Provenance;

pub(super) fn run(args: &RunArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<ExitCode> {
    let id = args.id.clone().unwrap_or_else(put::new_call);
    let asked = Asked::new(provenance(args, &id), context.settings(cli, args.settings())?)?;
    let home = Home::open(args.conversation.as_deref(), &asked.settings, context)?;
    let mut logs = Logs::create(&home.conversation, &id, args.split, &asked)?;
    let seen = io::stdout().is_terminal();
    let started = Instant::now();
    let ending = execute(args, seen, &mut logs)?;
    let newer = Provenance {
        exit_code: Some(ending.code),
        duration_ms: u64::try_from(started.elapsed().as_millis()).ok(),
        ..Provenance::default()
    };
    let record = logs.close(&newer, ending.cut)?;
    let stored = home.output(record, &asked)?;
    let wish = Wish { format: args.format, always: args.always, tools: &args.has_tool, seen };
    match put::print(&stored, &asked, &wish, context) {
        // Whoever wanted the stand-in has left; the command has ended as it has.
        Err(error) if output::is_closed(&error) => {}
        printed => printed?,
    }
    Ok(ExitCode::from(u8::try_from(ending.code).unwrap_or(u8::MAX)))
}

/// Most bytes of a log, where there is such a limit.
fn cap(settings: &Settings) -> Option<u64> {
    let caps = [Key::MaxArtifact, Key::MaxTerminal].map(|key| settings.number(key));
    caps.into_iter().flatten().min()
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

/// Runs the command to its end. One that cannot be run leaves the reason as its output.
fn execute(args: &RunArgs, live: bool, logs: &mut Logs<'_>) -> anyhow::Result<Ending> {
    // Before the command: none that comes early is lost.
    let signals = Signals::catch()?;
    let outer = Outer::find();
    let spawned = if args.pty {
        Child::on_terminal(&args.command, &outer)
    } else {
        Child::on_pipes(&args.command, args.split)
    };
    match spawned {
        Ok(child) => Ok(Streaming::new(child, signals, outer, logs, live).run()?),
        Err(NotRun::Command { text, code }) => {
            logs.write(stream::Which::Error, text.as_bytes(), live);
            Ok(Ending { code, cut: None })
        }
        Err(NotRun::Machine(error)) => Err(error.into()),
    }
}
