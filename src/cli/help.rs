//! Output about the program itself: completions, manual pages, and the settings in effect.

use anyhow::Context as _;
use clap::CommandFactory as _;

use crate::args::{CompletionsArgs, ConfigArgs, ManArgs};
use crate::{Cli, Context, settings};

pub(crate) fn completions(args: &CompletionsArgs, context: &mut Context) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "ctxfs", &mut script);
    context.printer.bytes(&script)
}

pub(crate) fn man(args: &ManArgs, context: &mut Context) -> anyhow::Result<()> {
    match &args.dir {
        Some(dir) => write_pages(dir),
        None => print_main_page(context),
    }
}

fn print_main_page(context: &mut Context) -> anyhow::Result<()> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut page)?;
    context.printer.bytes(&page)
}

fn write_pages(dir: &std::path::Path) -> anyhow::Result<()> {
    let context = || format!("cannot write the pages to `{}`", dir.display());
    std::fs::create_dir_all(dir).with_context(context)?;
    clap_mangen::generate_to(Cli::command(), dir).with_context(context)
}

pub(crate) fn config(args: &ConfigArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    if args.defaults {
        return context.printer.data(&settings::template());
    }
    let loaded = context.settings(cli, Vec::new())?;
    // Reports redaction rules that do not compile.
    loaded.redaction()?;
    let tool = args.tool.as_deref();
    let Context { printer, environment } = context;
    let text = || settings::toml(&loaded, tool, environment);
    printer.report(text, || settings::json(&loaded, tool, environment))
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use clap::Command;

    use super::*;

    const COLUMNS: usize = 96;
    const INTRODUCTION: &str = "# The commands\n\nGenerated from the program: `UPDATE_DOCS=1 cargo test \
         -p ctxfs-cli help` updates it. `ctxfs COMMAND --help` prints the same.\n";

    fn markdown() -> String {
        let mut command = Cli::command().term_width(COLUMNS);
        command.build();
        let mut page = INTRODUCTION.to_owned();
        sections(&mut page, &command, "ctxfs");
        page
    }

    fn sections(page: &mut String, command: &Command, name: &str) {
        section(page, command, name);
        for subcommand in command.get_subcommands().filter(|command| !command.is_hide_set()) {
            sections(page, subcommand, &format!("{name} {}", subcommand.get_name()));
        }
    }

    fn section(page: &mut String, command: &Command, name: &str) {
        let help = command.clone().term_width(COLUMNS).render_long_help().to_string();
        let help: Vec<&str> = help.lines().map(str::trim_end).collect();
        let help = help.join("\n");
        // Writing to a string cannot fail.
        let _ = write!(page, "\n## {name}\n\n```text\n{}\n```\n", help.trim_end());
    }

    #[test]
    fn definitions_are_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_page_in_docs_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/CLI.md");
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, markdown()).unwrap();
        }
        let stored = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            stored == markdown(),
            "docs/CLI.md is stale: UPDATE_DOCS=1 cargo test -p ctxfs-cli"
        );
    }
}
