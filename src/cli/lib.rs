//! The program: arguments, environment, printing. The layers below return values and errors; only
//! this one prints.
//!
//! `args` declares the commands and their help, a module named after each command runs it,
//! `outcome` turns an error into a message, a hint and an exit code, and `output` prints.

mod args;
mod ask_models;
mod completions;
mod config;
mod confine;
mod context;
mod daemon;
mod demo;
mod doctor;
mod engine;
mod env;
mod export;
mod extract;
mod file_limit;
mod filter;
mod gc;
mod help;
mod hook;
pub mod hooks;
mod import;
mod inherited;
mod install;
mod kept;
mod listen;
mod log;
mod logging;
mod ls;
mod man;
mod mcp;
mod memory;
mod models;
mod mount;
mod outcome;
mod output;
mod page_link;
mod pager;
mod passing;
mod places;
mod plan;
mod progress;
mod put;
#[cfg(feature = "remote")]
mod remote;
#[cfg(not(feature = "remote"))]
#[path = "no_remote.rs"]
mod remote;
mod run;
mod serve;
mod server;
mod settings;
mod stats;
mod status;
mod stop;
mod tree;
mod umount;
mod unread;
mod view;
mod watchdog;
mod web;

use std::process::ExitCode;

use clap::Parser as _;

use crate::args::{Cli, Command};
use crate::context::Context;
use crate::outcome::Failure;
#[cfg(any(test, feature = "testing"))]
pub use crate::settings::fuzz_settings;
use crate::status::StartStatus;

/// Runs the program.
pub fn main() -> ExitCode {
    file_limit::survive();
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
        Command::Umount(args) => umount::run(args, cli, context),
        Command::Put(args) => put::run(args, cli, context),
        Command::Run(args) => return run::run(args, cli, context),
        Command::View(args) => view::run(args, cli, context),
        Command::Extract(args) => return extract::run(args, cli, context),
        Command::Ls(args) => ls::run(args, cli, context),
        Command::Export(args) => export::run(args, cli, context),
        Command::Import(args) => import::run(args, cli, context),
        Command::Push(args) => remote::push(args, cli, context),
        Command::Pull(args) => remote::pull(args, cli, context),
        Command::Remote(args) => remote::run(args, cli, context),
        Command::Gc(args) => gc::run(args, cli, context),
        Command::Log(args) => log::run(args, cli, context),
        Command::Stats(args) => stats::run(args, cli, context),
        Command::Hook(args) => hook::run(args, cli, context),
        Command::Mcp(args) => mcp::run(args, cli, context),
        Command::Web(args) => web::run(args, cli, context),
        Command::Install(args) => install::run(args, cli, context),
        Command::Config(args) => config::run(args, cli, context),
        Command::Doctor(args) => doctor::run(args, cli, context),
        Command::Demo(args) => demo::run(args, context),
        Command::Completions(args) => completions::run(args, context),
        Command::Man(args) => man::run(args, context),
        Command::HelpMarkdown => context.printer.data(&help::markdown()),
        Command::WatchMount(args) => watchdog::run(args),
        Command::ProbeMount(args) => doctor::probe(args, context),
        Command::EndServers => {
            mcp::end_servers();
            Ok(())
        }
        Command::AskModels => ask_models::run(),
        Command::AskBucket(args) => remote::ask_bucket(args),
        Command::StartBeside(args) => remote::start_beside(args),
        Command::LookBeside(args) => remote::look_beside(args),
        Command::KeepOutput(args) => run::keep_output(args, cli, context),
        Command::RunFilter => filter::run(),
    };
    done.map(|()| ExitCode::SUCCESS)
}
