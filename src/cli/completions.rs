//! `ctxfs completions`: shell completions.

use clap::CommandFactory as _;

use crate::cli::args::Cli;
use crate::cli::args::CompletionsArgs;
use crate::cli::context::Context;

pub(super) fn run(args: &CompletionsArgs, context: &mut Context) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "ctxfs", &mut script);
    context.printer.bytes(&script)
}
