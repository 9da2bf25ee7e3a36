//! Reading a document in full: a call for each chunk, then calls that put the findings together.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;

use parking_lot::Mutex;

use crate::extract::asking::CallKind;
use crate::extract::chunk::Chunks;
use crate::extract::inquiry::{Finding, Inquiry};
use crate::extract::mode_error::ModeError;
use crate::extract::prompt::Prompt;
use crate::extract::reduce::{Reduced, reduce};
use crate::extract::request_size::{estimate, needed};
use crate::extract::wrapper::Wrapper;
use crate::extract::{DocumentError, ModelRequest, TokenUsage};

/// The part of a context that chunks leave free, in percent, as some tokenizers count more than the
/// estimate: that of Qwen2.5, to which each digit is a token, counts up to 1.38 times as many on the
/// outputs of `scripts/model`.
const FREE_PERCENT: u64 = 30;
/// The least tokens of a chunk that are worth a call.
const LEAST_TOKENS: u64 = 64;
/// The times that a chunk is cut in half where an endpoint counts more tokens than the estimate.
const HALVINGS: u32 = 4;

/// The plan of reading a document in full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FullPlan {
    pub(super) chunks: Chunks,
    /// Estimated tokens of the requests about chunks, and the most of their replies.
    pub(super) usage: TokenUsage,
}

impl FullPlan {
    /// Plans for a model. Fails if its context has no room for a chunk.
    pub(super) fn of(inquiry: &Inquiry<'_>) -> Result<Self, ModeError> {
        let (facts, profile) = (inquiry.document.facts(), inquiry.model.profile());
        let reply = profile.reply_tokens();
        let empty = estimate(&request(inquiry, &inquiry.wrapper(), &ShownPart::LONGEST, ""));
        let room = profile.context_tokens.saturating_sub(reply + empty);
        let room = room * (100 - FREE_PERCENT) / 100;
        if room < LEAST_TOKENS {
            return Err(ModeError::NoRoom {
                target: profile.target.clone(),
                prompt: empty + reply,
            });
        }
        let most = (u128::from(room) * u128::from(facts.bytes.max(1))
            / u128::from(facts.tokens.max(1))) as u64;
        let length = inquiry.document.content().len();
        let chunks = Chunks::plan(length, most, inquiry.settings.overlap_percent);
        let shown = u128::from(facts.tokens) * u128::from(chunks.count() * chunks.size())
            / u128::from(length.max(1));
        let input = chunks.count() * empty + shown as u64;
        let usage = TokenUsage { input, output: chunks.count() * reply };
        Ok(Self { chunks, usage })
    }

    /// Fails if it costs more tokens than `most`.
    pub(super) fn check_cost(&self, most: u64) -> Result<(), ModeError> {
        let tokens = self.usage.total();
        if tokens > most { Err(ModeError::TooLarge { tokens, most }) } else { Ok(()) }
    }
}

/// Answers by reading every chunk.
pub(super) fn answer(inquiry: &Inquiry<'_>, plan: &FullPlan) -> Result<Reduced, ModeError> {
    plan.check_cost(inquiry.settings.max_tokens_per_question)?;
    let findings = map(inquiry, plan)?;
    reduce(inquiry, findings)
}

/// Asks about all chunks, some at once. Returns what was found in each, in their order.
fn map(inquiry: &Inquiry<'_>, plan: &FullPlan) -> Result<Vec<Finding>, ModeError> {
    let count = plan.chunks.count();
    let (next, failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let found: Mutex<BTreeMap<u64, Result<Vec<Finding>, ModeError>>> = Mutex::default();
    let work = || {
        while !failed.load(Relaxed) {
            let index = next.fetch_add(1, Relaxed);
            if index >= count {
                return;
            }
            let finding = chunk(inquiry, plan, index);
            failed.fetch_or(finding.is_err(), Relaxed);
            found.lock().insert(index, finding);
        }
    };
    let workers = (inquiry.settings.concurrency as u64).clamp(1, count.max(1));
    thread::scope(|scope| {
        for _ in 1..workers {
            scope.spawn(work);
        }
        work();
    });
    let findings: Result<Vec<_>, ModeError> = found.into_inner().into_values().collect();
    Ok(findings?.into_iter().flatten().collect())
}

/// Asks about one chunk.
fn chunk(inquiry: &Inquiry<'_>, plan: &FullPlan, index: u64) -> Result<Vec<Finding>, ModeError> {
    let content = inquiry.document.content();
    let range = plan.chunks.range(content, index).map_err(DocumentError::from)?;
    let part = ShownPart::of(&plan.chunks, index);
    part_of_chunk(inquiry, plan, &part, range, HALVINGS)
}

/// Asks about a part of a chunk: in halves, where it does not fit.
fn part_of_chunk(
    inquiry: &Inquiry<'_>,
    plan: &FullPlan,
    part: &ShownPart,
    range: Range<u64>,
    halvings: u32,
) -> Result<Vec<Finding>, ModeError> {
    let content = inquiry.document.content();
    let bytes = content.bytes(range.start, (range.end - range.start) as usize);
    let bytes = bytes.map_err(DocumentError::from)?;
    let wrapper = inquiry.wrapper();
    let request = request(inquiry, &wrapper, part, &String::from_utf8_lossy(&bytes));
    let fits = needed(&request) <= inquiry.model.profile().context_tokens;
    if fits || halvings == 0 {
        match inquiry.wrapped(CallKind::Map, request, &wrapper) {
            Err(error) if error.is_overflow() && halvings > 0 => {}
            asked => return Ok(vec![Finding::new(part.name(), asked?)]),
        }
    }
    let mut findings = Vec::new();
    for half in plan.chunks.halves(content, &range).map_err(DocumentError::from)? {
        findings.extend(part_of_chunk(inquiry, plan, part, half, halvings - 1)?);
    }
    Ok(findings)
}

/// The part of a document that a request shows.
struct ShownPart {
    /// From 1 on.
    number: u64,
    count: u64,
    /// Bytes that the one before it shows as well.
    shared: u64,
}

impl ShownPart {
    /// One whose description is as long as any.
    const LONGEST: Self = Self { number: 1 << 40, count: 1 << 40, shared: 1 << 40 };

    fn of(chunks: &Chunks, index: u64) -> Self {
        Self { number: index + 1, count: chunks.count(), shared: chunks.shared() }
    }

    fn name(&self) -> String {
        format!("part {} of {}", self.number, self.count)
    }

    fn described(&self) -> String {
        match (self.count, self.number) {
            (1, _) => "all of it".to_owned(),
            (_, 1) => self.name(),
            _ => format!(
                "{}; its first {} bytes or so are also the end of the part before",
                self.name(),
                self.shared
            ),
        }
    }
}

fn request(inquiry: &Inquiry<'_>, wrapper: &Wrapper, part: &ShownPart, text: &str) -> ModelRequest {
    let more = [("part", &*part.described()), ("text", text)];
    inquiry.request((Prompt::MapSystem, Prompt::Map), wrapper, &more)
}
