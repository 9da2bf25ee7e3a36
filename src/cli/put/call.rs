//! What an output is kept by: options and settings.

use crate::cli::settings::Settings;
use crate::fs::Redaction;
use crate::model::Limits;
use crate::model::LimitsByTool as _;
use crate::model::Said;
use crate::redact::Rules;

/// What was asked for.
pub(in crate::cli) struct CallSettings {
    /// What the options say of the call.
    said: Said,
    pub(in crate::cli) settings: Settings,
    /// Those of the tool.
    pub(in crate::cli) limits: Limits,
    pub(super) redaction: Option<Redaction>,
}

impl CallSettings {
    /// What is asked for an output of which `said` is said, where `settings` hold.
    pub(in crate::cli) fn new(said: Said, settings: Settings) -> anyhow::Result<Self> {
        let redaction = settings.redaction()?;
        let limits = settings.limits(said.tool_name().as_deref());
        Ok(Self { said, settings, limits, redaction })
    }

    /// What the options say of the call, as it is to be stored.
    pub(in crate::cli) fn said(&self) -> Said {
        let mut said = self.said.clone();
        if let Some(redaction) = self.stored_redaction() {
            redaction.hide_said(&mut said);
        }
        said
    }

    /// What is masked before it is stored.
    pub(in crate::cli) fn stored_rules(&self) -> Option<&Rules> {
        self.stored_redaction().map(|redaction| redaction.rules.as_ref())
    }

    fn stored_redaction(&self) -> Option<&Redaction> {
        self.redaction.as_ref().filter(|redaction| redaction.stored)
    }
}
