//! The words and numbers by which records in JSON tell of trouble.
//!
//! The list is closed: of all other values, nothing is kept.

/// Bytes of the longest word.
pub(super) const WORD_BYTES: usize = 16;
/// The rank from which on a word tells of no trouble by itself.
pub(super) const HARMLESS: u8 = 3;
/// The last rank of an error.
pub(super) const ERROR: u8 = 1;

/// A word as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Word {
    index: u8,
    spelling: Spelling,
}

/// The form in which a word is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spelling {
    /// As in the list.
    Listed,
    Lower,
    Upper,
    Title,
}

impl Word {
    pub(super) const TRUE: Self = Self::listed(0);
    pub(super) const FALSE: Self = Self::listed(1);
    /// A count above 0, and an exit code other than 0.
    pub(super) const SOME: Self = Self::listed(2);
    pub(super) const NOT_ZERO: Self = Self::listed(3);
    pub(super) const SERVER_ERROR: Self = Self::listed(4);
    pub(super) const CLIENT_ERROR: Self = Self::listed(5);
    /// Levels of pino and bunyan.
    pub(super) const FATAL_LEVEL: Self = Self::listed(6);
    pub(super) const ERROR_LEVEL: Self = Self::listed(7);
    pub(super) const WARN_LEVEL: Self = Self::listed(8);
    /// Severities of `ESLint`.
    pub(super) const LINT_ERROR: Self = Self::listed(9);
    pub(super) const LINT_WARNING: Self = Self::listed(10);

    const fn listed(index: u8) -> Self {
        Self { index, spelling: Spelling::Listed }
    }

    /// Returns the word that `text` is, if it is in the list.
    pub(super) fn of(text: &[u8]) -> Option<Self> {
        let (first, length) = (text.first()?, text.len());
        if length > WORD_BYTES || LETTERS[length] & letter(*first) == 0 {
            return None;
        }
        let words = &WORDS[NUMBERS..];
        let at = words.iter().position(|(word, _)| word.as_bytes().eq_ignore_ascii_case(text))?;
        let index = NUMBERS + at;
        let spellings = [Spelling::Listed, Spelling::Lower, Spelling::Upper, Spelling::Title];
        let words = spellings.map(|spelling| Self { index: index as u8, spelling });
        words.into_iter().find(|word| word.text().as_bytes() == text)
    }

    /// Returns the word as it is written.
    pub(super) fn text(self) -> String {
        let word = WORDS[usize::from(self.index)].0;
        match self.spelling {
            Spelling::Listed => word.to_owned(),
            Spelling::Lower => word.to_ascii_lowercase(),
            Spelling::Upper => word.to_ascii_uppercase(),
            Spelling::Title => word[..1].to_ascii_uppercase() + &word[1..].to_ascii_lowercase(),
        }
    }

    /// Returns how bad it is: 0 is the worst.
    pub(super) fn rank(self) -> u8 {
        WORDS[usize::from(self.index)].1
    }

    /// Returns true if it stands for several numbers.
    pub(super) fn is_range(self) -> bool {
        matches!(self, Self::SOME | Self::NOT_ZERO | Self::SERVER_ERROR | Self::CLIENT_ERROR)
    }

    /// Returns a condition of jq that holds for `value` if that is this word.
    pub(super) fn condition(self, value: &str) -> String {
        match self {
            Self::SOME => format!("({value}|numbers)>0"),
            Self::NOT_ZERO => format!("({value}|numbers)!=0"),
            Self::SERVER_ERROR => format!("({value}|numbers)>=500"),
            Self::CLIENT_ERROR => format!("({value}|numbers)>=400"),
            _ if usize::from(self.index) < NUMBERS => format!("{value}=={}", self.text()),
            _ => format!("{value}==\"{}\"", self.text()),
        }
    }
}

/// Values at the start of the list that are no text.
const NUMBERS: usize = 11;

/// The letters with which words of each length begin, a bit each.
static LETTERS: [u32; WORD_BYTES + 1] = letters();

const fn letters() -> [u32; WORD_BYTES + 1] {
    let mut letters = [0; WORD_BYTES + 1];
    let mut index = NUMBERS;
    while index < WORDS.len() {
        let word = WORDS[index].0.as_bytes();
        letters[word.len()] |= letter(word[0]);
        index += 1;
    }
    letters
}

/// Returns the bit of a letter, whatever its case.
const fn letter(byte: u8) -> u32 {
    1 << (byte & 0x1f)
}

/// The words, each with its rank: fatal, error, warning, harmless.
const WORDS: [(&str, u8); 72] = [
    ("true", 1),
    ("false", 1),
    ("over 0", 1),
    ("not 0", 1),
    ("5xx", 1),
    ("4xx", 2),
    ("60", 0),
    ("50", 1),
    ("40", 2),
    ("2", 1),
    ("1", 2),
    ("fatal", 0),
    ("critical", 0),
    ("crit", 0),
    ("emergency", 0),
    ("emerg", 0),
    ("alert", 0),
    ("panic", 0),
    ("blocker", 0),
    ("error", 1),
    ("err", 1),
    ("errored", 1),
    ("failed", 1),
    ("failure", 1),
    ("fail", 1),
    ("failing", 1),
    ("high", 1),
    ("severe", 1),
    ("major", 1),
    ("crashed", 1),
    ("broken", 1),
    ("aborted", 1),
    ("killed", 1),
    ("denied", 1),
    ("rejected", 1),
    ("unexpected", 1),
    ("unhealthy", 1),
    ("unreachable", 1),
    ("timeout", 1),
    ("timedOut", 1),
    ("timed_out", 1),
    ("startup_failure", 1),
    ("rolled_back", 1),
    ("CrashLoopBackOff", 1),
    ("ImagePullBackOff", 1),
    ("ErrImagePull", 1),
    ("OOMKilled", 1),
    ("Evicted", 1),
    ("warning", 2),
    ("warn", 2),
    ("medium", 2),
    ("moderate", 2),
    ("degraded", 2),
    ("unstable", 2),
    ("expired", 2),
    ("cancelled", 2),
    ("canceled", 2),
    ("interrupted", 2),
    ("action_required", 2),
    ("NotReady", 2),
    ("stale", 2),
    ("partial", 2),
    ("flaky", 2),
    ("low", 3),
    ("minor", 3),
    ("note", 3),
    ("negligible", 3),
    ("style", 3),
    ("convention", 3),
    ("refactor", 3),
    ("hint", 3),
    ("trivial", 3),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_known_as_they_are_written() {
        for text in ["CRITICAL", "High", "low", "CrashLoopBackOff", "timed_out", "TIMED_OUT"] {
            let word = Word::of(text.as_bytes()).unwrap();
            assert_eq!(word.text(), text);
        }
        for text in ["", "ok", "eRROR", "5xx", "true", "failed>5"] {
            assert_eq!(Word::of(text.as_bytes()), None, "{text}");
        }
        assert!(WORDS.iter().all(|(word, _)| word.len() <= WORD_BYTES));
    }

    #[test]
    fn the_values_that_are_no_text_have_their_names() {
        let named = [
            (Word::SERVER_ERROR, "5xx"),
            (Word::CLIENT_ERROR, "4xx"),
            (Word::FATAL_LEVEL, "60"),
            (Word::WARN_LEVEL, "40"),
            (Word::LINT_ERROR, "2"),
            (Word::LINT_WARNING, "1"),
        ];
        for (word, text) in named {
            assert_eq!(word.text(), text);
        }
        assert_eq!(WORDS[NUMBERS].0, "fatal");
    }
}
