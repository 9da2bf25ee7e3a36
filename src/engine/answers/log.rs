//! The log of questions, `history/extractions.jsonl`. Each entry has the outcome and the cost of a
//! question.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::answers::{Answer, AskedDocument, json_line};
use crate::space::reserve_line;
use ctxfs_core::model::{Counts, DailyCounts, QuestionCounts, counted_tool};
use ctxfs_models::extract::{AnswerText, CallRecord};
use ctxfs_store::{Conversation, StoreError, history};

/// Maximum number of characters of a question or an answer in an entry.
const PREVIEW: usize = 500;

/// A question with its outcome.
///
/// - `time`: the time at which the question ended, in UTC
/// - `input`, `output`: the number of tokens of all calls
/// - `nanodollars`: the cost of all calls, in billionths of a dollar
/// - `ended`: the outcome: `answered`, `cut`, `not found`, `shown`, `stopped` or `failed`
/// - `preview`: the first characters of the answer or of the error message
#[derive(Debug, Serialize, Deserialize)]
struct LogEntry {
    time: String,
    #[serde(rename = "ref")]
    handle: String,
    #[serde(default)]
    tool: String,
    size: u64,
    question: String,
    asked: String,
    used: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    cached: bool,
    calls: Vec<LoggedCall>,
    input: u64,
    output: u64,
    nanodollars: u64,
    millis: u64,
    ended: String,
    bytes: u64,
    preview: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct LoggedCall {
    kind: String,
    target: String,
    input: u64,
    output: u64,
    nanodollars: u64,
    millis: u64,
    ended: String,
}

/// Adds an entry. A failure is only logged, so that the caller still gets an answer that has
/// already cost money.
pub(super) fn add(asked: &AskedDocument<'_>, answer: &Answer, took: Duration) {
    if let Err(error) = append(asked, &entry(asked, answer, took)) {
        tracing::warn!(%error, "a question was not logged");
    }
}

fn append(asked: &AskedDocument<'_>, entry: &LogEntry) -> Result<()> {
    let AskedDocument { engine, conversation, .. } = asked;
    let line = json_line(entry)?;
    // Model calls have cost money, so a question with calls is logged even without room.
    let room = reserve_line(engine, conversation, line.len() as u64);
    let _room = if entry.calls.is_empty() { Some(room?) } else { room.ok() };
    Ok(history::append(conversation, history::EXTRACTIONS, &line)?)
}

fn entry(asked: &AskedDocument<'_>, answer: &Answer, took: Duration) -> LogEntry {
    let Answer { facts, extraction, cached } = answer;
    let (ended, text) = match &extraction.answer {
        Ok(AnswerText { text, is_cut: true, .. }) => ("cut", text.clone()),
        Ok(AnswerText { text, found: Some(true), .. }) => ("answered", text.clone()),
        Ok(AnswerText { text, found: Some(false), .. }) => ("not found", text.clone()),
        Ok(AnswerText { text, found: None, .. }) => ("shown", text.clone()),
        Err(error) if error.is_stop() => ("stopped", error.to_string()),
        Err(error) => ("failed", error.to_string()),
    };
    let usage = extraction.usage();
    LogEntry {
        time: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        handle: facts.handle.clone(),
        tool: facts.tool.clone(),
        size: facts.bytes,
        question: preview(asked.question.text),
        asked: extraction.asked.name().to_owned(),
        used: extraction.used.name().to_owned(),
        cached: *cached,
        calls: extraction.calls.iter().map(LoggedCall::of).collect(),
        input: usage.input,
        output: usage.output,
        nanodollars: extraction.nanodollars(),
        millis: took.as_millis() as u64,
        ended: ended.to_owned(),
        bytes: text.len() as u64,
        preview: preview(&text),
        warnings: extraction.warnings.iter().map(|warning| preview(warning)).collect(),
    }
}

impl LoggedCall {
    fn of(call: &CallRecord) -> Self {
        Self {
            kind: call.kind.name().to_owned(),
            target: call.target.clone(),
            input: call.usage.input,
            output: call.usage.output,
            nanodollars: call.nanodollars,
            millis: call.millis,
            ended: call.ended.to_owned(),
        }
    }
}

fn preview(text: &str) -> String {
    text.chars().take(PREVIEW).collect()
}

/// Returns the sums of the log by day and tool. Skips lines that are not valid entries.
pub(crate) fn sums(
    conversation: &Conversation,
) -> std::result::Result<Vec<DailyCounts>, StoreError> {
    let mut sums: BTreeMap<(String, String), QuestionCounts> = BTreeMap::new();
    history::each_logged(conversation, history::EXTRACTIONS, |line| {
        let Ok(entry) = serde_json::from_slice::<LogEntry>(line) else { return };
        let day = entry.time.chars().take("2026-01-13".len()).collect();
        *sums.entry((day, counted_tool(entry.tool.clone()))).or_default() += counts(&entry);
    })?;
    let daily = |((day, tool), questions)| DailyCounts {
        day,
        tool,
        counts: Counts { questions, ..Counts::default() },
    };
    Ok(sums.into_iter().map(daily).collect())
}

fn counts(entry: &LogEntry) -> QuestionCounts {
    QuestionCounts {
        times: 1,
        cached: u64::from(entry.cached),
        calls: entry.calls.len() as u64,
        input: entry.input,
        output: entry.output,
        nanodollars: entry.nanodollars,
        millis: entry.millis,
    }
}
