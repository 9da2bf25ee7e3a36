//! The context of commands: the printer, the environment and the settings.

use crate::output::{self, Printer};
use crate::settings::{ROWS, SettingValue};
use crate::{Cli, Environment, Failure, FailureKind, SettingKey, Settings};
use ctxfs_core::model::visible;
use ctxfs_store::UnreadPlaces;

/// The context of a command: everything that it receives besides its own arguments.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) printer: Printer,
    pub(crate) environment: Environment,
}

impl Context {
    pub(crate) fn new(cli: &Cli) -> Self {
        let variables = ROWS.iter().map(|row| row.variable);
        Self { printer: Printer::new(cli.json), environment: Environment::read(variables) }
    }

    /// Loads the settings for a command. `flags` are the settings given as flags of this command,
    /// in addition to the flags that every command accepts. Prints notices about the store's
    /// settings file.
    pub(crate) fn settings(
        &self,
        cli: &Cli,
        flags: Vec<(SettingKey, SettingValue)>,
    ) -> anyhow::Result<Settings> {
        let settings = self.quiet_settings(cli, flags)?;
        for notice in &settings.notices {
            output::note(notice);
        }
        Ok(settings)
    }

    pub(crate) fn quiet_settings(
        &self,
        cli: &Cli,
        flags: Vec<(SettingKey, SettingValue)>,
    ) -> anyhow::Result<Settings> {
        let mut flags = flags;
        flags.extend(cli.store.clone().map(|store| (SettingKey::Store, SettingValue::Path(store))));
        flags.extend(cli.log.clone().map(|log| (SettingKey::Log, log)));
        Ok(Settings::load(cli.config.as_deref(), flags, &self.environment)?)
    }
}

/// Called at the end of a command. Prints the places of the store that the command could not read,
/// and fails if there are any, as `find` and `du` do.
pub(crate) fn report_unread(unread: &UnreadPlaces, context: &mut Context) -> anyhow::Result<()> {
    let hint = "the rest is done; make it readable for this user, or remove it";
    report_unread_with(unread, hint, context)
}

pub(crate) fn report_unread_with(
    unread: &UnreadPlaces,
    hint: &'static str,
    context: &mut Context,
) -> anyhow::Result<()> {
    let Some((first, others)) = unread.named().split_first() else { return Ok(()) };
    for place in others {
        context
            .printer
            .message(&format_args!("cannot read {}", visible::whole(&place.to_string())));
    }
    let others = match unread.count() - 1 {
        0 => String::new(),
        1 => ", and 1 more place".to_owned(),
        more => format!(", and {more} more places"),
    };
    Err(Failure::new(
        FailureKind::Failed,
        format!("cannot read {}{others}", visible::whole(&first.to_string())),
        hint,
    )
    .into())
}

pub(crate) fn unread_json(unread: &UnreadPlaces) -> serde_json::Value {
    unread
        .named()
        .iter()
        .map(|place| serde_json::json!({ "path": place.path, "why": place.why }))
        .collect()
}
