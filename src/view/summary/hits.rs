//! The hits of a search, by file: the path once, and below it `:line: text`.
//!
//! A hit is what `rg -n`, `grep -rn`, `git grep` and the search tools of hosts print: `path:8:text`,
//! `path:text`, `8:text`, `Line 8:text`, and context as `path-8-text`.

use std::collections::HashMap;

use crate::clean::{TextBudget, shortened};
use crate::number::{counted, grouped};

// Minimum number of hits of a search, and minimum percentage of hits among the lines that are not
// blank.
const MIN_HITS: usize = 8;
const MIN_PERCENT: usize = 80;
// A file has its lines in ascending order, in this percentage of them. Of source with line numbers,
// more than `MAX_ADJACENT` percent of the lines follow the line before.
const MIN_ASCENDING: usize = 90;
const MAX_ADJACENT: usize = 80;
// Maximum number of bytes of a path.
const PATH_BYTES: usize = 300;
// Maximum number of lines of another kind that are shown, and of characters of one.
const MAX_OTHERS: usize = 5;
const OTHER_CHARS: usize = 200;
// Maximum number of characters of the line that lists the numbers of hits without their text.
const NUMBERS_CHARS: usize = 400;
// Numbers of characters to which the texts of hits are cut, the longest that fits first.
const TEXT_CHARS: [usize; 16] =
    [400, 300, 250, 200, 160, 140, 120, 100, 90, 80, 70, 60, 50, 40, 35, 30];
// If not all texts fit: the numbers of hits of each file that have a text, and of those that have
// their line number at least.
const WITH_TEXT: [usize; 12] = [40, 30, 20, 16, 12, 8, 6, 4, 3, 2, 1, 0];
const WITH_NUMBER: [usize; 4] = [usize::MAX, 50, 12, 0];
const SHORT_TEXTS: [usize; 3] = [60, 40, 30];

#[derive(Clone, Copy)]
struct SearchHit<'a> {
    number: Option<u64>,
    text: &'a [u8],
    is_context: bool,
}

struct FileHits<'a> {
    path: &'a [u8],
    hits: Vec<SearchHit<'a>>,
}

/// The hits of a search. `other` has the lines that are neither hits nor separators.
pub(super) struct Hits<'a> {
    files: Vec<FileHits<'a>>,
    other: Vec<&'a [u8]>,
}

// How much of each hit is shown.
#[derive(Clone, Copy)]
struct HitDetail {
    chars: usize,
    context: bool,
    with_text: usize,
    with_number: usize,
}

impl<'a> Hits<'a> {
    /// Returns the hits if nearly all `lines` are hits.
    pub(super) fn of(lines: &[&'a [u8]]) -> Option<Self> {
        let mut found = Self { files: Vec::new(), other: Vec::new() };
        let (mut at, mut hits) = (HashMap::new(), 0);
        let told = lines.iter().filter(|line| !line.trim_ascii().is_empty() && **line != b"--");
        for line in told {
            let Some((path, hit)) = parsed(line, &at) else {
                found.other.push(line);
                continue;
            };
            hits += 1;
            let file = *at.entry(path).or_insert_with(|| {
                found.files.push(FileHits { path, hits: Vec::new() });
                found.files.len() - 1
            });
            found.files[file].hits.push(hit);
        }
        let is_most = 100 * hits >= MIN_PERCENT * (hits + found.other.len());
        (hits >= MIN_HITS && is_most && found.has_places()).then_some(found)
    }

    // Returns true if the numbers look like those of lines that a search selected.
    fn has_places(&self) -> bool {
        let (mut pairs, mut ascending, mut adjacent) = (0, 0, 0);
        let mut has_context = false;
        for FileHits { hits, .. } in &self.files {
            has_context |= hits.iter().any(|hit| hit.is_context);
            let numbers: Vec<u64> = hits.iter().filter_map(|hit| hit.number).collect();
            for pair in numbers.windows(2) {
                pairs += 1;
                ascending += usize::from(pair[0] < pair[1]);
                adjacent += usize::from(pair[0] + 1 == pair[1]);
            }
        }
        let is_source = !has_context && 100 * adjacent > MAX_ADJACENT * pairs;
        pairs == 0 || (100 * ascending >= MIN_ASCENDING * pairs && !is_source)
    }

    /// Returns true if `line` is a hit.
    pub(super) fn is_hit(line: &[u8]) -> bool {
        parsed(line, &HashMap::new()).is_some()
    }

    /// Returns the lines with the most detail that fits, and what the lines show.
    pub(super) fn fitted(&self, budget: TextBudget) -> Option<(String, Vec<String>)> {
        let all = usize::MAX;
        let whole = |chars, context| HitDetail { chars, context, with_text: all, with_number: all };
        let has_context = self.files.iter().any(|file| file.hits.iter().any(|hit| hit.is_context));
        let with_context =
            TEXT_CHARS.iter().filter(|_| has_context).map(|chars| whole(*chars, true));
        let without = TEXT_CHARS.iter().map(|chars| whole(*chars, false));
        let parts = WITH_NUMBER.into_iter().flat_map(|with_number| {
            WITH_TEXT.into_iter().flat_map(move |with_text| {
                SHORT_TEXTS.map(|chars| HitDetail { chars, context: false, with_text, with_number })
            })
        });
        let details = with_context.chain(without).chain(parts);
        details
            .into_iter()
            .find_map(|detail| Some((self.shown(detail, has_context), self.lines(detail, budget)?)))
    }

    fn shown(&self, detail: HitDetail, has_context: bool) -> String {
        let is_told = |hit: &&SearchHit<'_>| detail.context || !hit.is_context;
        let all = || self.files.iter().flat_map(|file| &file.hits);
        let context = all().filter(|hit| hit.is_context).count() as u64;
        let hits = counted(all().count() as u64 - context, "hit");
        let what = format!("{hits} in {}", counted(self.files.len() as u64, "file"));
        let which = match detail.with_text {
            usize::MAX => format!("all {what}"),
            0 => format!("the files of {what}"),
            most => format!("{what}, at most {most} of each with its text"),
        };
        let is_cut = all().filter(is_told).any(|hit| hit.text.trim_ascii().len() > detail.chars);
        let cut = is_cut && detail.with_text > 0;
        let cut = cut.then(|| format!(", text cut at {} characters", detail.chars));
        let hidden = format!("; {} of context not shown", counted(context, "line"));
        let hidden = Some(hidden).filter(|_| has_context && !detail.context);
        [Some(which), cut, hidden].into_iter().flatten().collect()
    }

    // Returns `None` if the lines exceed the budget.
    fn lines(&self, detail: HitDetail, budget: TextBudget) -> Option<Vec<String>> {
        let (mut lines, mut left) = (Vec::new(), budget.bytes);
        let mut add = |line: String| {
            left = left.checked_sub(line.len() + 1)?;
            lines.push(line);
            (lines.len() <= budget.lines).then_some(())
        };
        others(&self.other).into_iter().try_for_each(&mut add)?;
        for FileHits { path, hits } in &self.files {
            if !path.is_empty() {
                add(shortened(path, PATH_BYTES))?;
            }
            let mut seen = 0;
            let mut numbers = Vec::new();
            for hit in hits.iter().filter(|hit| detail.context || !hit.is_context) {
                seen += usize::from(!hit.is_context);
                if seen <= detail.with_text {
                    add(hit.line(detail.chars))?;
                } else if seen <= detail.with_text.saturating_add(detail.with_number) {
                    numbers.extend(hit.number);
                }
            }
            rest(seen.saturating_sub(detail.with_text), &numbers)
                .into_iter()
                .try_for_each(&mut add)?;
        }
        Some(lines)
    }
}

impl SearchHit<'_> {
    fn line(&self, chars: usize) -> String {
        let mark = if self.is_context { '-' } else { ':' };
        let place = self.number.map(|number| format!("{mark}{number}{mark} ")).unwrap_or_default();
        format!("{place}{}", shortened(self.text.trim_ascii(), chars))
    }
}

// Returns the first of the lines that are not of the list, and the number of the others.
pub(super) fn others(other: &[&[u8]]) -> Vec<String> {
    let more = other.len().saturating_sub(MAX_OTHERS) as u64;
    let more = (more > 0).then(|| format!("+{} of other kinds", counted(more, "line")));
    let first = other.iter().take(MAX_OTHERS).map(|line| shortened(line, OTHER_CHARS));
    first.chain(more).collect()
}

// Returns the lines about the hits of a file that have no text: `+12 more: :40 :55 :70`.
fn rest(count: usize, numbers: &[u64]) -> Vec<String> {
    if count == 0 {
        return Vec::new();
    }
    let colon = if numbers.is_empty() { "" } else { ":" };
    let mut lines = vec![format!("+{} more{colon}", grouped(count as u64))];
    for number in numbers {
        let number = format!(" :{number}");
        match lines.last_mut() {
            Some(last) if last.len() + number.len() <= NUMBERS_CHARS => last.push_str(&number),
            _ => lines.push(number),
        }
    }
    if (1..count).contains(&numbers.len())
        && let Some(last) = lines.last_mut()
    {
        last.push_str(" ...");
    }
    lines
}

// Parses a line. `known` has the paths of the hits before it.
fn parsed<'a>(line: &'a [u8], known: &HashMap<&[u8], usize>) -> Option<(&'a [u8], SearchHit<'a>)> {
    let own = line.strip_prefix(b"Line ").unwrap_or(line);
    if let Some((number, mark, text)) = numbered(own) {
        return Some((b"", SearchHit { number: Some(number), text, is_context: mark == b'-' }));
    }
    // The colon after the letter of a drive belongs to the path.
    let from = if line.get(1) == Some(&b':') && line.get(2) == Some(&b'\\') { 2 } else { 0 };
    let colon = from + memchr::memchr(b':', &line[from..]).unwrap_or(line.len() - from);
    let (path, rest) = line.split_at(colon);
    if is_path(path) && !rest.is_empty() {
        let hit = match numbered(&rest[1..]) {
            Some((number, b':', text)) => {
                SearchHit { number: Some(number), text, is_context: false }
            }
            _ => SearchHit { number: None, text: &rest[1..], is_context: false },
        };
        if hit.number.is_some() || context(line, known).is_none() {
            return Some((path, hit));
        }
    }
    context(line, known)
}

// Parses `path-8-text`. The number is at the first place after a known path, or else after anything
// that may be a path.
fn context<'a>(line: &'a [u8], known: &HashMap<&[u8], usize>) -> Option<(&'a [u8], SearchHit<'a>)> {
    let dashes = memchr::memchr_iter(b'-', &line[..line.len().min(PATH_BYTES)]);
    let places = dashes.filter_map(|dash| {
        let (number, mark, text) = numbered(&line[dash + 1..])?;
        let hit = SearchHit { number: Some(number), text, is_context: true };
        (mark == b'-' && is_path(&line[..dash])).then_some((&line[..dash], hit))
    });
    let mut first = None;
    for place in places {
        if known.contains_key(place.0) {
            return Some(place);
        }
        first.get_or_insert(place);
    }
    first
}

// Parses a number and the mark after it.
fn numbered(text: &[u8]) -> Option<(u64, u8, &[u8])> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mark = *text.get(digits).filter(|mark| **mark == b':' || **mark == b'-')?;
    let number = str::from_utf8(&text[..digits]).ok()?.parse().ok()?;
    Some((number, mark, &text[digits + 1..]))
}

fn is_path(text: &[u8]) -> bool {
    let has = |sign: u8| memchr::memchr(sign, text).is_some();
    !text.is_empty()
        && text.len() <= PATH_BYTES
        && (has(b'/') || has(b'.') || has(b'\\'))
        && !text.iter().any(|byte| b" \t\"'()<>{};,=".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitted(text: &str, bytes: usize) -> Option<(String, String)> {
        let lines: Vec<&[u8]> = text.lines().map(str::as_bytes).collect();
        let (shown, lines) = Hits::of(&lines)?.fitted(TextBudget { bytes, lines: 150 })?;
        Some((shown, lines.join("\n")))
    }

    fn search(files: usize, hits: usize, text: &str) -> String {
        let hit = |n: usize| format!("src/part{}.rs:{}:    {text}\n", n / hits, 7 * (n % hits) + 1);
        (0..files * hits).map(hit).collect()
    }

    #[test]
    fn each_path_stands_once() {
        let text = "lib/a.py:3:  def f():\nlib/a.py:14:f()\nb.py:1:import f\n";
        let text = format!("{text}{}", search(1, 8, "f"));
        let (shown, lines) = fitted(&text, 4000).unwrap();
        assert_eq!(shown, "all 11 hits in 3 files");
        assert!(
            lines.starts_with(
                "lib/a.py\n:3: def f():\n:14: f()\nb.py\n:1: import f\nsrc/part0.rs\n"
            ),
            "{lines}"
        );
    }

    #[test]
    fn texts_are_cut_before_hits_are_left_out() {
        let text = search(3, 12, &"words of a line that go on and on, ".repeat(4));
        let (shown, lines) = fitted(&text, 2000).unwrap();
        assert_eq!(shown, "all 36 hits in 3 files, text cut at 40 characters");
        assert_eq!(lines.lines().count(), 39);
        let (shown, lines) = fitted(&text, 800).unwrap();
        assert_eq!(
            shown,
            "36 hits in 3 files, at most 6 of each with its text, text cut at 30 characters"
        );
        assert!(lines.contains("\n+6 more: :43 :50 :57 "), "{lines}");
        let (shown, lines) = fitted(&text, 90).unwrap();
        assert!(shown.starts_with("the files of 36 hits in 3 files"), "{shown}");
        assert_eq!(lines, "src/part0.rs\n+12 more\nsrc/part1.rs\n+12 more\nsrc/part2.rs\n+12 more");
        assert_eq!(fitted(&text, 50), None);
    }

    #[test]
    fn context_goes_first() {
        let hit =
            |n: usize| format!("a-1-b/c.ts-{}-x {n}\na-1-b/c.ts:{}:y\n--\n", 9 * n, 9 * n + 1);
        let text: String = (1..20).map(hit).collect();
        let (shown, lines) = fitted(&text, 4000).unwrap();
        assert_eq!(shown, "all 19 hits in 1 file");
        assert!(lines.starts_with("a-1-b/c.ts\n-9- x 1\n:10: y\n-18- x 2\n"), "{lines}");
        let (shown, lines) = fitted(&text, 200).unwrap();
        assert_eq!(shown, "all 19 hits in 1 file; 19 lines of context not shown");
        assert!(lines.starts_with("a-1-b/c.ts\n:10: y\n:19: y\n"), "{lines}");
    }

    #[test]
    fn other_numbers_are_no_places() {
        let line = |n: usize| format!("{n}: let x = {n};\n");
        let source: String = (1..40).map(line).collect();
        assert_eq!(fitted(&source, 4000), None);
        let line = |n: usize| format!("12:30:{n}: started\n");
        let times: String = (10..40).map(line).collect();
        assert_eq!(fitted(&times, 4000), None);
        let prose = "A line: with a colon.\n".repeat(30);
        assert_eq!(fitted(&prose, 4000), None);
    }

    #[test]
    fn forms_of_other_tools() {
        let line = |n: usize| format!("Line {}:call({n})\n", 3 * n);
        let tool: String = (1..30).map(line).collect();
        let (shown, lines) =
            fitted(&format!("Found 29 matches in /a/b.py:\n{tool}"), 4000).unwrap();
        assert_eq!(shown, "all 29 hits in 1 file");
        assert!(lines.starts_with("Found 29 matches in /a/b.py:\n:3: call(1)\n"), "{lines}");
        let windows = "C:\\a\\b.cs:7:x\n".to_owned() + &search(2, 6, "x");
        assert!(fitted(&windows, 4000).unwrap().1.starts_with("C:\\a\\b.cs\n:7: x\n"));
        let line = |n: usize| format!("./a/{}.py:    call({n})\n", n / 5);
        let unnumbered: String = (0..20).map(line).collect();
        assert!(fitted(&unnumbered, 4000).unwrap().1.starts_with("./a/0.py\ncall(0)\n"));
    }
}
