//! The printer, the environment and the settings that commands work with.

use crate::args::Cli;
use crate::env::Environment;
use crate::output;
use crate::output::Printer;
use crate::settings::{Key, ROWS, Settings, Value};

/// The context of a command: everything it is given beside its own arguments.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) printer: Printer,
    pub(super) environment: Environment,
}

impl Context {
    /// Reads the environment. `cli` decides between text and JSON.
    pub(super) fn new(cli: &Cli) -> Self {
        let variables = ROWS.iter().map(|row| row.variable);
        Self { printer: Printer::new(cli.json), environment: Environment::read(variables) }
    }

    /// Loads the settings of a command that was given `flags` beside the flags that every command
    /// takes. Tells what the user should know about them.
    pub(super) fn settings(&self, cli: &Cli, flags: Vec<(Key, Value)>) -> anyhow::Result<Settings> {
        let settings = self.quiet_settings(cli, flags)?;
        for notice in settings.notices() {
            output::note(notice);
        }
        Ok(settings)
    }

    /// Loads the settings in the same way, and tells nothing.
    pub(super) fn quiet_settings(
        &self,
        cli: &Cli,
        flags: Vec<(Key, Value)>,
    ) -> anyhow::Result<Settings> {
        let mut flags = flags;
        flags.extend(cli.store.clone().map(|store| (Key::Store, Value::Path(store))));
        flags.extend(cli.log.clone().map(|log| (Key::Log, log)));
        Ok(Settings::load(cli.config.as_deref(), flags, &self.environment)?)
    }
}
