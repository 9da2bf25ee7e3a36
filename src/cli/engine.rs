//! The engine's options, from the settings.

use std::sync::Arc;

use crate::cli::filter;
use crate::cli::models;
use crate::cli::outcome::Failure;
use crate::cli::settings::Key;
use crate::cli::settings::Settings;
use crate::engine::EngineOptions;
use crate::model::Component;
use crate::model::LimitsByTool;
use crate::model::Root;

/// Returns the options of an engine whose tree its readers see at `root`. If that is the root of a
/// single conversation, `id` is the conversation.
pub(super) fn options(
    settings: &Arc<Settings>,
    root: &Root,
    id: Option<&Component>,
) -> Result<EngineOptions, Failure> {
    let defaults = EngineOptions::default();
    let (Root::All(prefix) | Root::One(prefix)) = root;
    Ok(EngineOptions {
        allow_other: false,
        write_once: settings.is_on(Key::WriteOnce),
        prefix: prefix.clone(),
        only: id.filter(|_| matches!(root, Root::One(_))).cloned(),
        max_artifact: settings.number(Key::MaxArtifact),
        max_terminal: settings.number(Key::MaxTerminal),
        quota: settings.number(Key::Quota),
        keep: settings.keep(),
        min_free: settings.number(Key::MinFree).unwrap_or(defaults.min_free),
        view_deadline: defaults.view_deadline,
        kept_views: settings.number(Key::CacheBytes).unwrap_or(defaults.kept_views),
        limits: Arc::clone(settings) as Arc<dyn LimitsByTool>,
        redaction: settings.redaction()?,
        filter_command: Some(filter::command()),
        disk_cache_bytes: settings.number(Key::DiskCacheBytes).unwrap_or(defaults.disk_cache_bytes),
        models: Arc::new(models::models(settings)?),
        descriptors: None,
    })
}
