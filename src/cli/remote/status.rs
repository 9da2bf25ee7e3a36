//! `ctxfs remote status`: the bucket, and what is still to be sent.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::args::Cli;
use crate::context::Context;
use crate::ls;
use crate::outcome::{Failure, FailureKind};
use crate::remote::opened;
use crate::remote::opened::Purpose;
use crate::settings::{Key, Settings};
use ctxfs_core::model::{Component, visible};
use ctxfs_store::{Store, Time};
use ctxfs_sync::bucket::{Bucket, BucketId, Deadline, Identity};
use ctxfs_sync::remote::{
    Home, Moment, Standing, known_bucket, known_buckets, standing, store_now,
};

/// The time that the bucket has to answer.
const PATIENCE: Duration = Duration::from_secs(5);

const HINT: &str = "correct `[remote]` of the user's ctxfs.toml or the environment: docs/REMOTE.md";
/// A difference of clocks that is told as a fault.
const CLOCK_IS_OFF: Duration = Duration::from_mins(1);

/// The status of this host and its bucket.
struct Status {
    /// Where the bucket is, if that can be told.
    url: Option<String>,
    bucket: Option<BucketId>,
    writer: Option<String>,
    /// How much later it is at the store, in milliseconds.
    clock: Option<i64>,
    /// Why the bucket does not answer, or is not for this host.
    error: Option<String>,
    /// True if the settings lead to none, whatever the network does.
    is_unusable: bool,
    conversations: Vec<(Component, Standing)>,
}

pub(super) fn run(cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    let settings = context.settings(cli, Vec::new())?;
    let store = Store::open(&settings.store(&context.environment)?)?;
    let status = status(&settings, &store)?;
    let text = if cli.json { status.json().to_string() + "\n" } else { status.text() };
    context.printer.data(&text)?;
    match status.error {
        Some(error) if status.is_unusable => {
            Err(Failure::new(FailureKind::Failed, error, HINT).into())
        }
        _ => Ok(()),
    }
}

/// Returns what the bucket of the settings says of this host's clock, and its URL; `None` if they
/// name no bucket. Fails if it does not answer, or is not for this host.
pub(crate) fn health(
    settings: &Settings,
    store: &Path,
) -> Option<anyhow::Result<(String, Option<String>)>> {
    settings.text(Key::RemoteUrl)?;
    Some(healthy(settings, store))
}

fn healthy(settings: &Settings, store: &Path) -> anyhow::Result<(String, Option<String>)> {
    if !store.is_dir() {
        return Ok((opened::url(settings)?.to_string(), None));
    }
    let Status { url, clock, error, .. } = status(settings, &Store::open(store)?)?;
    let is_off = |clock: &i64| clock.unsigned_abs() > CLOCK_IS_OFF.as_millis() as u64;
    match error {
        Some(error) => Err(anyhow::Error::msg(error)),
        None => Ok((url.unwrap_or_default(), clock.filter(is_off).map(clock_text))),
    }
}

fn status(settings: &Settings, store: &Store) -> anyhow::Result<Status> {
    let url = url(settings)?;
    let opened = opened::bucket(settings);
    let is_unusable = opened.is_err();
    let (there, error) = match opened.and_then(|bucket| asked(settings, store, bucket)) {
        Ok(there) => (Some(there), None),
        Err(error) => (None, Some(format!("{error:#}"))),
    };
    let id = match &there {
        Some((identity, _)) => Some(identity.id),
        None => known(store, url.as_deref())?,
    };
    let (writer, clock, conversations) = (None, None, Vec::new());
    let mut status = Status { url, bucket: id, writer, clock, error, is_unusable, conversations };
    if let Some(id) = id {
        let home = Home::open(store, id)?;
        status.writer = Some(home.writer()?.to_string());
        status.conversations = standings(store, &home)?;
        if let Some((_, bucket)) = there
            && settings.is_on(Key::RemoteSweep)
        {
            status.clock = clock_of(&bucket, &status.conversations);
        }
    }
    Ok(status)
}

/// Returns the URL of the settings; `None` if it is none. Fails if they have none.
fn url(settings: &Settings) -> anyhow::Result<Option<String>> {
    match opened::url(settings) {
        Ok(url) => Ok(Some(url.to_string())),
        Err(_) if settings.text(Key::RemoteUrl).is_some() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Asks a bucket who it is.
fn asked(settings: &Settings, store: &Store, bucket: Bucket) -> anyhow::Result<(Identity, Bucket)> {
    let deadline = Deadline::after(PATIENCE);
    Ok((opened::identify(&bucket, store, settings, Purpose::Read, deadline)?, bucket))
}

/// Returns the bucket that was at `url` when it answered last; where no URL can be told, the only
/// one that ever answered.
fn known(store: &Store, url: Option<&str>) -> anyhow::Result<Option<BucketId>> {
    if let Some(url) = url {
        return Ok(known_bucket(store, url)?);
    }
    match &*known_buckets(store)? {
        [only] => Ok(Some(only.id)),
        _ => Ok(None),
    }
}

fn standings(store: &Store, home: &Home) -> anyhow::Result<Vec<(Component, Standing)>> {
    let mut ids: BTreeSet<Component> = store.conversations()?.into_iter().collect();
    ids.extend(home.known_conversations()?);
    let mut all = Vec::new();
    for id in ids {
        let (conversation, notes) = (store.conversation(&id)?, home.conversation(&id)?);
        let found = standing(conversation.as_deref(), &notes, store.clock())?;
        let is_empty = found.segments == 0 && found.others == 0 && found.refused.is_empty();
        if conversation.is_some() || !is_empty {
            all.push((id, found));
        }
    }
    Ok(all)
}

/// Returns how much later it is at the store, if it tells: a small object is written and deleted.
fn clock_of(bucket: &Bucket, conversations: &[(Component, Standing)]) -> Option<i64> {
    let (id, _) = conversations.iter().find(|(_, standing)| standing.segments > 0)?;
    let before = Moment::now().wall;
    let there = store_now(bucket, id, Deadline::after(PATIENCE)).ok()?;
    let middle = u64::midpoint(before, Moment::now().wall);
    Some(there as i64 - middle as i64)
}

impl Status {
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
                let size = ls::size(*bytes);
                let _ = writeln!(text, "  message at byte {offset}: too long to be shared, {size}");
            }
            for (segment, why) in &standing.refused {
                let _ = writeln!(text, "  segment {segment}: {}", visible::whole(&why.to_string()));
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

fn line(standing: &Standing) -> String {
    let mut parts = Vec::new();
    if standing.files > 0 {
        let oldest = standing.oldest.and_then(Time::age).map(ls::age).unwrap_or_default();
        let (files, size) = (ls::counted(standing.files, "file"), ls::size(standing.bytes));
        parts.push(format!("{files} to send, {size}, the oldest {oldest} old"));
    }
    let counts = [
        (standing.live as u64, "being written"),
        (standing.others as u64, "renames and removals to tell"),
        (standing.messages, "bytes of messages to send"),
        (standing.refused.len() as u64, "segments that cannot be read"),
    ];
    let counts = counts.into_iter().filter(|(count, _)| *count > 0);
    parts.extend(counts.map(|(count, what)| format!("{count} {what}")));
    if standing.is_sending {
        parts.push("a segment is on its way".to_owned());
    }
    if standing.is_sent() {
        parts.push("all is sent".to_owned());
    }
    let looked = standing.looked.and_then(Time::age).map(ls::age);
    let looked = looked.map_or("never looked".to_owned(), |age| format!("looked {age} ago"));
    format!("{}; {}, {looked}", parts.join(", "), ls::counted(standing.segments, "segment"))
}

fn value(id: &Component, standing: &Standing) -> Value {
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
        "lookedAt": standing.looked.map(Time::as_millis), "refused": refused })
}
