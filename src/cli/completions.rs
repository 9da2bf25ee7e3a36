//! `ctxfs completions`: shell completions.

use clap::CommandFactory as _;

use crate::args::{Cli, CompletionsArgs};
use crate::context::Context;

pub(super) fn run(args: &CompletionsArgs, context: &mut Context) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "ctxfs", &mut script);
    context.printer.bytes(&script)
}
