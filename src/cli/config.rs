//! Settings, and `ctxfs config`, which prints them.
//!
//! | module | has |
//! |---|---|
//! | `table` | every setting: name, kind, default, variable, flag |
//! | `value` | what a value can be, read and written |
//! | `file` | a file of settings, checked key by key |
//! | `tools` | what differs from tool to tool |
//! | `settings` | what holds, and where it comes from |
//! | `limits` | the limits that follow |
//! | `print` | what holds, as a file of settings or as JSON |
//! | `document` | `docs/SETTINGS.md` |

mod file;
#[cfg(any(test, fuzzing))]
mod fuzz;
mod limits;
mod origin;
mod print;
mod settings;
mod table;
mod tools;
mod value;

#[cfg(any(test, fuzzing))]
pub use fuzz::fuzz_settings;
pub(super) use settings::Settings;
pub(super) use table::Key;
pub(super) use table::ROWS;
pub(super) use value::Value;

use crate::cli::Context;
use crate::cli::args::Cli;
use crate::cli::args::ConfigArgs;

pub(super) fn run(args: &ConfigArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    if args.defaults {
        return context.printer.data(&print::template());
    }
    let settings = context.settings(cli, Vec::new())?;
    // What cannot be compiled is no setting.
    settings.redaction()?;
    let tool = args.tool.as_deref();
    if cli.json {
        let value = print::json(&settings, tool, &context.environment);
        return context.printer.data(&(serde_json::to_string(&value)? + "\n"));
    }
    context.printer.data(&print::toml(&settings, tool, &context.environment))
}

#[cfg(test)]
mod document;
