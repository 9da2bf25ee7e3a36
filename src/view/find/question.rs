//! The words of a question. This module chooses which of them to search for, and builds the `.grep`
//! query that finds all their lines.

use crate::Query;
use crate::find::census::{Census, Joint, NearestWords, TermCount};
use crate::find::matcher::{Matcher, Term};
use crate::find::{matcher, parts, words};

// Further words are ignored.
const MAX_ASKED: usize = 24;
// The weight of a word is at least `ANY_WORD_WEIGHT`, and up to 1 if the word is rare. It is
// multiplied by `REPLACED_WEIGHT` for the replacement of a missing word, and by `NAME_PART_WEIGHT`
// for a part of a name.
const ANY_WORD_WEIGHT: f64 = 0.4;
const REPLACED_WEIGHT: f64 = 0.8;
const NAME_PART_WEIGHT: f64 = 0.6;
// Words that occur in more than one of 5 lines are not worth a search for all their lines.
const COMMON_SHARE: u64 = 5;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum QuestionError {
    NoWords,
    TooLong,
}

/// The words of a question, and the parts of the names among them. The first terms of `matcher` are
/// the words, in the order of `asked`. The terms of the parts follow.
#[derive(Debug)]
pub(super) struct FindQuestion {
    pub(super) asked: Vec<String>,
    pub(super) matcher: Matcher,
    phrases: Vec<Term>,
}

/// The words to search for: words of the question that occur, and replacements for others.
///
/// `phrases` are phrases of the question with a word that is not searched for alone. `replaced`
/// pairs words with their replacements. `absent` has the words that neither occur nor have a
/// replacement. `query` is the `.grep` query for all lines with the words.
#[derive(Debug)]
pub(super) struct ChosenTerms {
    pub(super) asked: Vec<String>,
    pub(super) matcher: Matcher,
    pub(super) phrases: Matcher,
    pub(super) weights: Vec<f64>,
    pub(super) replaced: Vec<(String, String)>,
    pub(super) absent: Vec<String>,
    pub(super) query: Query,
}

struct ChosenTerm {
    term: Term,
    factor: f64,
    lines: u64,
    joint: Option<Joint>,
    prefix: Option<Vec<u8>>,
}

impl FindQuestion {
    pub(super) fn read(text: &str) -> Result<Self, QuestionError> {
        let words = words::counting(text);
        if words.iter().any(|word| word.len() > parts::MAX_WORD_BYTES) {
            return Err(QuestionError::TooLong);
        }
        let mut terms: Vec<Term> = Vec::new();
        for word in words.iter().take(MAX_ASKED) {
            terms.extend(Term::new(word, terms.len()));
        }
        if terms.is_empty() {
            return Err(QuestionError::NoWords);
        }
        let asked = terms.iter().map(|term| term.text.clone()).collect();
        let parts: Vec<Term> = terms.iter().flat_map(Term::parts).collect();
        terms.extend(parts);
        terms.truncate(matcher::MAX_TERMS);
        let phrases = words::phrases(text).into_iter().take(MAX_ASKED);
        let phrases = phrases.filter_map(|phrase| Term::new(&phrase, 0)).collect();
        Ok(Self { asked, matcher: Matcher::new(terms), phrases })
    }

    /// Returns the words that may be misspelt, each with its number in the question. A word may be
    /// misspelt if it consists of letters, and if neither a form of the word nor a part of it
    /// occurs. Returns no words if a part of the content was not counted.
    pub(super) fn missing(&self, census: &Census) -> Vec<(usize, &str)> {
        let missing = self.terms().filter(|term| self.choices(term, census).is_empty());
        let missing = missing.take(if census.is_whole { usize::MAX } else { 0 });
        let may_be_misspelt =
            |term: &&Term| !term.is_name() && term.folded().chars().all(char::is_alphabetic);
        missing.filter(may_be_misspelt).map(|term| (term.asked, term.folded())).collect()
    }

    fn terms(&self) -> impl Iterator<Item = &Term> {
        self.matcher.terms[..self.asked.len()].iter()
    }

    /// Returns the terms for a word of the question: the word itself if it occurs, otherwise the
    /// parts of it that occur.
    fn choices(&self, term: &Term, census: &Census) -> Vec<ChosenTerm> {
        let terms = || self.matcher.terms.iter().zip(&census.tallies).enumerate();
        let of_word = || terms().filter(|(_, (other, _))| other.asked == term.asked);
        let choice = |number: usize| {
            let (term, tally) = (&self.matcher.terms[number], &census.tallies[number]);
            // A name among the parts is another spelling of the given name.
            let is_asked = number < self.asked.len() || term.is_name();
            let factor = if is_asked { 1.0 } else { NAME_PART_WEIGHT };
            let TermCount { lines, joint, prefix, .. } = tally.clone();
            ChosenTerm { term: term.clone(), factor, lines, joint, prefix }
        };
        let all: Vec<ChosenTerm> = of_word().map(|(number, _)| choice(number)).collect();
        let whole = all.iter().position(|choice| choice.lines > 0).filter(|first| *first == 0);
        let keep = if whole.is_some() { 1 } else { all.len() };
        // A word that was not seen may occur in the part that was not read.
        let may_be = |number: usize| number == 0 && whole.is_none() && !census.is_whole;
        let chosen = all.into_iter().take(keep).enumerate();
        chosen.filter(|(at, choice)| choice.lines > 0 || may_be(*at)).map(|it| it.1).collect()
    }

    /// Chooses the words to search for. Returns `None` if none occurs. `instead` has the
    /// replacements for [`missing`](Self::missing) words.
    pub(super) fn choose(&self, census: &Census, instead: &NearestWords) -> Option<ChosenTerms> {
        let missing = self.missing(census);
        let mut choices = Vec::new();
        let (mut replaced, mut absent) = (Vec::new(), Vec::new());
        for term in self.terms() {
            let own = self.choices(term, census);
            if !own.is_empty() {
                choices.extend(own);
                continue;
            }
            let number = missing.iter().position(|(asked, _)| *asked == term.asked);
            let other = number.and_then(|number| instead.found().nth(number).flatten());
            let Some((word, lines)) = other else {
                absent.push(term.text.clone());
                continue;
            };
            replaced.push((term.text.clone(), word.to_owned()));
            let term = Term::new(word, term.asked)?;
            let (factor, joint, prefix) = (REPLACED_WEIGHT, None, None);
            choices.push(ChosenTerm { term, factor, lines, joint, prefix });
        }
        if choices.is_empty() {
            return None;
        }
        let query = query(&choices, census.units);
        let weights = choices.iter().map(|choice| choice.weight(census.units)).collect();
        let matcher = Matcher::new(choices.into_iter().map(|choice| choice.term).collect());
        let asked = self.asked.clone();
        let phrases = Matcher::new(self.phrases.clone());
        Some(ChosenTerms { asked, matcher, phrases, weights, replaced, absent, query })
    }
}

impl ChosenTerm {
    // Returns the weight of a word. Words that are rarer among the `units` lines weigh more.
    fn weight(&self, units: u64) -> f64 {
        let (lines, units) = (self.lines.max(1) as f64, units as f64);
        let rarity = (units / lines).ln_1p() / units.ln_1p();
        self.factor * (ANY_WORD_WEIGHT + (1.0 - ANY_WORD_WEIGHT) * rarity.min(1.0))
    }

    fn pattern(&self) -> String {
        let prefix = self.prefix.as_deref().and_then(|forms| str::from_utf8(forms).ok());
        // Prefers a readable form: `code` instead of the stem `cod`.
        let reads_better =
            |forms: &&str| forms.is_ascii() && forms.len() == self.term.needle().len() + 1;
        if let Some(forms) = prefix.filter(|_| !self.term.is_name()).filter(reads_better) {
            return matcher::escaped(forms);
        }
        let joint = match self.joint {
            Some(Joint::Always(byte)) => matcher::escaped(&char::from(byte).to_string()),
            _ => ".?".to_owned(),
        };
        self.term.pattern(&joint)
    }
}

// Returns the query for all lines with the words. Leaves out common words, unless all words are
// common.
fn query(choices: &[ChosenTerm], units: u64) -> Query {
    let rare = |choice: &&ChosenTerm| choice.lines.saturating_mul(COMMON_SHARE) <= units;
    let all = || choices.iter();
    let some: Vec<&ChosenTerm> = if all().any(|choice| rare(&choice)) {
        all().filter(rare).collect()
    } else {
        all().collect()
    };
    let mut patterns: Vec<String> = some.into_iter().map(ChosenTerm::pattern).collect();
    patterns.dedup();
    Query::ignoring_case(&patterns.join("|"))
}

impl ChosenTerms {
    pub(super) fn asked_of(&self, terms: u64) -> usize {
        let has = |asked: usize| {
            let mut numbers = self.matcher.terms.iter().enumerate();
            numbers.any(|(number, term)| term.asked == asked && terms >> number & 1 == 1)
        };
        (0..self.asked.len()).filter(|asked| has(*asked)).count()
    }
}
