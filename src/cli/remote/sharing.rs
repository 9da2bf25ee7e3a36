//! Automatic sharing of a store with other hosts, by mounts, gateways and commands.

use std::{path::Path, sync::Arc, time::Duration};

use crate::helper::bucket::{Starter, SupervisedProcess};
use crate::{SettingKey, Settings, remote::opened};
use ctxfs_engine::EngineOptions;
use ctxfs_store::Store;
use ctxfs_sync::remote::{Objects, ProcessObjects, Tier, TierOptions, known_bucket};

// Time to send the remaining changes when a server ends.
const ENDING: Duration = Duration::from_secs(5);
// Time to send the remaining changes when a user waits for the process to end.
const SHORT_ENDING: Duration = Duration::from_secs(3);

pub(crate) type SharedObjects = Arc<dyn Objects + Send>;

/// Returns the URL of the bucket if the settings name one. Fails if the URL cannot be used.
pub(crate) fn url(settings: &Settings) -> anyhow::Result<Option<&str>> {
    let text = settings.text(SettingKey::RemoteUrl);
    if text.is_some() {
        opened::url(settings)?;
    }
    Ok(text)
}

/// Fails if the settings name a bucket in a place where a mount of `store` at `target` must not have
/// it.
pub(crate) fn check_place(settings: &Settings, store: &Path, target: &Path) -> anyhow::Result<()> {
    if url(settings)?.is_none() {
        return Ok(());
    }
    opened::check_place(&opened::url(settings)?, store, Some(target))
}

/// Returns the bucket that the settings name. Requests go through a process that `starter` starts
/// at the first request. Returns `None` if no bucket is set.
///
/// If the bucket is a directory, the process is confined to that directory and cannot create it.
/// Therefore the directory is created here if this store may be the first to use the bucket.
pub(crate) fn bucket_process(
    settings: &Settings,
    store: &Store,
    starter: Starter,
) -> anyhow::Result<Option<SharedObjects>> {
    if url(settings)?.is_none() {
        return Ok(None);
    }
    let url = opened::url(settings)?.to_string();
    if settings.text(SettingKey::RemotePush) == Some("sealed")
        && known_bucket(store, &url)?.is_none()
    {
        let made = opened::bucket(settings).and_then(|bucket| Ok(bucket.make_directory()?));
        made.unwrap_or_else(|error| tracing::warn!("{error:#}"));
    }
    let line = Arc::new(SupervisedProcess::new(crate::helper::REMOTE_PROCESS, starter));
    Ok(Some(Arc::new(ProcessObjects::new(line))))
}

/// A function that ends the sharing. It first sends the remaining changes, for a few seconds at
/// most.
pub(crate) type SharingEnd = Box<dyn FnOnce() + Send>;

/// Shares `store` with other hosts through `bucket`, if there is one: fetches changes of other
/// hosts on request, and sends complete outputs, unless the settings leave sending to `ctxfs push`
/// and `put --durable`. Returns the options of an engine that takes part in the sharing, and a
/// function that ends it.
///
/// Makes no request. Starts a thread only for sending.
pub(crate) fn share(
    store: &Store,
    bucket: Option<SharedObjects>,
    settings: &Settings,
    options: EngineOptions,
) -> anyhow::Result<(EngineOptions, SharingEnd)> {
    let Some(bucket) = bucket else { return Ok((options, Box::new(|| ()))) };
    let tier = Tier::new(store.clone(), bucket, tier_options(settings)?);
    tier.start()?;
    let options = take_part(&Sharing(Some(tier.clone())), options);
    Ok((options, Box::new(move || tier.finish(ENDING))))
}

// Sharing by a process that accesses the bucket itself. `None` means that nothing is shared.
#[derive(Debug)]
pub(crate) struct Sharing(Option<Tier>);

/// Begins to share `store` if the settings name a bucket. Fetches changes of other hosts on
/// request. If `sends` is true, also sends complete outputs, unless the settings leave sending to
/// `ctxfs push` and `put --durable`. If the bucket cannot be used, logs the reason.
///
/// Makes no request. Starts a thread only for sending.
pub(crate) fn begin(store: &Store, settings: &Settings, sends: bool) -> Sharing {
    let tier = tier(store, settings, sends);
    Sharing(tier.unwrap_or_else(|error| {
        tracing::warn!("nothing is shared with other hosts: {error:#}");
        None
    }))
}

pub(crate) fn take_part(sharing: &Sharing, options: EngineOptions) -> EngineOptions {
    let Some(tier) = &sharing.0 else { return options };
    let tier = Arc::new(tier.clone());
    EngineOptions { far: Some(Arc::clone(&tier) as _), other_hosts: Some(tier), ..options }
}

pub(crate) fn end(sharing: &Sharing) {
    if let Some(tier) = &sharing.0 {
        tier.finish(SHORT_ENDING);
    }
}

/// Returns the options of an engine that fetches missing conversations and bytes from other hosts,
/// if the settings name a bucket. Sends no changes, and starts no thread before the first request.
/// If the bucket cannot be used, logs the reason.
pub(crate) fn ask(store: &Store, settings: &Settings, options: EngineOptions) -> EngineOptions {
    take_part(&begin(store, settings, false), options)
}

fn tier(store: &Store, settings: &Settings, sends: bool) -> anyhow::Result<Option<Tier>> {
    if settings.text(SettingKey::RemoteUrl).is_none() {
        return Ok(None);
    }
    let bucket = Arc::new(opened::bucket(settings)?);
    opened::check_place(bucket.url(), store.root(), None)?;
    let options = if sends {
        TierOptions { evicts: false, ..tier_options(settings)? }
    } else {
        asking_options(settings)?
    };
    let tier = Tier::new(store.clone(), bucket, options);
    tier.start()?;
    Ok(Some(tier))
}

pub(crate) fn asking_options(settings: &Settings) -> anyhow::Result<TierOptions> {
    Ok(TierOptions { pushes: false, evicts: false, sweeps: false, ..tier_options(settings)? })
}

fn tier_options(settings: &Settings) -> anyhow::Result<TierOptions> {
    let seconds = |key| Duration::from_secs(settings.number(key).unwrap_or_default());
    Ok(TierOptions {
        url: opened::url(settings)?.to_string(),
        pushes: settings.text(SettingKey::RemotePush) == Some("sealed"),
        every: seconds(SettingKey::RemoteEvery),
        poll: seconds(SettingKey::RemotePoll),
        cache_bytes: settings.number(SettingKey::RemoteCacheBytes).unwrap_or_default(),
        limits: opened::limits(settings),
        evicts: settings.is_on(SettingKey::RemoteEvict),
        sweeps: settings.is_on(SettingKey::RemoteSweep),
        write_once: settings.is_on(SettingKey::WriteOnce),
    })
}
