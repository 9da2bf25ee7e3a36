//! Literals of a pattern: every text that matches has one of them.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};

/// The length from which on more bytes of a literal make little difference.
const LONG: usize = 6;

/// Returns texts in lower case, one of which occurs, in any case, in whatever matches `pattern`.
/// Returns `None` if the pattern has no such texts.
pub(super) fn of(pattern: &str) -> Option<Vec<Vec<u8>>> {
    let parsed = ParserBuilder::new().unicode(false).utf8(false).build().parse(pattern);
    required(&parsed.ok()?)
}

fn required(hir: &Hir) -> Option<Vec<Vec<u8>>> {
    match hir.kind() {
        HirKind::Literal(_) | HirKind::Class(_) => only(hir).map(|text| vec![text]),
        HirKind::Capture(capture) => required(&capture.sub),
        HirKind::Repetition(repetition) if repetition.min > 0 => required(&repetition.sub),
        HirKind::Alternation(parts) => {
            let all: Option<Vec<_>> = parts.iter().map(required).collect();
            all.map(|texts| texts.concat())
        }
        HirKind::Concat(parts) => required_in_turn(parts),
        _ => None,
    }
}

/// Returns the most telling literals of parts that follow each other.
fn required_in_turn(parts: &[Hir]) -> Option<Vec<Vec<u8>>> {
    let mut all: Vec<Vec<Vec<u8>>> = Vec::new();
    let mut run: Vec<u8> = Vec::new();
    for part in parts.iter().filter(|part| !matches!(part.kind(), HirKind::Look(_))) {
        if let Some(text) = only(part) {
            run.extend(text);
            continue;
        }
        all.push(vec![std::mem::take(&mut run)]);
        all.extend(required(part));
    }
    all.push(vec![run]);
    all.into_iter()
        .filter(|texts| texts.iter().all(|text| !text.is_empty()))
        .max_by_key(|texts| telling(texts))
}

/// Returns how well `texts` tell lines apart: long ones do, and few.
fn telling(texts: &[Vec<u8>]) -> (usize, usize) {
    let shortest = texts.iter().map(Vec::len).min().unwrap_or(0);
    (shortest.min(LONG), usize::MAX - texts.len())
}

/// Returns the only text that `hir` matches, apart from its case.
fn only(hir: &Hir) -> Option<Vec<u8>> {
    match hir.kind() {
        HirKind::Literal(literal) => Some(literal.0.to_ascii_lowercase()),
        HirKind::Class(Class::Bytes(class)) => {
            let mut ranges = class.ranges().iter().map(|range| (range.start(), range.end()));
            let (first, end) = ranges.next()?;
            let letter = first.to_ascii_lowercase();
            let is_same = |(start, end): (u8, u8)| start == end && start == letter;
            (first == end && ranges.all(is_same)).then(|| vec![letter])
        }
        HirKind::Capture(capture) => only(&capture.sub),
        HirKind::Concat(parts) => {
            let texts: Option<Vec<_>> = parts.iter().map(only).collect();
            texts.map(|texts| texts.concat())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_literal_occurs_in_whatever_matches() {
        for (pattern, literals) in [
            ("^error: x", Some(vec!["error: x"])),
            (r"^\s*([Ee]rror|Fatal): \S", Some(vec!["error", "fatal"])),
            (r"(?i)\bgave up\b", Some(vec!["gave up"])),
            (r"a{2,}b? timed? ?out", Some(vec![" time"])),
            (r"x\d+(yes|no)long enough", Some(vec!["long enough"])),
            (r"[ab]|c", None),
            (r"^\d+$", None),
            (r"(a|\d)", None),
            (r"\xe2\x9c\x93|ok", Some(vec!["\u{2713}", "ok"])),
        ] {
            let found = of(pattern);
            let found: Option<Vec<&str>> = found
                .as_ref()
                .map(|texts| texts.iter().map(|text| str::from_utf8(text).unwrap()).collect());
            assert_eq!(found, literals, "{pattern}");
        }
    }
}
