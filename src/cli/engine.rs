//! The engine's options, from the settings.

use std::sync::Arc;

use crate::outcome::Failure;
use crate::settings::{Key, Settings};
use crate::{filter, models};
use ctxfs_core::model::{Component, LimitsByTool, Root};
use ctxfs_engine::{Engine, EngineOptions};
use ctxfs_store::Store;
use ctxfs_store::message::OtherMessages;
#[cfg(feature = "remote")]
use ctxfs_sync::remote::PublishedMessages;

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
        other_messages: None,
        far: None,
        other_hosts: None,
        descriptors: None,
    })
}

/// Opens the engine over `store`. Its message logs have what other hosts said.
pub(super) fn open(store: Store, options: EngineOptions) -> Arc<Engine> {
    let other_messages = other_messages(&store);
    Engine::new(store, EngineOptions { other_messages, ..options })
}

/// Returns what other hosts said in the conversations of `store`. A build without the remote tier
/// knows nothing of them.
pub(super) fn other_messages(store: &Store) -> Option<Arc<dyn OtherMessages>> {
    OTHER_MESSAGES.map(|of| of(store))
}

#[cfg(feature = "remote")]
const OTHER_MESSAGES: Option<OtherMessagesOf> =
    Some(|store| Arc::new(PublishedMessages::of(store)) as _);
#[cfg(not(feature = "remote"))]
const OTHER_MESSAGES: Option<OtherMessagesOf> = None;

type OtherMessagesOf = fn(&Store) -> Arc<dyn OtherMessages>;
