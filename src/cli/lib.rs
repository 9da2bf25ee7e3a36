//! The program: arguments, environment, printing. Lower layers return values and errors. Only this
//! crate prints.
//!
//! `args` declares the commands and their help. Most commands run in a module of the same name.
//! `output` prints, and converts an error to a message, a hint and an exit code.

mod archive;
mod args;
mod ask_models;
mod confine;
mod context;
mod demo;
mod doctor;
mod engine;
mod env;
mod extract;
mod gc;
mod help;
mod hook;
pub mod hooks;
mod install;
mod log;
mod logging;
mod ls;
mod mcp;
mod mount;
mod output;
mod page_link;
mod places;
mod progress;
mod put;
#[cfg(not(feature = "remote"))]
#[path = "no_remote.rs"]
mod remote;
#[cfg(feature = "remote")]
mod remote;
mod run;
mod server;
mod settings;
mod stats;
mod system;
mod view;
mod watchdog;
mod web;

use std::process::ExitCode;

use clap::Parser as _;

use crate::args::Command;
use crate::mount::StartStatus;

pub(crate) use crate::args::Cli;
pub(crate) use crate::context::Context;
pub(crate) use crate::env::Environment;
pub(crate) use crate::output::{Failure, FailureKind};
#[cfg(any(test, feature = "testing"))]
pub use crate::settings::fuzz_settings;
pub(crate) use crate::settings::{SettingKey, Settings};

/// Runs the program.
pub fn main() -> ExitCode {
    system::survive_file_limit();
    let cli = Cli::parse();
    let detached = cli.detached;
    let mut context = Context::new(&cli);
    let error = match run(&cli, &mut context) {
        Ok(code) => return code,
        Err(error) => error,
    };
    if output::is_closed(&error) {
        return ExitCode::SUCCESS;
    }
    let failure = Failure::from(error);
    if detached {
        StartStatus::Failed(failure.clone()).send();
    }
    context.printer.failure(&failure);
    failure.exit_code()
}

fn run(cli: &Cli, context: &mut Context) -> anyhow::Result<ExitCode> {
    let done = match &cli.command {
        Command::Mount(args) => mount::run(args, cli, context),
        Command::Umount(args) => mount::umount(args, cli, context),
        Command::Put(args) => put::run(args, cli, context),
        Command::Run(args) => return run::run(args, cli, context),
        Command::View(args) => view::run(args, cli, context),
        Command::Extract(args) => return extract::run(args, cli, context),
        Command::Ls(args) => ls::run(args, cli, context),
        Command::Export(args) => archive::export(args, cli, context),
        Command::Import(args) => archive::import(args, cli, context),
        #[cfg(feature = "remote")]
        Command::Push(args) => remote::push(args, cli, context),
        #[cfg(feature = "remote")]
        Command::Pull(args) => remote::pull(args, cli, context),
        #[cfg(feature = "remote")]
        Command::Remote(args) => remote::run(args, cli, context),
        Command::Gc(args) => gc::run(args, cli, context),
        Command::Log(args) => log::run(args, cli, context),
        Command::Stats(args) => stats::run(args, cli, context),
        Command::Hook(args) => hook::run(args, cli, context),
        Command::Mcp(args) => mcp::run(args, cli, context),
        Command::Web(args) => web::run(args, cli, context),
        Command::Install(args) => install::run(args, cli, context),
        Command::Config(args) => help::config(args, cli, context),
        Command::Doctor(args) => doctor::run(args, cli, context),
        Command::Demo(args) => demo::run(args, context),
        Command::Completions(args) => help::completions(args, context),
        Command::Man(args) => help::man(args, context),
        Command::WatchMount(args) => watchdog::run(args),
        Command::ProbeMount(args) => doctor::probe(args, context),
        Command::EndServers => {
            mcp::end_servers();
            Ok(())
        }
        Command::AskModels => ask_models::run(),
        #[cfg(feature = "remote")]
        Command::AskBucket(args) => remote::ask_bucket(args),
        #[cfg(feature = "remote")]
        Command::StartBeside(args) => remote::start_beside(args),
        #[cfg(feature = "remote")]
        Command::LookBeside(args) => remote::look_beside(args),
        Command::KeepOutput(args) => run::keep_output(args, cli, context),
        Command::RunFilter => engine::run_filter(),
        #[cfg(not(feature = "remote"))]
        Command::Push(_)
        | Command::Pull(_)
        | Command::Remote(_)
        | Command::AskBucket(_)
        | Command::StartBeside(_)
        | Command::LookBeside(_) => remote::refused(),
    };
    done.map(|()| ExitCode::SUCCESS)
}
