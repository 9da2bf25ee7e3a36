//! The options and settings that apply to the output of one call.

use crate::cli::settings::Settings;
use crate::fs::Redaction;
use crate::model::Limits;
use crate::model::LimitsByTool as _;
use crate::model::Said;
use crate::redact::Rules;

/// The options and settings for the output of one call.
pub(in crate::cli) struct CallSettings {
    /// The description of the call that the options give.
    said: Said,
    pub(in crate::cli) settings: Settings,
    /// The limits for the tool.
    pub(in crate::cli) limits: Limits,
    pub(super) redaction: Option<Redaction>,
}

impl CallSettings {
    /// Returns the options for a call that `said` describes, under `settings`.
    pub(in crate::cli) fn new(said: Said, settings: Settings) -> anyhow::Result<Self> {
        let redaction = settings.redaction()?;
        let limits = settings.limits(said.tool_name().as_deref());
        Ok(Self { said, settings, limits, redaction })
    }

    /// Returns the description of the call as it is to be stored.
    pub(in crate::cli) fn said(&self) -> Said {
        let mut said = self.said.clone();
        if let Some(redaction) = self.stored_redaction() {
            redaction.hide_said(&mut said);
        }
        said
    }

    /// Returns the rules for masking before storing, if that is on.
    pub(in crate::cli) fn stored_rules(&self) -> Option<&Rules> {
        self.stored_redaction().map(|redaction| redaction.rules.as_ref())
    }

    fn stored_redaction(&self) -> Option<&Redaction> {
        self.redaction.as_ref().filter(|redaction| redaction.stored)
    }
}
