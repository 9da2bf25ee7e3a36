//! The options and settings that apply to the output of one call.

use crate::cli::settings::Settings;
use crate::engine::Redaction;
use crate::model::Limits;
use crate::model::LimitsByTool as _;
use crate::model::Provenance;
use crate::redact::SecretRules;

/// The options and settings for the output of one call.
pub(in crate::cli) struct CallSettings {
    /// The description of the call that the options give.
    provenance: Provenance,
    pub(in crate::cli) settings: Settings,
    /// The limits for the tool.
    pub(in crate::cli) limits: Limits,
    pub(super) redaction: Option<Redaction>,
}

impl CallSettings {
    /// Returns the options for a call that `provenance` describes, under `settings`.
    pub(in crate::cli) fn new(provenance: Provenance, settings: Settings) -> anyhow::Result<Self> {
        let redaction = settings.redaction()?;
        let limits = settings.limits(provenance.tool_name().as_deref());
        Ok(Self { provenance, settings, limits, redaction })
    }

    /// Returns the description of the call as it is to be stored.
    pub(in crate::cli) fn provenance(&self) -> Provenance {
        let mut provenance = self.provenance.clone();
        if let Some(redaction) = self.stored_redaction() {
            redaction.mask_arguments(&mut provenance);
        }
        provenance
    }

    /// Returns the rules for masking before storing, if that is on.
    pub(in crate::cli) fn stored_rules(&self) -> Option<&SecretRules> {
        self.stored_redaction().map(|redaction| redaction.rules.as_ref())
    }

    fn stored_redaction(&self) -> Option<&Redaction> {
        self.redaction.as_ref().filter(|redaction| redaction.stored)
    }
}
