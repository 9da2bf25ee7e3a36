//! A model that cannot be asked as it is configured.

use crate::extract::{
    LanguageModel, ModelFailure, ModelFailureKind, ModelProfile, ModelReply, ModelRequest, Stopped,
    TokenUsage,
};

/// A model that says why it cannot be asked, so that the next target is.
#[derive(Debug)]
pub struct UnusableModel {
    /// Its settings.
    pub profile: ModelProfile,
    /// The reason, without a key.
    pub why: String,
}

impl LanguageModel for UnusableModel {
    fn profile(&self) -> &ModelProfile {
        &self.profile
    }

    fn ask(&self, _: &ModelRequest, _: &Stopped<'_>) -> Result<ModelReply, ModelFailure> {
        let (message, usage) = (self.why.clone(), TokenUsage::default());
        Err(ModelFailure { kind: ModelFailureKind::Rejected, message, usage })
    }
}
