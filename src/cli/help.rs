//! The reference of the commands, `docs/CLI.md`, made of their help.

use std::fmt::Write as _;

use clap::{Command, CommandFactory as _};

use crate::args::Cli;

const COLUMNS: usize = 96;
const INTRODUCTION: &str = "# The commands\n\nGenerated from the program: `UPDATE_DOCS=1 cargo test \
     -p ctxfs-cli help` updates it. `ctxfs COMMAND --help` prints the same.\n";

/// Returns the page.
pub(super) fn markdown() -> String {
    let mut command = Cli::command().term_width(COLUMNS);
    command.build();
    let mut page = INTRODUCTION.to_owned();
    sections(&mut page, &command, "ctxfs");
    page
}

/// Writes the section of a command, and then those of its own commands.
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

#[cfg(test)]
mod tests {
    use super::*;

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
