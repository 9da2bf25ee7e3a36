//! Creates engines from the settings, with their options and language models. Also runs the jq
//! filters of engines in separate processes.

use std::io::{self, Write as _};
use std::sync::Arc;

use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};

use crate::{Failure, SettingKey, Settings, confine, env, helper::Role};
use ctxfs_core::model::{Component, LimitsByTool, Root};
use ctxfs_engine::{Engine, EngineOptions};
use ctxfs_models::extract::{LanguageModel, Models, TargetSettings};
use ctxfs_models::llm::{HttpModel, UnusableModel};

/// Returns the options of an engine whose readers see the tree at `root`. If `root` is the root of
/// a single conversation, `id` is the id of that conversation, and otherwise `id` is ignored.
pub(crate) fn options(
    settings: &Arc<Settings>,
    root: &Root,
    id: Option<&Component>,
) -> Result<EngineOptions, Failure> {
    let defaults = EngineOptions::default();
    Ok(EngineOptions {
        allow_other: false,
        write_once: settings.is_on(SettingKey::WriteOnce),
        root: root.clone(),
        only: id.filter(|_| matches!(root, Root::One(_))).cloned(),
        max_artifact: settings.number(SettingKey::MaxArtifact),
        max_terminal: settings.number(SettingKey::MaxTerminal),
        quota: settings.number(SettingKey::Quota),
        keep: settings.keep(),
        min_free: settings.number(SettingKey::MinFree).unwrap_or(defaults.min_free),
        view_deadline: defaults.view_deadline,
        kept_views: settings.number(SettingKey::CacheBytes).unwrap_or(defaults.kept_views),
        limits: Arc::clone(settings) as Arc<dyn LimitsByTool>,
        redaction: settings.redaction()?,
        filter_command: Some(Role::RunFilter.words().into()),
        disk_cache_bytes: settings
            .number(SettingKey::DiskCacheBytes)
            .unwrap_or(defaults.disk_cache_bytes),
        models: Arc::new(models(settings)?),
        other_messages: None,
        far: None,
        other_hosts: None,
        descriptors: None,
    })
}

/// Opens the engine for `store`, with message logs that include the messages of other hosts.
pub(crate) fn open(store: ctxfs_store::Store, options: EngineOptions) -> Arc<Engine> {
    let other_messages = Arc::new(ctxfs_sync::remote::PublishedMessages::of(&store));
    Engine::new(store, EngineOptions { other_messages: Some(other_messages), ..options })
}

/// Returns the language models. Reads keys and sends requests only once a question needs a model.
pub(crate) fn models(settings: &Settings) -> Result<Models, Failure> {
    let settings = settings.extraction()?;
    let timeout = settings.timeout;
    Ok(Models::new(settings, move |target| model(target, timeout)))
}

pub(crate) fn model(
    target: &TargetSettings,
    timeout: std::time::Duration,
) -> Arc<dyn LanguageModel> {
    let made = api_key(target)
        .and_then(|key| HttpModel::new(target, timeout, key).map_err(|error| error.to_string()));
    match made {
        Ok(model) => Arc::new(model),
        Err(why) => Arc::new(UnusableModel { profile: target.profile.clone(), why }),
    }
}

fn api_key(target: &TargetSettings) -> Result<Option<String>, String> {
    let Some(variable) = &target.api_key_env else { return Ok(None) };
    let missing = || {
        let target = &target.profile.target;
        format!("`{target}` needs a key: the environment variable `{variable}` is not set")
    };
    env::key(variable).map(Some).ok_or_else(missing)
}

// The number of standard descriptors: input, output and error.
const DESCRIPTORS: u64 = 3;

/// Runs a jq filter on standard input. Confines the process to computing, and limits its memory.
pub(crate) fn run_filter() -> anyhow::Result<()> {
    limit_filter()?;
    std::panic::set_hook(Box::new(|panic| {
        // The caller sees only this message.
        drop(writeln!(io::stderr(), "{}", panic.payload_as_str().unwrap_or("it panicked")));
    }));
    Ok(ctxfs_view::run_filter(&mut io::stdin().lock(), &mut io::stdout().lock())?)
}

// Limits the resources of this process. It is killed when its parent ends, and the parent enforces
// the deadline.
fn limit_filter() -> anyhow::Result<()> {
    let limits = [
        (Resource::As, ctxfs_view::FILTER_MEMORY),
        (Resource::Core, 0),
        (Resource::Fsize, 0),
        (Resource::Nofile, DESCRIPTORS),
    ];
    set_parent_process_death_signal(Some(Signal::KILL))?;
    confine::filter()?;
    for (what, most) in limits {
        setrlimit(what, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    Ok(())
}
