//! The bucket that the settings name. For each store, only one process at a time opens it.

use std::time::{Duration, Instant};
use std::{collections::BTreeSet, fs, os::unix::fs::MetadataExt as _, path::Path, thread};

use crate::remote::report::WaitingBar;
use crate::{Context, Failure, FailureKind, SettingKey, Settings, env, places};
use ctxfs_core::model::{Component, visible};
use ctxfs_fuse::kernel::mount;
use ctxfs_store::Store;
use ctxfs_sync::bucket::{
    Bucket, BucketError, BucketId, BucketUrl, CONVERSATIONS, Deadline, Identity, Objects as _,
    conversation_of,
};
use ctxfs_sync::remote::{
    Home, Limits, Moment, PushLock, RemoteArtifacts, RemoteError, Synchronizer,
};

// Time during which a failed request is retried.
const PATIENCE: Duration = Duration::from_mins(1);
// Maximum time to wait until no other process uses the bucket for this store.
const WAIT: Duration = Duration::from_mins(1);
const AGAIN: Duration = Duration::from_millis(50);
// Time limit of a command without a time limit.
const NO_LIMIT: Duration = Duration::from_hours(24 * 365);
const MOST_CONVERSATIONS: usize = 1_000_000;

/// The purpose for which a command opens the bucket. `Publish` initializes a bucket that no host
/// has used yet, unless this store knows a bucket that is now missing. `Begin` initializes it in
/// any case. For `Read`, the bucket must exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Publish,
    Begin,
    Read,
}

/// An open bucket. While it is open, no other process can use it for this store. A failed request
/// is retried for a minute, but not after `until`.
pub(crate) struct OpenBucket {
    pub(crate) store: Store,
    pub(crate) bucket: Bucket,
    pub(crate) home: Home,
    pub(crate) id: BucketId,
    cache_bytes: u64,
    limits: Limits,
    lock: PushLock,
    until: Instant,
}

pub(crate) struct BucketNames {
    pub(crate) ids: BTreeSet<Component>,
    // Names that are not valid names of conversations. ctxfs did not create them.
    pub(crate) odd: Vec<String>,
}

pub(crate) fn url(settings: &Settings) -> anyhow::Result<BucketUrl> {
    let hint = "set `url` in `[remote]` of ~/.config/ctxfs/ctxfs.toml, or `CTXFS_REMOTE_URL`: \
                docs/REMOTE.md";
    let none = || Failure::usage("no bucket is set that hosts share", hint);
    let text = settings.text(SettingKey::RemoteUrl).ok_or_else(none)?;
    Ok(BucketUrl::parse(text).map_err(|error| Failure::usage(error.to_string(), hint))?)
}

/// Fails if the bucket is a directory inside `store`, inside a mount of ctxfs, or inside the
/// mountpoint `target`. What is sent would become a conversation that is sent, and so on.
pub(crate) fn check_place(
    url: &BucketUrl,
    store: &Path,
    target: Option<&Path>,
) -> anyhow::Result<()> {
    let Some(bucket) = url.local_directory().map(places::resolve) else { return Ok(()) };
    let mounts = mount::mounts()?.into_iter().map(|entry| (entry.target, "mountpoint"));
    let target = target.map(|target| (places::resolve(target), "mountpoint"));
    let store = (places::resolve(store), "store");
    let mut all = mounts.chain(target).chain([store]);
    let Some((place, what)) = all.find(|(place, _)| bucket.starts_with(place)) else {
        return Ok(());
    };
    let text = format!("the bucket `{url}` lies inside the {what} `{}`", place.display());
    Err(Failure::usage(text, "name another directory in `[remote] url`").into())
}

pub(crate) fn limits(settings: &Settings) -> Limits {
    let min_free = settings.number(SettingKey::MinFree).unwrap_or_default();
    Limits { min_free, quota: settings.number(SettingKey::Quota) }
}

pub(crate) fn bucket(settings: &Settings) -> anyhow::Result<Bucket> {
    Ok(Bucket::open(&url(settings)?, env::of_object_stores())?)
}

/// Reads the identity of the bucket. Fails if the bucket and this host disagree about whether it is
/// write-once, or if the store remembers a bucket at this URL that no longer exists.
pub(crate) fn identify(
    bucket: &Bucket,
    store: &Store,
    settings: &Settings,
    purpose: Purpose,
    deadline: Deadline,
) -> anyhow::Result<Identity> {
    let write_once = settings.is_on(SettingKey::WriteOnce);
    let url = bucket.url().to_string();
    let known = ctxfs_sync::remote::known_bucket(store, &url)?;
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

impl OpenBucket {
    /// Waits until no other process uses the bucket for this store, and opens it. Unless `is_quiet`
    /// is true, a terminal shows the reason for the wait.
    pub(crate) fn new(
        settings: &Settings,
        (purpose, is_quiet): (Purpose, bool),
        context: &mut Context,
    ) -> anyhow::Result<Self> {
        Self::until(settings, (purpose, is_quiet), Instant::now() + NO_LIMIT, context)
    }

    pub(crate) fn until(
        settings: &Settings,
        (purpose, is_quiet): (Purpose, bool),
        until: Instant,
        context: &mut Context,
    ) -> anyhow::Result<Self> {
        let bucket = bucket(settings)?;
        let store = Store::open(&settings.store(&context.environment)?)?;
        check_place(bucket.url(), store.root(), None)?;
        let shown = waiting_bar(&bucket, is_quiet);
        let deadline = Deadline::after(PATIENCE).min(Deadline(until));
        let identity = identify(&bucket, &store, settings, purpose, deadline)?;
        drop(shown);
        let limits = limits(settings);
        let home = Home::open(&store, identity.id)?.within(limits);
        let lock = wait_for_lock(&home, &store, until, context)?;
        home.keep_bucket(&bucket.url().to_string(), identity.write_once)?;
        if purpose != Purpose::Read && !identity.conditional {
            // A copy of this store may already have used the next number.
            home.new_writer()?;
        }
        let cache_bytes = settings.number(SettingKey::RemoteCacheBytes).unwrap_or_default();
        Ok(Self { store, bucket, home, id: identity.id, cache_bytes, limits, lock, until })
    }

    pub(crate) fn sync<T>(&self, with: impl FnOnce(&Synchronizer<'_>) -> T) -> T {
        with(&Synchronizer {
            store: &self.store,
            bucket: &self.bucket,
            home: &self.home,
            lock: &self.lock,
            now: &Moment::now,
            deadline: &|| self.deadline(),
        })
    }

    pub(crate) fn far(&self) -> Result<RemoteArtifacts, RemoteError> {
        let home = Home::open(&self.store, self.id)?.within(self.limits);
        RemoteArtifacts::new(
            std::sync::Arc::new(self.bucket.clone()),
            home,
            self.cache_bytes,
            PATIENCE,
        )
    }

    pub(crate) fn deadline(&self) -> Deadline {
        Deadline::after(PATIENCE).min(Deadline(self.until))
    }

    pub(crate) fn selected(&self, named: &[String]) -> anyhow::Result<BTreeSet<Component>> {
        if !named.is_empty() {
            return Ok(named
                .iter()
                .map(|id| places::conversation_id(id))
                .collect::<Result<_, _>>()?);
        }
        Ok(self.names()?.ids)
    }

    fn names(&self) -> Result<BucketNames, BucketError> {
        let mut ids = BTreeSet::new();
        let mut odd = self.bucket.list_odd(CONVERSATIONS)?;
        for name in self.bucket.list_dirs(CONVERSATIONS, MOST_CONVERSATIONS, self.deadline())? {
            match conversation_of(&name) {
                Some(id) => _ = ids.insert(id),
                None => odd.push(name),
            }
        }
        Ok(BucketNames { ids, odd })
    }

    pub(crate) fn require(&self, id: &Component) -> anyhow::Result<()> {
        let notes = self.home.conversation(id)?;
        if !notes.segments()?.is_empty() || !notes.refused()?.is_empty() {
            return Ok(());
        }
        let text = format!("the bucket has no conversation `{}`", visible::whole(&id.to_text()));
        let hint = "`ctxfs ls --remote` lists those that it has";
        Err(Failure::new(FailureKind::Failed, text, hint).into())
    }

    /// Returns the conversations in `named`, or, if `named` is empty, all conversations that the
    /// bucket has or has lost. Also returns names in the bucket that ctxfs did not create.
    pub(crate) fn selected_or_lost(&self, named: &[String]) -> anyhow::Result<BucketNames> {
        if !named.is_empty() {
            return Ok(BucketNames { ids: self.selected(named)?, odd: Vec::new() });
        }
        let BucketNames { mut ids, odd } = self.names()?;
        for id in self.home.known_conversations()? {
            if !ids.contains(&id)
                && self.store.conversation(&id)?.is_some()
                && !self.home.conversation(&id)?.segments()?.is_empty()
            {
                ids.insert(id);
            }
        }
        Ok(BucketNames { ids, odd })
    }
}

fn waiting_bar(bucket: &Bucket, is_quiet: bool) -> WaitingBar {
    let bucket = bucket.clone();
    WaitingBar::alone(is_quiet, move || match bucket.last_failure() {
        Some(why) => format!("waiting for the bucket `{}`: {why}", bucket.url()),
        None => format!("waiting for the bucket `{}`", bucket.url()),
    })
}

fn wait_for_lock(
    home: &Home,
    store: &Store,
    until: Instant,
    context: &mut Context,
) -> anyhow::Result<PushLock> {
    let path = store.root().join("remote/lock");
    let who = || lock_holder(&path).unwrap_or_else(|| "another process".to_owned());
    let end = until.min(Instant::now() + WAIT);
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
            context.printer.message(&format_args!("waiting for {}, which uses the bucket", who()));
        }
        thread::sleep(AGAIN);
    }
}

fn lock_holder(path: &std::path::Path) -> Option<String> {
    let file = fs::metadata(path).ok()?;
    let (major, minor) = (rustix::fs::major(file.dev()), rustix::fs::minor(file.dev()));
    let place = format!("{major:02x}:{minor:02x}:{}", file.ino());
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let process = process_at(&locks, &place)?;
    let command = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let words = command.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    let words: Vec<_> = words.take(2).map(String::from_utf8_lossy).collect();
    Some(match words.join(" ") {
        command if command.is_empty() => format!("process {process}"),
        command => format!("process {process} (`{command}`)"),
    })
}

fn process_at(locks: &str, place: &str) -> Option<u32> {
    let line = locks.lines().find(|line| line.split_whitespace().any(|word| word == place))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|word| *word == place)?;
    words.get(at.checked_sub(1)?)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_stands_before_the_file() {
        let locks = "1: POSIX  ADVISORY  WRITE 12 fe:00:5 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 4711 fe:00:77 0 EOF\n";
        assert_eq!(process_at(locks, "fe:00:77"), Some(4711));
        assert_eq!(process_at(locks, "fe:00:7"), None);
        assert_eq!(process_at("x fe:00:77", "fe:00:77"), None);
    }
}
