//! `ctxfs config`: prints the settings in effect.

use crate::args::{Cli, ConfigArgs};
use crate::context::Context;
use crate::settings;

pub(super) fn run(args: &ConfigArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    if args.defaults {
        return context.printer.data(&settings::template());
    }
    let loaded = context.settings(cli, Vec::new())?;
    // Reports rules that do not compile.
    loaded.redaction()?;
    let tool = args.tool.as_deref();
    if cli.json {
        let value = settings::json(&loaded, tool, &context.environment);
        return context.printer.data(&(serde_json::to_string(&value)? + "\n"));
    }
    context.printer.data(&settings::toml(&loaded, tool, &context.environment))
}
