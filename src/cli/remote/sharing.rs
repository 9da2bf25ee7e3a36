//! The sharing of a server's store with other hosts.

use std::sync::Arc;
use std::time::Duration;

use crate::cli::remote::opened;
use crate::cli::remote::process::SharedObjects;
use crate::cli::settings::Key;
use crate::cli::settings::Settings;
use crate::engine::EngineOptions;
use crate::remote::Tier;
use crate::remote::TierOptions;
use crate::store::Store;

/// The time in which a server sends what is left when it ends.
const ENDING: Duration = Duration::from_secs(5);

/// Ends the sharing: sends what is left, for some seconds at most.
pub(in crate::cli) type Ending = Box<dyn FnOnce() + Send>;

/// Shares `store` with other hosts through `bucket`, if there is one: what is complete is sent, and
/// what others did is asked for. Returns the options of an engine that takes part, and what ends it.
///
/// Starts threads, and makes no request.
pub(in crate::cli) fn share(
    store: &Store,
    bucket: Option<SharedObjects>,
    settings: &Settings,
    options: EngineOptions,
) -> anyhow::Result<(EngineOptions, Ending)> {
    let Some(bucket) = bucket else { return Ok((options, Box::new(|| ()))) };
    let tier = Tier::new(store.clone(), bucket, tier_options(settings)?);
    tier.start()?;
    let options = EngineOptions {
        far: Some(Arc::new(tier.clone())),
        other_hosts: Some(Arc::new(tier.clone())),
        ..options
    };
    Ok((options, Box::new(move || tier.finish(ENDING))))
}

/// Returns the options of an engine that asks other hosts for what it lacks, if the settings name a
/// bucket. It sends nothing, and starts no thread before it asks. Where the settings lead to no
/// bucket, what is here is all.
pub(in crate::cli) fn ask(
    store: &Store,
    settings: &Settings,
    options: EngineOptions,
) -> EngineOptions {
    match asking(store, settings) {
        Ok(Some(tier)) => {
            let tier = Arc::new(tier);
            EngineOptions { far: Some(Arc::clone(&tier) as _), other_hosts: Some(tier), ..options }
        }
        Ok(None) => options,
        Err(error) => {
            tracing::warn!("other hosts are not asked: {error:#}");
            options
        }
    }
}

fn asking(store: &Store, settings: &Settings) -> anyhow::Result<Option<Tier>> {
    if settings.text(Key::RemoteUrl).is_none() {
        return Ok(None);
    }
    let bucket = Arc::new(opened::bucket(settings)?);
    let options = TierOptions { pushes: false, evicts: false, ..tier_options(settings)? };
    Ok(Some(Tier::new(store.clone(), bucket, options)))
}

fn tier_options(settings: &Settings) -> anyhow::Result<TierOptions> {
    let seconds = |key| Duration::from_secs(settings.number(key).unwrap_or_default());
    Ok(TierOptions {
        url: opened::url(settings)?.to_string(),
        pushes: settings.text(Key::RemotePush) == Some("sealed"),
        every: seconds(Key::RemoteEvery),
        poll: seconds(Key::RemotePoll),
        cache_bytes: settings.number(Key::RemoteCacheBytes).unwrap_or_default(),
        evicts: settings.is_on(Key::RemoteEvict),
        sweeps: settings.is_on(Key::RemoteSweep),
        write_once: settings.is_on(Key::WriteOnce),
    })
}
