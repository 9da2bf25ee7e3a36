//! Reads a document in full. Makes one call for each chunk, and then calls that combine the
//! findings. If the findings do not fit into one request, they are combined in several rounds.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use parking_lot::Mutex;

use crate::extract::asking::CallKind;
use crate::extract::extraction::ModeError;
use crate::extract::inquiry::{ChunkFinding, FindingKind, Inquiry};
use crate::extract::language_model::{estimate, needed};
use crate::extract::prompt::{NOTHING, Prompt, Wrapper};
use crate::extract::{DocumentError, ModelRequest, TokenUsage};
use ctxfs_core::model::Content;

/// Percentage of a context that chunks leave free, because some tokenizers count more tokens than
/// the estimate. The tokenizer of Qwen2.5, in which each digit is a token, counts up to 1.38 times
/// as many for the outputs of `scripts/model`.
const FREE_PERCENT: u64 = 30;
const LEAST_TOKENS: u64 = 64;
/// Maximum number of times that a chunk is halved if an endpoint counts more tokens than the
/// estimate.
const HALVINGS: u32 = 4;
/// Maximum number of times that a chunk is halved if the model has too few tokens to answer about all
/// of it, and the size of the smallest part that is halved.
pub(super) const CUT_HALVINGS: u32 = 2;
const LEAST_CUT: u64 = 1024;

/// Chunks of a document, and their cost: estimated tokens of the requests for the chunks, and the
/// token limit of their replies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FullPlan {
    pub(super) chunks: Chunks,
    pub(super) usage: TokenUsage,
}

impl FullPlan {
    /// Returns the plan for a model. Fails if the model's context is too small for a chunk.
    pub(super) fn of(inquiry: &Inquiry<'_>) -> Result<Self, ModeError> {
        let (facts, profile) = (inquiry.document.facts(), inquiry.model.profile());
        let reply = profile.reply_tokens();
        let empty =
            estimate(&request(inquiry, &inquiry.wrapper(), &ShownChunk::LONGEST.described(), ""));
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

    pub(super) fn check_cost(&self, most: u64) -> Result<(), ModeError> {
        let tokens = self.usage.total();
        if tokens > most { Err(ModeError::TooLarge { tokens, most }) } else { Ok(()) }
    }
}

pub(super) fn answer(inquiry: &Inquiry<'_>, plan: &FullPlan) -> Result<Reduced, ModeError> {
    plan.check_cost(inquiry.settings.max_tokens_per_question)?;
    let findings = map(inquiry, plan)?;
    reduce(inquiry, findings)
}

/// Makes the calls for all chunks, several at a time. Returns the findings in the order of the
/// chunks.
fn map(inquiry: &Inquiry<'_>, plan: &FullPlan) -> Result<Vec<ChunkFinding>, ModeError> {
    let count = plan.chunks.count();
    let (next, failed) = (AtomicU64::new(0), AtomicBool::new(false));
    let found: Mutex<BTreeMap<u64, Result<Vec<ChunkFinding>, ModeError>>> = Mutex::default();
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
    std::thread::scope(|scope| {
        for _ in 1..workers {
            scope.spawn(work);
        }
        work();
    });
    let findings: Result<Vec<_>, ModeError> = found.into_inner().into_values().collect();
    Ok(findings?.into_iter().flatten().collect())
}

fn chunk(
    inquiry: &Inquiry<'_>,
    plan: &FullPlan,
    index: u64,
) -> Result<Vec<ChunkFinding>, ModeError> {
    let content = inquiry.document.content();
    let range = plan.chunks.range(content, index).map_err(DocumentError::from)?;
    let part = ShownChunk::of(&plan.chunks, index);
    part_of_chunk(inquiry, plan, &part, range, HALVINGS)
}

/// Makes a call for a part of a chunk. If the part does not fit into the context, or the reply was
/// cut, makes calls for its halves. If these cannot be made, the reply that was cut counts.
fn part_of_chunk(
    inquiry: &Inquiry<'_>,
    plan: &FullPlan,
    part: &ShownChunk,
    range: Range<u64>,
    halvings: u32,
) -> Result<Vec<ChunkFinding>, ModeError> {
    let content = inquiry.document.content();
    let bytes = content.bytes(range.start, (range.end - range.start) as usize);
    let bytes = bytes.map_err(DocumentError::from)?;
    let wrapper = inquiry.wrapper();
    let text = String::from_utf8_lossy(&bytes);
    let request = request(inquiry, &wrapper, &part.described(), &text);
    let fits = needed(&request) <= inquiry.model.profile().context_tokens;
    let (mut halvings, mut cut) = (halvings, None);
    if fits || halvings == 0 {
        match inquiry.wrapped(CallKind::Map, request, &wrapper) {
            Err(error) if error.is_overflow() && halvings > 0 => {}
            asked => {
                let finding = ChunkFinding::new(part.name(), asked?);
                halvings = halvings.min(CUT_HALVINGS);
                if !finding.is_cut || halvings == 0 || range.end - range.start < LEAST_CUT {
                    return Ok(vec![finding]);
                }
                cut = Some(finding);
            }
        }
    }
    let part = ShownChunk { is_piece: true, ..*part };
    let mut findings = Vec::new();
    for half in plan.chunks.halves(content, &range).map_err(DocumentError::from)? {
        match (part_of_chunk(inquiry, plan, &part, half, halvings - 1), &cut) {
            (Err(error), Some(cut)) if !error.is_stop() => return Ok(vec![cut.clone()]),
            (found, _) => findings.extend(found?),
        }
    }
    Ok(findings)
}

/// Description of a chunk for the model. `number` counts from 1. About `shared` bytes at the start
/// of the chunk are also the end of the previous chunk. If `is_piece`, only a piece of it is shown.
struct ShownChunk {
    number: u64,
    count: u64,
    shared: u64,
    is_piece: bool,
}

impl ShownChunk {
    /// The longest possible description of a chunk.
    const LONGEST: Self =
        Self { number: 1 << 40, count: 1 << 40, shared: 1 << 40, is_piece: false };

    fn of(chunks: &Chunks, index: u64) -> Self {
        let (count, shared) = (chunks.count(), chunks.shared());
        Self { number: index + 1, count, shared, is_piece: false }
    }

    fn name(&self) -> String {
        format!("part {} of {}", self.number, self.count)
    }

    fn described(&self) -> String {
        match (self.count, self.number) {
            _ if self.is_piece => format!("a piece of {}", self.name()),
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

/// Makes calls for the halves of some lines of the document. If a reply is cut, makes calls for the
/// halves of its lines. Returns the findings. Fails if no smaller part can be asked about.
pub(super) fn in_halves(
    inquiry: &Inquiry<'_>,
    lines: &[String],
    halvings: u32,
) -> Result<Vec<String>, ModeError> {
    let mut all = Vec::new();
    for half in lines.chunks(lines.len().div_ceil(2).max(1)) {
        let wrapper = inquiry.wrapper();
        let text = half.join("\n");
        let request = request(inquiry, &wrapper, "some lines, with their numbers", &text);
        let fits = needed(&request) <= inquiry.model.profile().context_tokens;
        let reply = fits.then(|| inquiry.wrapped(CallKind::Map, request, &wrapper)).transpose()?;
        let found = reply.filter(|reply| !reply.is_cut);
        match found.map(|reply| ChunkFinding::new(String::new(), reply).found) {
            None if halvings > 1 && half.len() > 1 => {
                all.extend(in_halves(inquiry, half, halvings - 1)?);
            }
            Some(FindingKind::Something(text)) => all.push(text),
            Some(FindingKind::Nothing(_)) => {}
            found => return Err(inquiry.no_answer(found.is_none())),
        }
    }
    Ok(all)
}

fn request(inquiry: &Inquiry<'_>, wrapper: &Wrapper, part: &str, text: &str) -> ModelRequest {
    let more = [("part", part), ("text", text)];
    inquiry.request((Prompt::MapSystem, Prompt::Map), wrapper, &more)
}

const INSTEAD: usize = 3;

/// Combined findings. The text begins with [`NOTHING`] if nothing was found. `unknown` names the
/// parts for which no reply had the required format. `cut` names the parts for which the model ran
/// out of tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reduced {
    pub(super) text: String,
    pub(super) unknown: Vec<String>,
    pub(super) cut: Vec<String>,
}

fn reduce(inquiry: &Inquiry<'_>, findings: Vec<ChunkFinding>) -> Result<Reduced, ModeError> {
    let (mut some, mut nothing, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
    let mut cut = Vec::new();
    for ChunkFinding { part, found, is_cut } in findings {
        cut.extend(is_cut.then(|| part.clone()));
        match found {
            FindingKind::Something(text) => some.push((part, text)),
            FindingKind::Nothing(text) => nothing.push(text),
            FindingKind::NoForm => unknown.push(part),
        }
    }
    if some.is_empty() && nothing.is_empty() && !unknown.is_empty() {
        return Err(inquiry.no_answer(!cut.is_empty()));
    }
    cut.dedup();
    while some.len() > 1 {
        some = round(inquiry, &some, &mut cut)?;
    }
    let text = some.pop().map_or_else(|| without(&nothing), |(_, text)| text);
    Ok(Reduced { text, unknown, cut })
}

/// Combines the findings in groups, each of which fits into one request. If a reply was cut, adds
/// the parts of its group to `cut`. Fails if no two findings fit into one request.
fn round(
    inquiry: &Inquiry<'_>,
    findings: &[(String, String)],
    cut: &mut Vec<String>,
) -> Result<Vec<(String, String)>, ModeError> {
    let before = findings.len();
    let mut rest = findings;
    let mut together = Vec::new();
    while !rest.is_empty() {
        let count = fitting(inquiry, rest);
        let (now, later) = rest.split_at(count);
        let is_last = now.len() == before;
        together.push(one(inquiry, now, is_last, cut)?);
        rest = later;
    }
    if together.len() == before {
        let target = inquiry.model.profile().target.clone();
        return Err(ModeError::Unreducible { target, parts: before });
    }
    Ok(together)
}

fn fitting(inquiry: &Inquiry<'_>, findings: &[(String, String)]) -> usize {
    let context = inquiry.model.profile().context_tokens;
    let fits = |count: &usize| {
        needed(&reduce_request(inquiry, &inquiry.wrapper(), &findings[..*count])) <= context
    };
    (2..=findings.len()).take_while(fits).last().unwrap_or(1)
}

/// Combines findings into one. If the reply to the last such request was cut, the findings stand as
/// they are.
fn one(
    inquiry: &Inquiry<'_>,
    findings: &[(String, String)],
    is_last: bool,
    cut: &mut Vec<String>,
) -> Result<(String, String), ModeError> {
    if let [alone] = findings {
        return Ok(alone.clone());
    }
    let wrapper = inquiry.wrapper();
    let request = reduce_request(inquiry, &wrapper, findings);
    let reply = inquiry.wrapped(CallKind::Reduce, request, &wrapper)?;
    if reply.is_cut && is_last {
        let texts: Vec<&str> = findings.iter().map(|(_, text)| text.as_str()).collect();
        return Ok((parts(findings), texts.join("\n")));
    }
    let text = reply.answer.ok_or_else(|| inquiry.no_answer(reply.is_cut))?;
    cut.extend(reply.is_cut.then(|| parts(findings)));
    Ok((parts(findings), text))
}

fn reduce_request(
    inquiry: &Inquiry<'_>,
    wrapper: &Wrapper,
    findings: &[(String, String)],
) -> ModelRequest {
    let text: Vec<String> =
        findings.iter().map(|(part, text)| format!("[{part}]\n{text}")).collect();
    let more = [("parts", &*parts(findings)), ("text", &*text.join("\n\n"))];
    inquiry.request((Prompt::ReduceSystem, Prompt::Reduce), wrapper, &more)
}

/// Returns the name of several parts, such as `part 3 of 7 to part 5 of 7`.
fn parts(findings: &[(String, String)]) -> String {
    match findings {
        [] => String::new(),
        [(only, _)] => only.clone(),
        [(first, _), .., (last, _)] => {
            let first = first.split(" to ").next().unwrap_or(first);
            let last = last.rsplit(" to ").next().unwrap_or(last);
            format!("{first} to {last}")
        }
    }
}

fn without(nothing: &[String]) -> String {
    let mut said: Vec<&str> = Vec::new();
    for text in nothing {
        let text = text.trim_matches(['*', '`', '"', ' ']);
        let instead = text.strip_prefix(NOTHING).unwrap_or(text);
        let instead = instead.trim_start_matches(|c: char| !c.is_alphanumeric()).trim();
        if !instead.is_empty() && !said.contains(&instead) {
            said.push(instead);
        }
    }
    let left = said.len().saturating_sub(INSTEAD);
    said.truncate(INSTEAD);
    let mut text = format!("{NOTHING}. All of the output was read.");
    if !said.is_empty() {
        text = format!("{text} Instead: {}", said.join(" "));
    }
    if left > 0 {
        text = format!("{text} ({left} more such sentences)");
    }
    text
}

/// Each end of a chunk moves back to a line start if there is one within `1 / LEEWAY` of the chunk
/// size.
const LEEWAY: u64 = 8;
const MOST_LEEWAY: u64 = 64 * 1024;
const LEAST_BYTES: u64 = 256;

/// Division of a document into chunks of the same size, which avoids a small last chunk. Chunks are
/// cut between lines if lines are short enough, and always between characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chunks {
    length: u64,
    count: u64,
    size: u64,
    overlap: u64,
}

impl Chunks {
    /// Divides `length` bytes into as few chunks of at most `most` bytes as possible. Each chunk
    /// after the first repeats the last `overlap` percent of the previous chunk, at most 50
    /// percent.
    fn plan(length: u64, most: u64, overlap: u64) -> Self {
        let (most, overlap) = (most.max(LEAST_BYTES), overlap.min(50));
        if length <= most {
            return Self { length, count: u64::from(length > 0), size: length, overlap };
        }
        // The start of a chunk may move back to a line start, which makes the chunk longer.
        let most = most - (most / LEEWAY).min(MOST_LEEWAY);
        // `count` chunks of `size` bytes cover `size * (1 + (count - 1) * (1 - overlap))` bytes.
        let step = most * (100 - overlap);
        let count = 1 + ((length - most) * 100).div_ceil(step);
        let size = (length * 100).div_ceil(100 + (count - 1) * (100 - overlap));
        Self { length, count, size, overlap }
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Returns the approximate number of bytes that two neighbouring chunks share.
    fn shared(&self) -> u64 {
        self.size * self.overlap / 100
    }

    /// Returns the range of the chunk `index`, counted from 0. Reads some bytes around its ends.
    fn range(&self, content: &dyn Content, index: u64) -> io::Result<Range<u64>> {
        // The last chunk ends at the end of the document, so no chunk is shorter.
        let last = u128::from(self.length - self.size) * u128::from(index);
        let start = (last / u128::from((self.count - 1).max(1))) as u64;
        let end = start + self.size;
        let leeway = leeway(self.size);
        let end = if index + 1 == self.count { self.length } else { end };
        Ok(cut(content, start, leeway)?..cut(content, end, leeway)?)
    }

    fn halves(&self, content: &dyn Content, range: &Range<u64>) -> io::Result<[Range<u64>; 2]> {
        let length = range.end - range.start;
        let (middle, shared) = (range.start + length / 2, length / 2 * self.overlap / 100);
        let leeway = leeway(length / 2);
        let first = range.start..cut(content, middle + shared / 2, leeway)?;
        let second = cut(content, middle - shared / 2, leeway)?..range.end;
        Ok([first, second])
    }
}

fn leeway(size: u64) -> u64 {
    (size / LEEWAY).min(MOST_LEEWAY)
}

/// Returns the position of the cut for `at`: the last line start within `leeway` bytes before it,
/// or else the start of the character there. A later `at` never has an earlier cut.
fn cut(content: &dyn Content, at: u64, leeway: u64) -> io::Result<u64> {
    if at == 0 || at >= content.len() {
        return Ok(at.min(content.len()));
    }
    let from = at.saturating_sub(leeway);
    let before = content.bytes(from, (at - from) as usize)?;
    if let Some(newline) = memchr::memrchr(b'\n', &before) {
        return Ok(from + newline as u64 + 1);
    }
    // A character has at most three bytes after its first byte.
    let around = content.bytes(at.saturating_sub(3), 4.min(at as usize + 1))?;
    let back = around.iter().rev().take_while(|byte| **byte & 0xC0 == 0x80).count();
    Ok(if back > 3 { at } else { at - back as u64 })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ranges(text: &[u8], most: u64, overlap: u64) -> Vec<Range<u64>> {
        let chunks = Chunks::plan(text.len() as u64, most, overlap);
        (0..chunks.count()).map(|index| chunks.range(&text, index).unwrap()).collect()
    }

    #[test]
    fn what_fits_is_one_chunk() {
        assert!(ranges(b"", 1000, 10).is_empty());
        assert_eq!(ranges(b"x", 1000, 10).first(), Some(&(0..1)));
        let found = ranges(&[b'x'; 1000], 1000, 10);
        assert_eq!((found.len(), &found[0]), (1, &(0..1000)));
        assert_eq!(ranges(&[b'x'; 1001], 1000, 0).len(), 2);
    }

    #[test]
    fn there_is_no_small_last_one() {
        let found = ranges(&[b'x'; 10_001], 1000, 10);
        let sizes: Vec<u64> = found.iter().map(|range| range.end - range.start).collect();
        let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
        assert!(most - least <= most / 100 + 1, "{sizes:?}");
    }

    #[test]
    fn a_line_of_300_mb_is_cut_without_reading_it() {
        /// Content that fails if more bytes are read than are needed around the cuts.
        struct Long;
        impl Content for Long {
            fn len(&self) -> u64 {
                300 << 20
            }

            fn read_at(&self, _: u64, buffer: &mut [u8]) -> io::Result<usize> {
                assert!(buffer.len() <= 64 * 1024);
                buffer.fill(b'x');
                Ok(buffer.len())
            }
        }
        let chunks = Chunks::plan(Long.len(), 1 << 20, 10);
        let mut seen = 0;
        for index in 0..chunks.count() {
            let range = chunks.range(&Long, index).unwrap();
            assert!(range.start <= seen && range.end > seen && range.end - range.start <= 1 << 20);
            seen = range.end;
        }
        assert_eq!(seen, Long.len());
    }

    proptest! {
        #[test]
        fn chunks_cover_all_and_split_no_character(
            lines in prop::collection::vec("[a-z\u{e9}\u{1f600}]{0,80}", 0..400),
            most in 1000_u64..8000,
            overlap in 0_u64..=50,
            ended in any::<bool>(),
        ) {
            let text = lines.join(if ended { "\n" } else { "" });
            let found = ranges(text.as_bytes(), most, overlap);
            let mut seen = 0;
            for (index, range) in found.iter().enumerate() {
                let size = range.end - range.start;
                prop_assert!(text.get(range.start as usize..range.end as usize).is_some());
                prop_assert!(range.start <= seen && range.end >= seen && size <= most, "{found:?}");
                if index > 0 {
                    // The ends of the chunks have moved by less than an eighth.
                    let shared = seen - range.start;
                    let wanted = size * overlap / 100;
                    prop_assert!(shared.abs_diff(wanted) <= most / 8 + 4, "{found:?}");
                }
                seen = range.end;
            }
            prop_assert_eq!(seen, text.len() as u64);
            let planned = Chunks::plan(text.len() as u64, most, overlap).size();
            let line = lines.iter().map(|line| line.len() as u64 + 1).max().unwrap_or(0);
            let line = if ended { line } else { 4 };
            for range in &found {
                let apart = (range.end - range.start).abs_diff(planned);
                prop_assert!(apart <= line.max(planned / 100) + 2, "{found:?} {planned} {line}");
            }
        }
    }
}
