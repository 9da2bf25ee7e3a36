//! The models of the settings.

use std::sync::{Arc, OnceLock};

use crate::extract::{ExtractSettings, LanguageModel, TargetSettings};

/// Makes the model of a target. One that cannot be asked says so when it is asked.
type MakeModel = dyn Fn(&TargetSettings) -> Arc<dyn LanguageModel> + Send + Sync;

/// The models of the settings. Each is made when a question first needs one.
pub struct Models {
    settings: ExtractSettings,
    make: Box<MakeModel>,
    made: OnceLock<Vec<Arc<dyn LanguageModel>>>,
}

impl Models {
    /// Takes the settings, and what makes the model of a target.
    pub fn new(
        settings: ExtractSettings,
        make: impl Fn(&TargetSettings) -> Arc<dyn LanguageModel> + Send + Sync + 'static,
    ) -> Self {
        Self { settings, make: Box::new(make), made: OnceLock::new() }
    }

    /// Returns the settings.
    pub fn settings(&self) -> &ExtractSettings {
        &self.settings
    }

    /// Returns the models of the targets, in their order.
    pub fn all(&self) -> &[Arc<dyn LanguageModel>] {
        self.made.get_or_init(|| self.settings.targets.iter().map(&self.make).collect())
    }
}

/// No model: what needs none still works.
impl Default for Models {
    fn default() -> Self {
        let settings = ExtractSettings::default();
        Self { settings, make: Box::new(|_| unreachable!("no target")), made: OnceLock::default() }
    }
}

impl std::fmt::Debug for Models {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Models").field("settings", &self.settings).finish_non_exhaustive()
    }
}
