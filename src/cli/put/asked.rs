//! What an output is kept by: options and settings.

use crate::cli::config::Settings;
use crate::engine::Redaction;
use crate::model::Limits;
use crate::model::LimitsByTool as _;
use crate::model::Provenance;
use crate::redact::SecretRules;

/// What was asked for.
pub(in crate::cli) struct Asked {
    /// What the options say of the call.
    provenance: Provenance,
    pub(in crate::cli) settings: Settings,
    /// Those of the tool.
    pub(in crate::cli) limits: Limits,
    pub(super) redaction: Option<Redaction>,
}

impl Asked {
    /// What is asked for an output of which `said` is said, where `settings` hold.
    pub(in crate::cli) fn new(provenance: Provenance, settings: Settings) -> anyhow::Result<Self> {
        let redaction = settings.redaction()?;
        let limits = settings.limits(provenance.tool_name().as_deref());
        Ok(Self { provenance, settings, limits, redaction })
    }

    /// What the options say of the call, as it is to be stored.
    pub(in crate::cli) fn provenance(&self) -> Provenance {
        let mut provenance = self.provenance.clone();
        if let Some(redaction) = self.stored_redaction() {
            redaction.mask_arguments(&mut provenance);
        }
        provenance
    }

    /// What is masked before it is stored.
    pub(in crate::cli) fn stored_rules(&self) -> Option<&SecretRules> {
        self.stored_redaction().map(|redaction| redaction.rules.as_ref())
    }

    fn stored_redaction(&self) -> Option<&Redaction> {
        self.redaction.as_ref().filter(|redaction| redaction.stored)
    }
}
