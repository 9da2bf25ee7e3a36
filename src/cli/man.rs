//! `ctxfs man`: the manual pages.

use std::path::Path;

use anyhow::Context as _;
use clap::CommandFactory as _;

use crate::args::{Cli, ManArgs};
use crate::context::Context;

pub(super) fn run(args: &ManArgs, context: &mut Context) -> anyhow::Result<()> {
    match &args.dir {
        Some(dir) => write_all(dir),
        None => print_one(context),
    }
}

fn print_one(context: &mut Context) -> anyhow::Result<()> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut page)?;
    context.printer.bytes(&page)
}

fn write_all(dir: &Path) -> anyhow::Result<()> {
    let context = || format!("cannot write the pages to `{}`", dir.display());
    std::fs::create_dir_all(dir).with_context(context)?;
    clap_mangen::generate_to(Cli::command(), dir).with_context(context)
}
