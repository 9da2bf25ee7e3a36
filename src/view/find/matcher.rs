//! A word to search for, how it matches the words of a text, and a search for several words at
//! once.

use std::sync::OnceLock;

use regex::bytes::{Regex, RegexBuilder};

use crate::find::parts;
use crate::find::parts::{WordPart, WordParts};

// A set of words is a `u64` with one bit for each word.
pub(super) const MAX_TERMS: usize = 64;
// Maximum number of bytes between two parts of a name: `::`, `->`.
const MAX_JOINT: usize = 2;
// A longer word may match by its prefix if that has at least this length: `authentication` matches
// `auth`.
const MIN_PREFIX: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) term: usize,
    pub(super) fit: TermFit,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Searches for several words at once.
///
/// `initials` and `ascii` map a first character to the words that may begin with it. `candidates`
/// is built when it is first needed, because building it takes as long as searching some pages of
/// text.
#[derive(Debug)]
pub(super) struct Matcher {
    pub(super) terms: Vec<Term>,
    initials: Vec<(char, u64)>,
    ascii: [u64; 128],
    candidates: OnceLock<Option<Regex>>,
}

#[derive(Debug, Default)]
pub(super) struct Finder {
    parts: WordParts,
    pub(super) hits: Vec<Hit>,
}

impl Matcher {
    /// Creates a matcher for at most [`MAX_TERMS`] words.
    pub(super) fn new(terms: Vec<Term>) -> Self {
        assert!(terms.len() <= MAX_TERMS, "a set of words has 64 bits");
        let (mut ascii, mut initials) = ([0; 128], Vec::new());
        for (number, term) in terms.iter().enumerate() {
            let initial = term.initial();
            match ascii.get_mut(initial as usize) {
                Some(known) => *known |= 1 << number,
                None => initials.push((initial, 1 << number)),
            }
        }
        Self { terms, initials, ascii, candidates: OnceLock::new() }
    }

    // Returns the offset of the first place at or after `at` where a word may be.
    pub(super) fn candidate(&self, text: &[u8], at: usize) -> Option<usize> {
        let candidates = self.candidates.get_or_init(|| candidates(&self.terms));
        let Some(candidates) = candidates else { return (at < text.len()).then_some(at) };
        candidates.find_at(text, at).map(|found| found.start())
    }

    pub(super) fn find<'f>(&self, finder: &'f mut Finder, text: &[u8], escaped: bool) -> &'f [Hit] {
        let Finder { parts, hits } = finder;
        parts.split(text, escaped);
        hits.clear();
        for at in 0..parts.parts.len() {
            let part = &parts.parts[at];
            let mut set = self.beginning_with(parts.text(part).chars().next());
            while set != 0 {
                let term = set.trailing_zeros() as usize;
                set &= set - 1;
                if let Some((fit, count)) = self.terms[term].fit(text, parts, at) {
                    let end = parts.parts[at + count - 1].end;
                    hits.push(Hit { term, fit, start: part.start, end });
                }
            }
        }
        hits
    }

    fn beginning_with(&self, initial: Option<char>) -> u64 {
        let Some(initial) = initial else { return 0 };
        let other = || self.initials.iter().filter(|(known, _)| *known == initial);
        let ascii = self.ascii.get(initial as usize).copied();
        ascii.unwrap_or_else(|| other().fold(0, |set, (_, more)| set | more))
    }
}

/// Returns a pattern that finds all places in ASCII text at which one of `terms` may match. Returns
/// `None` if every place has to be examined.
fn candidates(terms: &[Term]) -> Option<Regex> {
    let ascii = terms.iter().map(Term::needle).filter(|needle| needle.is_ascii());
    let mut needles: Vec<String> = ascii.map(regex::escape).collect();
    // JSON escapes of letters with accents.
    needles.push(r"\\u0".to_owned());
    needles.sort();
    needles.dedup();
    RegexBuilder::new(&needles.join("|")).case_insensitive(true).unicode(false).build().ok()
}

/// Quality of the match between a word in a text and a term, worst first: the word begins with the
/// term, is another form of it (`eviction` and `evicted`), or equals it apart from case and
/// accents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum TermFit {
    Begins,
    Form,
    Same,
}

impl TermFit {
    pub(super) fn factor(self) -> f64 {
        match self {
            Self::Begins => 0.7,
            Self::Form => 0.95,
            Self::Same => 1.0,
        }
    }
}

/// A word to search for, folded and split into pieces. `asked` is the number of the word in the
/// question; the term is this word or a part of it. `whole` is all pieces joined: `oomkilled` for
/// `OOMKilled`.
#[derive(Debug, Clone)]
pub(super) struct Term {
    pub(super) text: String,
    pub(super) asked: usize,
    pieces: Vec<TermPiece>,
    whole: String,
}

#[derive(Debug, Clone)]
struct TermPiece {
    text: String,
    // Set only if the piece consists of letters.
    stem: Option<String>,
}

impl TermPiece {
    fn new(text: &str) -> Self {
        let stem = is_word(text).then(|| parts::stem(text).to_owned());
        Self { text: text.to_owned(), stem }
    }

    fn fit(&self, word: &str) -> Option<TermFit> {
        if word == self.text {
            return Some(TermFit::Same);
        }
        let stem = self.stem.as_deref()?;
        (word.starts_with(stem) && is_word(word) && parts::stem(word) == stem)
            .then_some(TermFit::Form)
    }

    // Separates letters from a number: `bind-9` for `bind9`.
    fn apart(&self) -> Option<String> {
        let (letters, number) = self.text.split_at(self.text.find(|c: char| c.is_ascii_digit())?);
        let is_both = !letters.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        (is_both && is_word(letters)).then(|| [letters, number].join("-"))
    }

    /// Returns true if `word` begins with the piece. A piece of letters must have at least
    /// `MIN_PREFIX` characters. Digits at the end of the piece must not continue in `word`.
    fn begins(&self, word: &str) -> bool {
        let Some(rest) = word.strip_prefix(self.text.as_str()) else { return false };
        if self.stem.is_some() {
            return self.text.chars().count() >= MIN_PREFIX;
        }
        let is_digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
        !(is_digit(self.text.chars().last()) && is_digit(rest.chars().next()))
    }
}

impl Term {
    pub(super) fn new(text: &str, asked: usize) -> Option<Self> {
        let mut parts = WordParts::default();
        parts.split(text.as_bytes(), false);
        let texts = parts.parts.iter().map(|part| parts.text(part));
        let pieces: Vec<TermPiece> =
            texts.filter(|text| !text.is_empty()).map(TermPiece::new).collect();
        let whole = pieces.iter().map(|piece| piece.text.as_str()).collect();
        (!pieces.is_empty()).then(|| Self { text: text.to_owned(), asked, pieces, whole })
    }

    /// Returns the terms for the parts of a name that have a meaning of their own. For letters
    /// followed by a number, as in `bind9`, returns the name with both separated.
    pub(super) fn parts(&self) -> Vec<Self> {
        if let [piece] = self.pieces.as_slice() {
            return piece
                .apart()
                .and_then(|name| Self::new(&name, self.asked))
                .into_iter()
                .collect();
        }
        let tells = |piece: &&TermPiece| piece.text.chars().count() >= 2;
        let pieces = self.pieces.iter().filter(tells);
        pieces.filter_map(|piece| Self::new(&piece.text, self.asked)).collect()
    }

    pub(super) fn is_name(&self) -> bool {
        self.pieces.len() > 1
    }

    // Returns the first character of all folded words that may match.
    fn initial(&self) -> char {
        self.whole.chars().next().unwrap_or_default()
    }

    // Returns a text that every ASCII line with the word contains, apart from case.
    pub(super) fn needle(&self) -> &str {
        let stem = |piece: &'_ TermPiece| piece.stem.as_ref().map_or(piece.text.len(), String::len);
        let longest = self.pieces.iter().max_by_key(|piece| stem(piece)).expect("not empty");
        longest.stem.as_deref().unwrap_or(&longest.text)
    }

    /// Returns a pattern for the word in all its forms, with `joint` between its parts. The pattern
    /// must be used without regard to case.
    pub(super) fn pattern(&self, joint: &str) -> String {
        let last = self.pieces.len() - 1;
        let piece = |(number, piece): (usize, &TermPiece)| {
            let stem = piece.stem.as_ref().filter(|_| number == last);
            escaped(stem.unwrap_or(&piece.text))
        };
        let pieces: Vec<String> = self.pieces.iter().enumerate().map(piece).collect();
        pieces.join(joint)
    }

    pub(super) fn folded(&self) -> &str {
        &self.whole
    }

    // Matches the words of `parts` from index `at` on. Returns the quality of the match, and the
    // number of parts that match.
    pub(super) fn fit(
        &self,
        text: &[u8],
        parts: &WordParts,
        at: usize,
    ) -> Option<(TermFit, usize)> {
        self.fit_whole(parts, at).or_else(|| self.fit_pieces(text, parts, at))
    }

    // Matches a word that consists of several humps, or a name that is written as one word.
    fn fit_whole(&self, parts: &WordParts, at: usize) -> Option<(TermFit, usize)> {
        let first = &parts.parts[at];
        if !first.begins || (first.ends && !self.is_name()) {
            return None;
        }
        let count = parts.parts[at..].iter().position(|part| part.ends)? + 1;
        let last = &parts.parts[at + count - 1];
        let word = &parts.folded[first.folded.0..last.folded.1];
        if word == self.whole {
            return Some((TermFit::Same, count));
        }
        let piece = self.pieces.first().filter(|_| !self.is_name())?;
        Some((piece.fit(word)?, count))
    }

    fn fit_pieces(&self, text: &[u8], parts: &WordParts, at: usize) -> Option<(TermFit, usize)> {
        let found = parts.parts.get(at..at + self.pieces.len())?;
        let mut worst = TermFit::Same;
        let mut before: Option<&WordPart> = None;
        for (number, (piece, part)) in self.pieces.iter().zip(found).enumerate() {
            if before.is_some_and(|before| !are_joined(text, before, part)) {
                return None;
            }
            let word = parts.text(part);
            let is_last = number + 1 == self.pieces.len();
            let fit = match piece.fit(word) {
                None if is_last && piece.begins(word) => TermFit::Begins,
                fit => fit?,
            };
            worst = worst.min(fit);
            before = Some(part);
        }
        Some((worst, found.len()))
    }
}

fn are_joined(text: &[u8], before: &WordPart, after: &WordPart) -> bool {
    let between = &text[before.end..after.start];
    between.len() <= MAX_JOINT && between.iter().all(|byte| *byte >= b' ' && *byte != b'\\')
}

// Escapes `text` for a regular expression, without escapes that would only confuse a reader.
pub(super) fn escaped(text: &str) -> String {
    regex::escape(text).replace("\\-", "-")
}

fn is_word(word: &str) -> bool {
    word.chars().all(char::is_alphabetic)
}

// All fits, worst first.
const FITS: [TermFit; 3] = [TermFit::Begins, TermFit::Form, TermFit::Same];

/// A set of words with the best fit of each. For each of [`FITS`], `sets` has the words that fit at
/// least that well, as bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct FoundTerms {
    sets: [u64; 3],
}

impl FoundTerms {
    pub(super) fn of(hits: &[Hit]) -> Self {
        let mut found = Self::default();
        for hit in hits {
            found.add(hit);
        }
        found
    }

    pub(super) fn add(&mut self, hit: &Hit) {
        for (set, fit) in self.sets.iter_mut().zip(FITS) {
            *set |= u64::from(fit <= hit.fit) << hit.term;
        }
    }

    pub(super) fn join(&mut self, other: &Self) {
        self.sets.iter_mut().zip(other.sets).for_each(|(set, more)| *set |= more);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sets[0] == 0
    }

    pub(super) fn terms(&self) -> u64 {
        self.sets[0]
    }

    // Returns the sum of the weights of the words, each multiplied by how well the word fits.
    pub(super) fn value(&self, weights: &[f64]) -> f64 {
        let worth = |(number, weight): (usize, &f64)| {
            let fits = self.sets.iter().zip(FITS).rev();
            let fit = fits.clone().find(|(set, _)| *set >> number & 1 == 1);
            fit.map_or(0.0, |(_, fit)| weight * fit.factor())
        };
        if self.is_empty() {
            0.0
        } else {
            weights.iter().enumerate().map(|(n, w)| worth((n, w))).sum()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matcher(words: &[&str]) -> Matcher {
        let terms = words.iter().zip(0..).map(|(word, at)| Term::new(word, at).unwrap()).collect();
        Matcher::new(terms)
    }

    fn hits(words: &[&str], text: &str) -> Vec<(usize, TermFit, String)> {
        let mut finder = Finder::default();
        let found = matcher(words).find(&mut finder, text.as_bytes(), false).to_vec();
        let shown = |hit: Hit| (hit.term, hit.fit, text[hit.start..hit.end].to_owned());
        found.into_iter().map(shown).collect()
    }

    #[test]
    fn all_words_are_found() {
        let want = [
            (1, TermFit::Same, "pod".to_owned()),
            (2, TermFit::Begins, "web-7f9c".to_owned()),
            (0, TermFit::Form, "eviction".to_owned()),
        ];
        assert_eq!(hits(&["evicted", "pod", "web-7"], "pod web-7f9c: eviction"), want);
        assert_eq!(hits(&["space"], "two namespaces"), []);
        assert_eq!(hits(&["space"], "namespace space").len(), 1);
    }

    #[test]
    fn candidates_miss_nothing() {
        let words = ["retry", "OOMKilled", "web-7"];
        let matcher = matcher(&words);
        for text in ["RETRIES", "oomkilled", "OOM killed", "x web:7", "retrying"] {
            assert!(!hits(&words, text).is_empty(), "{text}");
            assert!(matcher.candidate(text.as_bytes(), 0).is_some(), "{text}");
        }
        assert_eq!(matcher.candidate(b"nothing of that", 0), None);
        assert_eq!(super::tests::matcher(&["\u{65e5}"]).candidate(b"ascii", 0), None);
    }

    /// Returns the fit of the first word in `text` that matches `word`.
    fn fit(word: &str, text: &str) -> Option<TermFit> {
        let term = Term::new(word, 0).unwrap();
        let mut parts = WordParts::default();
        parts.split(text.as_bytes(), false);
        let mut fits =
            (0..parts.parts.len()).filter_map(|at| term.fit(text.as_bytes(), &parts, at));
        fits.next().map(|(fit, _)| fit)
    }

    #[test]
    fn words_fit() {
        for (word, text, want) in [
            ("evicted", "an Eviction", Some(TermFit::Form)),
            ("evicted", "Evicted!", Some(TermFit::Same)),
            ("web-7", "pod web-7f9c", Some(TermFit::Begins)),
            ("web-7", "pod web-78", None),
            ("web-7", "web 7", Some(TermFit::Same)),
            ("payment-gateway", "paymentGateway", Some(TermFit::Same)),
            ("paymentGateway", "PAYMENT_GATEWAYS", Some(TermFit::Form)),
            ("payment-gateway", "payment is a gateway", None),
            ("gateway", "paymentGateway", Some(TermFit::Same)),
            ("oomkilled", "reason: OOMKilled", Some(TermFit::Same)),
            ("OOMKilled", "reason: oomkilled", Some(TermFit::Same)),
            ("c75e", "usr_c75e", Some(TermFit::Same)),
            ("usr_c75e", "user usr_c75e2", Some(TermFit::Begins)),
            ("auth", "authentication", Some(TermFit::Begins)),
            ("pod", "podman", None),
            ("500", "500ms", Some(TermFit::Begins)),
            ("500", "5000", None),
            ("10.0.0.5", "10.0.0.5:80", Some(TermFit::Same)),
            ("10.0.0.5", "10.0.0.53", None),
            ("zurich", "Z\u{fc}rich", Some(TermFit::Same)),
            ("main.rs", "src/main.rs:7", Some(TermFit::Same)),
        ] {
            assert_eq!(fit(word, text), want, "{word} in {text}");
        }
    }

    #[test]
    fn names_have_parts() {
        let parts = |word: &str| -> Vec<String> {
            let parts = Term::new(word, 0).unwrap().parts();
            parts.into_iter().map(|term| term.text).collect()
        };
        assert_eq!(parts("payment-gateway-7"), ["payment", "gateway"]);
        assert_eq!(parts("payment"), [""; 0]);
        assert_eq!(parts("BIND9"), ["bind-9"]);
        assert_eq!(parts("c75e"), [""; 0]);
        assert!(Term::new("--", 0).is_none());
    }
}
