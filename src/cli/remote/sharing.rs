//! The sharing of a server's store with other hosts.

use std::sync::Arc;
use std::time::Duration;

use crate::remote::opened;
use crate::remote::process::SharedObjects;
use crate::settings::{Key, Settings};
use ctxfs_engine::EngineOptions;
use ctxfs_store::Store;
use ctxfs_sync::remote::{Tier, TierOptions};

/// The time in which a server sends what is left when it ends.
const ENDING: Duration = Duration::from_secs(5);
/// The same for a process whose end somebody waits for.
const SHORT_ENDING: Duration = Duration::from_secs(3);

/// Ends the sharing: sends what is left, for some seconds at most.
pub(crate) type Ending = Box<dyn FnOnce() + Send>;

/// Shares `store` with other hosts through `bucket`, if there is one: what is complete is sent, and
/// what others did is asked for. Returns the options of an engine that takes part, and what ends
/// it.
///
/// Starts threads, and makes no request.
pub(crate) fn share(
    store: &Store,
    bucket: Option<SharedObjects>,
    settings: &Settings,
    options: EngineOptions,
) -> anyhow::Result<(EngineOptions, Ending)> {
    let Some(bucket) = bucket else { return Ok((options, Box::new(|| ()))) };
    let tier = Tier::new(store.clone(), bucket, tier_options(settings)?);
    tier.start()?;
    let options = take_part(&Sharing(Some(tier.clone())), options);
    Ok((options, Box::new(move || tier.finish(ENDING))))
}

/// The sharing of a process that asks the bucket itself. `None` inside: what is here is all.
#[derive(Debug)]
pub(crate) struct Sharing(Option<Tier>);

/// Begins to share `store`, if the settings name a bucket: what is complete is sent, unless only
/// commands send, and what others did is asked for. Where the settings lead to no bucket, says so.
///
/// Starts a thread, and makes no request.
pub(crate) fn begin(store: &Store, settings: &Settings) -> Sharing {
    sharing(store, settings, true)
}

/// Returns the options of an engine that takes part in a sharing.
pub(crate) fn take_part(sharing: &Sharing, options: EngineOptions) -> EngineOptions {
    let Some(tier) = &sharing.0 else { return options };
    let tier = Arc::new(tier.clone());
    EngineOptions { far: Some(Arc::clone(&tier) as _), other_hosts: Some(tier), ..options }
}

/// Ends a sharing: sends what is left, for some seconds at most. Returns at once if nothing is.
pub(crate) fn end(sharing: &Sharing) {
    if let Some(tier) = &sharing.0 {
        tier.finish(SHORT_ENDING);
    }
}

/// Returns the options of an engine that asks other hosts for what it lacks, if the settings name a
/// bucket. It sends nothing, and starts no thread before it asks. Where the settings lead to no
/// bucket, what is here is all.
pub(crate) fn ask(store: &Store, settings: &Settings, options: EngineOptions) -> EngineOptions {
    take_part(&sharing(store, settings, false), options)
}

fn sharing(store: &Store, settings: &Settings, sends: bool) -> Sharing {
    let tier = tier(store, settings, sends);
    Sharing(tier.unwrap_or_else(|error| {
        tracing::warn!("nothing is shared with other hosts: {error:#}");
        None
    }))
}

fn tier(store: &Store, settings: &Settings, sends: bool) -> anyhow::Result<Option<Tier>> {
    if settings.text(Key::RemoteUrl).is_none() {
        return Ok(None);
    }
    let bucket = Arc::new(opened::bucket(settings)?);
    let options = if sends {
        TierOptions { evicts: false, ..tier_options(settings)? }
    } else {
        asking_options(settings)?
    };
    let tier = Tier::new(store.clone(), bucket, options);
    tier.start()?;
    Ok(Some(tier))
}

/// Returns the options of a tier that sends nothing and removes nothing.
pub(super) fn asking_options(settings: &Settings) -> anyhow::Result<TierOptions> {
    Ok(TierOptions { pushes: false, evicts: false, sweeps: false, ..tier_options(settings)? })
}

fn tier_options(settings: &Settings) -> anyhow::Result<TierOptions> {
    let seconds = |key| Duration::from_secs(settings.number(key).unwrap_or_default());
    Ok(TierOptions {
        url: opened::url(settings)?.to_string(),
        pushes: settings.text(Key::RemotePush) == Some("sealed"),
        every: seconds(Key::RemoteEvery),
        poll: seconds(Key::RemotePoll),
        cache_bytes: settings.number(Key::RemoteCacheBytes).unwrap_or_default(),
        limits: opened::limits(settings),
        evicts: settings.is_on(Key::RemoteEvict),
        sweeps: settings.is_on(Key::RemoteSweep),
        write_once: settings.is_on(Key::WriteOnce),
    })
}
