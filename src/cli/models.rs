//! The language models of the settings.

use std::sync::Arc;
use std::time::Duration;

use crate::env;
use crate::outcome::Failure;
use crate::settings::Settings;
use ctxfs_models::extract::{LanguageModel, Models, TargetSettings};
use ctxfs_models::llm;
use ctxfs_models::llm::UnusableModel;

/// Returns the models. Asks nothing, and reads no key, before a question needs one.
pub(super) fn models(settings: &Settings) -> Result<Models, Failure> {
    let settings = settings.extraction()?;
    let timeout = settings.timeout;
    Ok(Models::new(settings, move |target| model(target, timeout)))
}

/// Returns the model of a target.
pub(super) fn model(target: &TargetSettings, timeout: Duration) -> Arc<dyn LanguageModel> {
    let made = key(target)
        .and_then(|key| llm::model(target, timeout, key).map_err(|error| error.to_string()));
    match made {
        Ok(model) => Arc::new(model),
        Err(why) => Arc::new(UnusableModel { profile: target.profile.clone(), why }),
    }
}

fn key(target: &TargetSettings) -> Result<Option<String>, String> {
    let Some(variable) = &target.api_key_env else { return Ok(None) };
    let missing = || {
        let target = &target.profile.target;
        format!("`{target}` needs a key: the environment variable `{variable}` is not set")
    };
    env::key(variable).map(Some).ok_or_else(missing)
}
