//! `ctxfs remote status` and `ctxfs ls --remote`: show the bucket, its conversations, and the
//! changes that this host has not sent yet.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};
use std::{fmt::Write as _, path::Path};

use serde_json::{Value, json};

use crate::args::LsArgs;
use crate::remote::opened::{self, OpenBucket, Purpose};
use crate::remote::report::Problems;
use crate::{Cli, Context, Failure, FailureKind, SettingKey, Settings, output, places};
use ctxfs_core::model::{Component, visible};
use ctxfs_store::{Store, Time};
use ctxfs_sync::bucket::{Bucket, BucketId, Deadline, Identity};
use ctxfs_sync::remote::{
    Home, KnownBucket, Moment, RemoteError, Stored, SyncStatus, known_bucket, look, pieces,
    standing, store_now,
};
use ctxfs_sync::replica::{self, Changes, Claim, Name, State};

const PATIENCE: Duration = Duration::from_secs(5);

const STATUS_HINT: &str =
    "correct `[remote]` of the user's ctxfs.toml or the environment: docs/REMOTE.md";
const CLOCK_IS_OFF: Duration = Duration::from_mins(1);

struct RemoteStatus {
    // `None` if the settings name no valid URL.
    url: Option<String>,
    bucket: Option<BucketId>,
    writer: Option<String>,
    // The clock of the object store minus the clock of this host, in milliseconds.
    clock: Option<i64>,
    error: Option<String>,
    // True if the settings are wrong, so that the bucket is unusable whatever the state of the
    // network.
    is_unusable: bool,
    // Other buckets through which the store was shared.
    others: Vec<String>,
    conversations: Vec<(Component, SyncStatus)>,
}

pub(crate) fn show(cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    let settings = context.settings(cli, Vec::new())?;
    let store = Store::open(&settings.store(&context.environment)?)?;
    let status = status(&settings, &store)?;
    context.printer.report(|| status.text(), || status.json())?;
    match status.error {
        Some(error) if status.is_unusable => {
            Err(Failure::new(FailureKind::Failed, error, STATUS_HINT).into())
        }
        _ => Ok(()),
    }
}

/// The bucket as `ctxfs doctor` finds it. `clock` is a text about this host's clock if that is off by
/// more than a minute. `unfit` are conversations of the store whose names a bucket that is a
/// directory cannot have.
#[derive(Default)]
pub(crate) struct BucketHealth {
    pub(crate) url: String,
    pub(crate) clock: Option<String>,
    pub(crate) unfit: Vec<String>,
}

/// Returns `None` if no bucket is set. Fails if the bucket does not answer or cannot be used by this
/// host.
pub(crate) fn health(settings: &Settings, store: &Path) -> Option<anyhow::Result<BucketHealth>> {
    settings.text(SettingKey::RemoteUrl)?;
    Some(healthy(settings, store))
}

fn healthy(settings: &Settings, store: &Path) -> anyhow::Result<BucketHealth> {
    if !store.is_dir() {
        let url = opened::url(settings)?.to_string();
        return Ok(BucketHealth { url, ..BucketHealth::default() });
    }
    let store = Store::open(store)?;
    let RemoteStatus { url, clock, error, .. } = status(settings, &store)?;
    if let Some(error) = error {
        return Err(anyhow::Error::msg(error));
    }
    let url = url.unwrap_or_default();
    let is_off = |clock: &i64| clock.unsigned_abs() > CLOCK_IS_OFF.as_millis() as u64;
    let place = opened::url(settings)?;
    let unfit = store.conversations()?.into_iter().filter(|id| !place.fits(id));
    let unfit = unfit.map(|id| id.to_text()).collect();
    Ok(BucketHealth { url, clock: clock.filter(is_off).map(clock_text), unfit })
}

fn status(settings: &Settings, store: &Store) -> anyhow::Result<RemoteStatus> {
    let url = url(settings)?;
    let opened = opened::bucket(settings);
    let is_unusable = opened.is_err();
    let (remote, error) = match opened.and_then(|bucket| identified(settings, store, bucket)) {
        Ok(remote) => (Some(remote), None),
        Err(error) => (None, Some(format!("{error:#}"))),
    };
    let id = match &remote {
        Some((identity, _)) => Some(identity.id),
        None => known(store, url.as_deref())?,
    };
    let (writer, clock, conversations) = (None, None, Vec::new());
    let others = others(store, id)?;
    let mut status =
        RemoteStatus { url, bucket: id, writer, clock, error, is_unusable, others, conversations };
    if let Some(id) = id {
        let home = Home::open(store, id)?;
        status.writer = Some(home.writer()?.to_string());
        status.conversations = standings(store, &home)?;
        if let Some((_, bucket)) = remote
            && settings.is_on(SettingKey::RemoteSweep)
        {
            status.clock = clock_of(&bucket, &status.conversations);
        }
    }
    Ok(status)
}

fn url(settings: &Settings) -> anyhow::Result<Option<String>> {
    match opened::url(settings) {
        Ok(url) => Ok(Some(url.to_string())),
        Err(_) if settings.text(SettingKey::RemoteUrl).is_some() => Ok(None),
        Err(error) => Err(error),
    }
}

fn identified(
    settings: &Settings,
    store: &Store,
    bucket: Bucket,
) -> anyhow::Result<(Identity, Bucket)> {
    let deadline = Deadline::after(PATIENCE);
    Ok((opened::identify(&bucket, store, settings, Purpose::Read, deadline)?, bucket))
}

// Returns the bucket that last answered at `url`. If there is no URL, returns the only bucket that
// ever answered.
fn known(store: &Store, url: Option<&str>) -> anyhow::Result<Option<BucketId>> {
    if let Some(url) = url {
        return Ok(known_bucket(store, url)?);
    }
    match &*ctxfs_sync::remote::known_buckets(store)? {
        [only] => Ok(Some(only.id)),
        _ => Ok(None),
    }
}

/// Returns the URLs of the other buckets through which the store was shared, or their ids.
pub(crate) fn others(store: &Store, id: Option<BucketId>) -> Result<Vec<String>, RemoteError> {
    let known = ctxfs_sync::remote::known_buckets(store)?.into_iter();
    let others = known.filter(|bucket| Some(bucket.id) != id);
    Ok(others
        .map(|KnownBucket { id, url }| if url.is_empty() { id.to_string() } else { url })
        .collect())
}

/// Returns why the bytes of an output are missing in the bucket. `others` are the other buckets
/// through which the store was shared.
pub(crate) fn elsewhere(others: &[String]) -> String {
    match others {
        [] => "its bytes are only in a bucket that is not known any more".to_owned(),
        urls => format!("its bytes are only in another bucket: {}", urls.join(" or ")),
    }
}

fn standings(store: &Store, home: &Home) -> anyhow::Result<Vec<(Component, SyncStatus)>> {
    let mut ids: BTreeSet<Component> = store.conversations()?.into_iter().collect();
    ids.extend(home.known_conversations()?);
    let mut all = Vec::new();
    for id in ids {
        let (conversation, notes) = (store.conversation(&id)?, home.conversation(&id)?);
        let mut found = standing(conversation.as_deref(), &notes, store.clock())?;
        found.refused = pieces(&notes)?.refused;
        let is_empty = found.segments == 0 && found.others == 0 && found.refused.is_empty();
        if conversation.is_some() || !is_empty {
            all.push((id, found));
        }
    }
    Ok(all)
}

fn clock_of(bucket: &Bucket, conversations: &[(Component, SyncStatus)]) -> Option<i64> {
    let (id, _) = conversations.iter().find(|(_, standing)| standing.segments > 0)?;
    let before = Moment::now().wall;
    let there = store_now(bucket, id, Deadline::after(PATIENCE)).ok()?;
    let middle = u64::midpoint(before, Moment::now().wall);
    Some(there as i64 - middle as i64)
}

impl RemoteStatus {
    fn text(&self) -> String {
        let unknown = || "not known".to_owned();
        let mut text = format!("bucket  {}\n", self.url.clone().unwrap_or_else(unknown));
        let _ = writeln!(text, "id      {}", self.bucket.map_or_else(unknown, |id| id.to_string()));
        let _ = writeln!(text, "writer  {}", self.writer.clone().unwrap_or_else(unknown));
        if let Some(clock) = self.clock {
            let _ = writeln!(text, "clock   {}", clock_text(clock));
        }
        if let Some(error) = &self.error {
            let _ = writeln!(text, "error   {error}");
        }
        for (id, standing) in &self.conversations {
            let _ = writeln!(text, "{}: {}", visible::whole(&id.to_text()), line(standing));
            for (offset, bytes) in &standing.unshared {
                let size = output::size(*bytes);
                let _ = writeln!(text, "  message at byte {offset}: too long to be shared, {size}");
            }
            for (segment, why) in &standing.refused {
                let _ = writeln!(text, "  segment {segment}: {}", visible::whole(&why.to_string()));
            }
            for path in standing.elsewhere.iter().take(MOST_ELSEWHERE) {
                let _ = writeln!(text, "  {}: {}", visible::whole(path), elsewhere(&self.others));
            }
        }
        text
    }

    fn json(&self) -> Value {
        let conversations: Vec<_> =
            self.conversations.iter().map(|(id, standing)| value(id, standing)).collect();
        json!({ "url": self.url, "bucket": self.bucket.map(|id| id.to_string()),
            "writer": self.writer, "clockDifferenceMs": self.clock, "error": self.error,
            "conversations": conversations })
    }
}

fn clock_text(difference: i64) -> String {
    let seconds = Duration::from_millis(difference.unsigned_abs()).as_secs();
    match seconds {
        0 | 1 => "as that of the store".to_owned(),
        _ if difference > 0 => format!("{seconds} s behind that of the store"),
        _ => format!("{seconds} s ahead of that of the store"),
    }
}

fn line(standing: &SyncStatus) -> String {
    let mut parts = Vec::new();
    if standing.files > 0 {
        let oldest = standing.oldest.and_then(Time::age).map(ctxfs_view::age).unwrap_or_default();
        let (files, size) = (output::counted(standing.files, "file"), output::size(standing.bytes));
        parts.push(format!("{files} to send, {size}, the oldest {oldest} old"));
    }
    let counts = [
        (standing.live as u64, "being written"),
        (standing.others as u64, "renames and removals to tell"),
        (standing.messages, "bytes of messages to send"),
        (standing.refused.len() as u64, "segments that cannot be read"),
        (standing.elsewhere.len() as u64, "outputs whose bytes are only in another bucket"),
    ];
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    parts.extend(counts.map(|(count, what)| format!("{count} {what}")));
    if standing.is_sending {
        parts.push("a segment is on its way".to_owned());
    }
    if standing.is_sent() {
        parts.push("all is sent".to_owned());
    }
    let looked = standing.looked.and_then(Time::age).map(ctxfs_view::age);
    let looked = looked.map_or("never looked".to_owned(), |age| format!("looked {age} ago"));
    format!("{}; {}, {looked}", parts.join(", "), output::counted(standing.segments, "segment"))
}

fn value(id: &Component, standing: &SyncStatus) -> Value {
    let refused = standing
        .refused
        .iter()
        .map(|(segment, why)| json!({ "segment": segment.to_string(), "why": why.to_string() }));
    let refused: Vec<_> = refused.collect();
    let unshared = standing.unshared.iter();
    let unshared: Vec<_> =
        unshared.map(|(offset, bytes)| json!({ "offset": offset, "bytes": bytes })).collect();
    json!({ "conversation": id.to_text(), "files": standing.files, "bytes": standing.bytes,
        "oldestAt": standing.oldest.map(Time::as_millis), "live": standing.live,
        "renamesAndRemovals": standing.others, "messageBytes": standing.messages,
        "messagesTooLong": unshared,
        "isSending": standing.is_sending, "segments": standing.segments,
        "lookedAt": standing.looked.map(Time::as_millis), "refused": refused,
        "elsewhere": standing.elsewhere })
}

// Maximum number of outputs of a conversation that are named because their bytes are elsewhere.
const MOST_ELSEWHERE: usize = 10;
const LIST_HINT: &str = "`ctxfs remote check` tells more";

pub(crate) fn list(args: &LsArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    let settings = context.settings(cli, Vec::new())?;
    let opened = OpenBucket::new(&settings, (Purpose::Read, cli.json), context)?;
    let Some(named) = &args.conversation else { return list_conversations(&opened, context) };
    let id = places::conversation_id(named)?;
    let mut problems = Problems::default();
    let seen = seen_artifacts(&opened, &id, &mut problems)?;
    opened.require(&id)?;
    if seen.is_empty() {
        context.printer.message(&format_args!("the bucket has no outputs of `{named}`"));
    }
    context.printer.report(|| artifacts_text(&seen), || artifacts_json(&seen))?;
    problems.report(["segment cannot be read", "segments cannot be read"], LIST_HINT, context)
}

fn list_conversations(opened: &OpenBucket, context: &mut Context) -> anyhow::Result<()> {
    let mut ids = Vec::new();
    for id in opened.selected(&[])? {
        if !opened.home.is_gone(&opened.store, &id)? {
            ids.push(id.to_text());
        }
    }
    let text = || ids.iter().map(|id| visible::whole(id) + "\n").collect();
    context.printer.report(text, || ids.iter().map(|id| json!({ "conversation": id })).collect())
}

fn seen_artifacts(
    opened: &OpenBucket,
    id: &Component,
    problems: &mut Problems,
) -> anyhow::Result<BTreeMap<String, Claim<Stored>>> {
    let notes = opened.home.conversation(id)?;
    let mut looked = look(&opened.bucket, &notes, &|| opened.deadline())?;
    let found = looked.pieces(&notes)?;
    let refused: BTreeMap<_, _> =
        looked.refused.iter().chain(&found.refused).map(|(segment, why)| (segment, why)).collect();
    for (segment, error) in &refused {
        problems.add(format!("segment {segment}"), error);
    }
    let mut state = State::of_all(found.pieces);
    if refused.is_empty() {
        notes.keep_over(state.is_over())?;
    }
    let names = replica::seen(&state, &Changes::default(), &BTreeSet::new());
    let claim = |(name, seen): (String, Name)| {
        let first = seen.origins.first()?;
        Some((name, state.artifacts.remove(first)?))
    };
    Ok(names.into_iter().filter_map(claim).collect())
}

fn artifacts_text(seen: &BTreeMap<String, Claim<Stored>>) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut text = String::new();
    for (name, claim) in seen {
        let then = Duration::from_micros(claim.stamp.0);
        let (size, age) =
            (output::size(claim.artifact.size), ctxfs_view::age(now.saturating_sub(then)));
        let _ = writeln!(text, "{size:>9} {age:>5}  {}", visible::whole(name));
    }
    text
}

fn artifacts_json(seen: &BTreeMap<String, Claim<Stored>>) -> Value {
    let value = |(name, claim): (&String, &Claim<Stored>)| {
        json!({ "path": name, "bytes": claim.artifact.size, "sentAt": claim.stamp.0 / 1000,
            "digest": claim.digest })
    };
    seen.iter().map(value).collect()
}
