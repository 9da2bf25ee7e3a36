//! The bucket that the settings name, opened for a store.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::context::Context;
use crate::outcome::{Failure, FailureKind};
use crate::remote::holder;
use crate::remote::waiting::Waiting;
use crate::settings::{Key, Settings};
use crate::{env, places};
use ctxfs_core::model::{Component, visible};
use ctxfs_store::Store;
use ctxfs_sync::bucket::{
    Bucket, BucketError, BucketId, BucketUrl, CONVERSATIONS, Deadline, Identity, conversation_of,
};
use ctxfs_sync::remote::{
    FarArtifacts, Home, Limits, Moment, PushLock, RemoteError, Sync, known_bucket,
};

/// The time that a request is repeated for.
const PATIENCE: Duration = Duration::from_mins(1);
/// The time that another process of this store is waited for, and how often it is asked.
const WAIT: Duration = Duration::from_mins(1);
const AGAIN: Duration = Duration::from_millis(50);
/// The most conversations of a bucket that are listed.
const MOST_CONVERSATIONS: usize = 1_000_000;

/// The use that a command makes of the bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// It writes segments there. The first host marks the bucket.
    Publish,
    /// It does that, also where a bucket that this store knows is gone for good.
    Begin,
    /// It reads. The bucket must have been used.
    Read,
}

/// A bucket, opened for a store by the one process that may use it now.
pub(super) struct Opened {
    pub(super) store: Store,
    pub(super) bucket: Bucket,
    pub(super) home: Home,
    id: BucketId,
    cache_bytes: u64,
    limits: Limits,
    lock: PushLock,
    /// The end of all requests, if there is one.
    until: Option<Instant>,
}

/// The names directly below the conversations of a bucket.
pub(super) struct Names {
    /// The conversations.
    pub(super) ids: BTreeSet<Component>,
    /// Names that are none, which no ctxfs gave.
    pub(super) odd: Vec<String>,
}

/// Returns where the bucket is.
pub(super) fn url(settings: &Settings) -> anyhow::Result<BucketUrl> {
    let hint = "set `url` in `[remote]` of ~/.config/ctxfs/ctxfs.toml, or `CTXFS_REMOTE_URL`: \
                docs/REMOTE.md";
    let none = || Failure::usage("no bucket is set that hosts share", hint);
    let text = settings.text(Key::RemoteUrl).ok_or_else(none)?;
    Ok(BucketUrl::parse(text).map_err(|error| Failure::usage(error.to_string(), hint))?)
}

/// Returns the limits of downloads.
pub(super) fn limits(settings: &Settings) -> Limits {
    let min_free = settings.number(Key::MinFree).unwrap_or_default();
    Limits { min_free, quota: settings.number(Key::Quota) }
}

/// Opens the bucket of the settings, without a request.
pub(super) fn bucket(settings: &Settings) -> anyhow::Result<Bucket> {
    Ok(Bucket::open(&url(settings)?, env::of_object_stores())?)
}

/// Asks who the bucket is. Fails if it is write-once and this host is not, or the other way round,
/// and if the store knows a bucket there that is there no more.
pub(super) fn identify(
    bucket: &Bucket,
    store: &Store,
    settings: &Settings,
    purpose: Purpose,
    deadline: Deadline,
) -> anyhow::Result<Identity> {
    let write_once = settings.is_on(Key::WriteOnce);
    let url = bucket.url().to_string();
    let known = known_bucket(store, &url)?;
    let identity = match (purpose, known) {
        (Purpose::Begin, _) | (Purpose::Publish, None) => Some(bucket.found(write_once, deadline)?),
        (Purpose::Publish, Some(_)) => bucket.met(write_once, deadline)?,
        (Purpose::Read, _) => {
            let identity = bucket.identity(deadline)?;
            identity.map(|found| found.agreeing(write_once)).transpose()?
        }
    };
    let absent = || {
        if let Some(id) = known {
            return anyhow::Error::from(RemoteError::Lost { url, id });
        }
        let text = format!("no host has sent anything to `{}` yet", bucket.url());
        let hint = "`ctxfs push` on a host that has conversations, or correct `[remote] url`";
        Failure::new(FailureKind::Failed, text, hint).into()
    };
    identity.ok_or_else(absent)
}

impl Opened {
    /// Opens the bucket, and waits until no other process uses it for this store. Tells a person
    /// why it waits for the bucket, unless `is_quiet`.
    pub(super) fn new(
        settings: &Settings,
        (purpose, is_quiet): (Purpose, bool),
        context: &mut Context,
    ) -> anyhow::Result<Self> {
        Self::until(settings, (purpose, is_quiet), None, context)
    }

    /// Does that, with an end of all requests.
    pub(super) fn until(
        settings: &Settings,
        (purpose, is_quiet): (Purpose, bool),
        until: Option<Instant>,
        context: &mut Context,
    ) -> anyhow::Result<Self> {
        let bucket = bucket(settings)?;
        let store = Store::open(&settings.store(&context.environment)?)?;
        let shown = waiting(&bucket, is_quiet);
        let identity = identify(&bucket, &store, settings, purpose, deadline(until))?;
        drop(shown);
        let limits = limits(settings);
        let home = Home::open(&store, identity.id)?.within(limits);
        let lock = wait_for(&home, &store, until, context)?;
        home.keep_bucket(&bucket.url().to_string(), identity.write_once)?;
        if purpose != Purpose::Read && !identity.conditional {
            // Nobody can tell whether a copy of this store has taken the next number.
            home.new_writer()?;
        }
        let cache_bytes = settings.number(Key::RemoteCacheBytes).unwrap_or_default();
        Ok(Self { store, bucket, home, id: identity.id, cache_bytes, limits, lock, until })
    }

    /// Hands out what the layer `remote` needs.
    pub(super) fn sync<T>(&self, with: impl FnOnce(&Sync<'_>) -> T) -> T {
        with(&Sync {
            store: &self.store,
            bucket: &self.bucket,
            home: &self.home,
            lock: &self.lock,
            now: &Moment::now,
            deadline: &|| self.deadline(),
        })
    }

    /// Returns the artifacts whose bytes are elsewhere.
    pub(super) fn far(&self) -> Result<FarArtifacts, RemoteError> {
        let home = Home::open(&self.store, self.id)?.within(self.limits);
        FarArtifacts::new(Arc::new(self.bucket.clone()), home, self.cache_bytes, PATIENCE)
    }

    /// Returns until when a request that begins now is repeated.
    pub(super) fn deadline(&self) -> Deadline {
        deadline(self.until)
    }

    /// Returns the conversations that are named, or else all that the bucket has.
    pub(super) fn wanted(&self, named: &[String]) -> anyhow::Result<BTreeSet<Component>> {
        if !named.is_empty() {
            return Ok(named
                .iter()
                .map(|id| places::conversation_id(id))
                .collect::<Result<_, _>>()?);
        }
        Ok(self.names()?.ids)
    }

    fn names(&self) -> Result<Names, BucketError> {
        let mut ids = BTreeSet::new();
        let mut odd = self.bucket.list_odd(CONVERSATIONS)?;
        for name in self.bucket.list_dirs(CONVERSATIONS, MOST_CONVERSATIONS, self.deadline())? {
            match conversation_of(&name) {
                Some(id) => _ = ids.insert(id),
                None => odd.push(name),
            }
        }
        Ok(Names { ids, odd })
    }

    /// Fails if the last look found nothing of a conversation: whoever named it meant another one.
    pub(super) fn must_have(&self, id: &Component) -> anyhow::Result<()> {
        let notes = self.home.conversation(id)?;
        if !notes.segments()?.is_empty() || !notes.refused()?.is_empty() {
            return Ok(());
        }
        let text = format!("the bucket has no conversation `{}`", visible::whole(&id.to_text()));
        let hint = "`ctxfs ls --remote` lists those that it has";
        Err(Failure::new(FailureKind::Failed, text, hint).into())
    }

    /// Returns what [`Self::wanted`] does, and where none is named what is odd beside them. All are
    /// also those of the store that the bucket has had: it may have lost them.
    pub(super) fn wanted_or_lost(&self, named: &[String]) -> anyhow::Result<Names> {
        if !named.is_empty() {
            return Ok(Names { ids: self.wanted(named)?, odd: Vec::new() });
        }
        let Names { mut ids, odd } = self.names()?;
        for id in self.home.known_conversations()? {
            if !ids.contains(&id)
                && self.store.conversation(&id)?.is_some()
                && !self.home.conversation(&id)?.segments()?.is_empty()
            {
                ids.insert(id);
            }
        }
        Ok(Names { ids, odd })
    }
}

/// Shows what the first request waits for.
fn waiting(bucket: &Bucket, is_quiet: bool) -> Waiting {
    let asked = bucket.clone();
    Waiting::alone(is_quiet, move || match asked.last_failure() {
        Some(why) => format!("waiting for the bucket `{}`: {why}", asked.url()),
        None => format!("waiting for the bucket `{}`", asked.url()),
    })
}

fn deadline(until: Option<Instant>) -> Deadline {
    let ordinary = Deadline::after(PATIENCE);
    until.map_or(ordinary, |until| Deadline::at(until).min(ordinary))
}

/// Waits until no other process pushes or looks for this store.
fn wait_for(
    home: &Home,
    store: &Store,
    until: Option<Instant>,
    context: &mut Context,
) -> anyhow::Result<PushLock> {
    let path = store.root().join("remote/lock");
    let who = || holder::of(&path).unwrap_or_else(|| "another process".to_owned());
    let end = Instant::now() + WAIT;
    let end = until.map_or(end, |until| until.min(end));
    let mut is_told = false;
    loop {
        if let Some(lock) = home.lock()? {
            return Ok(lock);
        }
        if Instant::now() >= end {
            let text = format!("{} uses the bucket for this store", who());
            let hint = "wait until it has ended, then try again";
            return Err(Failure::new(FailureKind::Failed, text, hint).into());
        }
        if !std::mem::replace(&mut is_told, true) {
            context.printer.say(&format_args!("waiting for {}, which uses the bucket", who()));
        }
        thread::sleep(AGAIN);
    }
}
