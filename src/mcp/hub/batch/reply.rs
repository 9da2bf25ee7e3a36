//! The reply to a batch: the results in order, within a shared byte budget.

use serde_json::{Map, Value, json};

use crate::budget::{self, SizeRequest};
use crate::hub::batch::{FinishedCall, RunningBatch, SkippedCall};
use crate::permission::decision::{Decider, Decision};
use crate::results::StoredPart;

// Size in bytes of the JSON around the text of a result.
const FRAME_BYTES: usize = 80;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReplyStatus {
    Ok,
    Error,
    Permission,
}

impl ReplyStatus {
    fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Permission => "permission",
        }
    }
}

/// A result whose share of the reply is not yet known. The share determines whether its parts are
/// shown whole, truncated, or as one line.
struct ReplyEntry<'b> {
    name: &'b str,
    status: ReplyStatus,
    parts: &'b [StoredPart],
    note: Option<String>,
}

/// Returns the result of `run_tool_batch` in about `bytes` bytes, and the number of bytes that each
/// call takes in it.
pub(crate) fn result(batch: &RunningBatch, bytes: usize) -> (String, Vec<usize>) {
    let entries: Vec<ReplyEntry<'_>> =
        (0..batch.made.len()).map(|place| entry(batch, place)).collect();
    let frames = entries.iter().map(|entry| FRAME_BYTES + entry.name.len()).sum();
    let wanted: Vec<SizeRequest> = entries.iter().map(ReplyEntry::wanted).collect();
    let shares = budget::shares(&wanted, bytes.saturating_sub(frames));
    let results: Vec<Value> =
        entries.iter().zip(shares).map(|(entry, share)| entry.shown(share)).collect();
    let given = results.iter().map(|result| result.to_string().len()).collect();
    let reply = json!({"summary": summary(&entries), "results": results});
    (json!({"content": [{"type": "text", "text": reply.to_string()}]}).to_string(), given)
}

fn summary(entries: &[ReplyEntry<'_>]) -> String {
    let count = |status| entries.iter().filter(|entry| entry.status == status).count();
    let all = [ReplyStatus::Ok, ReplyStatus::Error, ReplyStatus::Permission];
    let counts = all.map(|status| (count(status), status.as_str()));
    let totals = counts.iter().filter(|(count, _)| *count > 0);
    let totals: Vec<String> = totals.map(|(count, status)| format!("{count} {status}")).collect();
    let all = format!("{} calls", entries.len());
    if totals.is_empty() { all } else { format!("{all}: {}", totals.join(", ")) }
}

fn entry(batch: &RunningBatch, place: usize) -> ReplyEntry<'_> {
    let decided = &batch.planned.calls[place];
    let name = decided.name.as_str();
    if let Some(FinishedCall { failed, parts, note }) = &batch.made[place] {
        let status = if *failed { ReplyStatus::Error } else { ReplyStatus::Ok };
        return ReplyEntry { name, status, parts, note: note.clone() };
    }
    let (status, note) = match batch.plan.skipped(place) {
        Some(SkippedCall::Invalid) => {
            (ReplyStatus::Error, decided.call.as_ref().err().cloned().unwrap_or_default())
        }
        Some(SkippedCall::Refused) => (ReplyStatus::Permission, refusal(batch, place)),
        Some(SkippedCall::AfterRefusal(before)) => {
            let what = if batch.is_unanswered(before) { "had no answer" } else { "was refused" };
            let note = format!("not made, as call {} of the batch {what}", before + 1);
            (ReplyStatus::Permission, note)
        }
        Some(SkippedCall::AfterError(before)) => {
            (ReplyStatus::Error, format!("not made, as call {} of the batch failed", before + 1))
        }
        Some(SkippedCall::Cancelled) | None => {
            (ReplyStatus::Error, "not made: cancelled".to_owned())
        }
    };
    ReplyEntry { name, status, parts: &[], note: Some(note) }
}

impl RunningBatch {
    fn is_unanswered(&self, place: usize) -> bool {
        let call = self.planned.calls[place].call.as_ref();
        call.is_ok_and(|call| call.decision == Decision::Refused(Decider::NoAnswer))
    }
}

fn refusal(batch: &RunningBatch, place: usize) -> String {
    match &batch.planned.calls[place].call {
        Ok(call) => match &call.decision {
            Decision::Refused(decider) => decider.refusal(call.tool(), call.risk),
            _ => "refused".to_owned(),
        },
        Err(why) => why.clone(),
    }
}

impl ReplyEntry<'_> {
    fn wanted(&self) -> SizeRequest {
        let note = self.note.as_deref().map_or(0, written);
        let whole = |part: &StoredPart| written(part.text.as_deref().unwrap_or(&part.summary));
        let min = |part: &StoredPart| written(&part.hint) + 2;
        let references: usize =
            self.parts.iter().map(|part| part.reference.as_deref().map_or(0, written)).sum();
        let fixed = note + references;
        SizeRequest {
            size: fixed + self.parts.iter().map(whole).sum::<usize>(),
            min: fixed + self.parts.iter().map(min).sum::<usize>(),
        }
    }

    fn shown(&self, share: usize) -> Value {
        let mut shown = Map::new();
        shown.insert("name".to_owned(), self.name.into());
        shown.insert("status".to_owned(), self.status.as_str().into());
        let mut references = self.parts.iter().filter_map(|part| part.reference.as_deref());
        if let Some(first) = references.next() {
            shown.insert("ref".to_owned(), first.into());
        }
        let more: Vec<&str> = references.collect();
        if !more.is_empty() {
            shown.insert("more".to_owned(), json!(more));
        }
        let text = self.text(share);
        let key = if self.status == ReplyStatus::Ok { "text" } else { "error" };
        if !text.is_empty() {
            shown.insert(key.to_owned(), text.into());
        }
        Value::Object(shown)
    }

    fn text(&self, share: usize) -> String {
        let wanted = self.wanted();
        let whole = share >= wanted.size;
        let room = (share.saturating_sub(wanted.min) / self.parts.len().max(1)).max(1);
        let parts = self.parts.iter().map(|part| match &part.text {
            Some(text) if whole => text.clone(),
            _ if whole => part.summary.clone(),
            _ => part.shortened(room + written(&part.hint)),
        });
        let all: Vec<String> = self.note.iter().cloned().chain(parts).collect();
        all.join("\n")
    }
}

impl StoredPart {
    fn shortened(&self, bytes: usize) -> String {
        if written(&self.summary) <= bytes {
            return self.summary.clone();
        }
        let mut end = 0;
        for line in self.summary.split_inclusive('\n') {
            if written(&self.summary[..end + line.len()]) > bytes {
                break;
            }
            end += line.len();
        }
        if end == 0 { self.hint.clone() } else { self.summary[..end].trim_end().to_owned() }
    }
}

fn written(text: &str) -> usize {
    let escaped = |byte: u8| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' => 1,
        0..0x20 => 5,
        _ => 0,
    };
    text.len() + text.bytes().map(escaped).sum::<usize>()
}
