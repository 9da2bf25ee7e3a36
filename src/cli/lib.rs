//! The program: arguments, environment, printing. Lower layers return values and errors. Only this
//! crate prints.
//!
//! `args` declares the commands and their help. Most commands run in a module of the same name.
//! `output` prints, and converts an error to a message, a hint and an exit code.

mod archive;
mod args;
mod confine;
mod context;
mod demo;
mod doctor;
mod engine;
mod env;
mod extract;
mod gc;
mod help;
mod helper;
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
mod remote;
mod run;
mod server;
mod settings;
mod stats;
mod system;
mod view;
mod web;

use std::process::ExitCode;

use clap::Parser as _;

use crate::helper::{Role, bucket, models, page, watchdog};
use crate::{args::Command, mount::StartStatus};

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
    if let Some(code) = run::run_by_name() {
        return code;
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // A host of an agent may have a line of another version.
            let bare = run::BareCommand::in_unknown(std::env::args_os());
            let Some(bare) = bare.filter(|_| error.use_stderr()) else { error.exit() };
            return bare.run(&error, &mut output::Printer::new(false)).into();
        }
    };
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
        Command::Shell(args) if args.bash_env => install::print_bash_env(args.host, cli, context),
        Command::Shell(args) => return run::shell(args, cli, context),
        Command::View(args) => view::run(args, cli, context),
        Command::Extract(args) => return extract::run(args, cli, context),
        Command::Ls(args) => ls::run(args, cli, context),
        Command::Export(args) => archive::export(args, cli, context),
        Command::Import(args) => archive::import(args, cli, context),
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
        Command::Config(args) => help::config(args, cli, context),
        Command::Doctor(args) => doctor::run(args, cli, context),
        Command::Demo(args) => demo::run(args, context),
        Command::Completions(args) => help::completions(args, context),
        Command::Man(args) => help::man(args, context),
        Command::Helper { role } => help(role, cli, context),
    };
    done.map(|()| ExitCode::SUCCESS)
}

// Runs a helper process.
fn help(role: &Role, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    role.begin()?;
    match role {
        Role::WatchMount(watch) => watchdog::run(watch),
        Role::AskModels => models::run(),
        Role::StartBeside(beside) => page::start(beside),
        Role::LookBeside(beside) => page::look(beside.clone()),
        Role::AskBucket { url, read_only } => bucket::run(url, *read_only),
        Role::RunFilter => engine::run_filter(),
        Role::KeepOutput(output) => run::keep_output(output, cli, context),
        Role::EndServers => {
            ctxfs_mcp::end_servers(&mut std::io::stdin().lock());
            Ok(())
        }
        Role::ProbeMount(target) => doctor::probe(target, context),
    }
}
