use crate::find::fold;
use crate::find::parts::{Part, Parts};

// The most bytes between two parts of a name: `::`, `->`.
const JOINT: usize = 2;
// Longer words may begin with a word of this length: `authentication` with `auth`.
const PREFIX: usize = 4;
// A word of this length may stand inside of others.
const INFIX: usize = 4;

/// How a word of a text matches a term, worst first: it contains the term (`memoom` and `oom`),
/// begins with it, is another form of it (`eviction` and `evicted`), or is the same apart from case
/// and accents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Fit {
    Inside,
    Begins,
    Form,
    Same,
}

impl Fit {
    /// Returns the part of its weight that a term has with this fit.
    pub(super) fn factor(self) -> f64 {
        match self {
            Self::Inside => 0.5,
            Self::Begins => 0.7,
            Self::Form => 0.95,
            Self::Same => 1.0,
        }
    }
}

/// A word to look for, folded and split into pieces. `asked` is the number of the asked word that
/// it stands for, alone or as a part; `whole` has the pieces in one: `oomkilled` for `OOMKilled`.
#[derive(Debug, Clone)]
pub(super) struct Term {
    pub(super) text: String,
    pub(super) asked: usize,
    pieces: Vec<Piece>,
    whole: String,
}

#[derive(Debug, Clone)]
struct Piece {
    text: String,
    // Only of pieces that have only letters.
    stem: Option<String>,
}

impl Piece {
    fn new(text: &str) -> Self {
        let stem = is_word(text).then(|| fold::stem(text).to_owned());
        Self { text: text.to_owned(), stem }
    }

    fn fit(&self, word: &str) -> Option<Fit> {
        if word == self.text {
            return Some(Fit::Same);
        }
        let stem = self.stem.as_deref()?;
        (word.starts_with(stem) && is_word(word) && fold::stem(word) == stem).then_some(Fit::Form)
    }

    // `bind-9` for `bind9`
    fn apart(&self) -> Option<String> {
        let (letters, number) = self.text.split_at(self.text.find(|c: char| c.is_ascii_digit())?);
        let is_both = !letters.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        (is_both && is_word(letters)).then(|| [letters, number].join("-"))
    }

    /// Returns true if `word` begins with the piece: with a name of some length, or with a number
    /// whose digits end there.
    fn begins(&self, word: &str) -> bool {
        let Some(rest) = word.strip_prefix(self.text.as_str()) else { return false };
        if self.stem.is_some() {
            return self.text.chars().count() >= PREFIX;
        }
        let is_digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
        !(is_digit(self.text.chars().last()) && is_digit(rest.chars().next()))
    }
}

impl Term {
    /// Returns the term for the word number `asked`, or `None` if it has no letters or digits.
    pub(super) fn new(text: &str, asked: usize) -> Option<Self> {
        let mut parts = Parts::default();
        parts.split(text.as_bytes(), false);
        let texts = parts.parts.iter().map(|part| parts.text(part));
        let pieces: Vec<Piece> = texts.filter(|text| !text.is_empty()).map(Piece::new).collect();
        let whole = pieces.iter().map(|piece| piece.text.as_str()).collect();
        (!pieces.is_empty()).then(|| Self { text: text.to_owned(), asked, pieces, whole })
    }

    /// Returns the terms for the parts of a name that mean something by themselves; for letters
    /// with a number, as in `bind9`, the name with both apart.
    pub(super) fn parts(&self) -> Vec<Self> {
        if let [piece] = self.pieces.as_slice() {
            return piece
                .apart()
                .and_then(|name| Self::new(&name, self.asked))
                .into_iter()
                .collect();
        }
        let tells = |piece: &&Piece| piece.text.chars().count() >= 2;
        let pieces = self.pieces.iter().filter(tells);
        pieces.filter_map(|piece| Self::new(&piece.text, self.asked)).collect()
    }

    /// Returns true if the term has several parts.
    pub(super) fn is_name(&self) -> bool {
        self.pieces.len() > 1
    }

    /// Returns the first character of all folded words that may match.
    pub(super) fn initial(&self) -> char {
        self.whole.chars().next().unwrap_or_default()
    }

    /// Returns a text that each ASCII line with the word contains, in some case.
    pub(super) fn needle(&self) -> &str {
        let stem = |piece: &'_ Piece| piece.stem.as_ref().map_or(piece.text.len(), String::len);
        let longest = self.pieces.iter().max_by_key(|piece| stem(piece)).expect("not empty");
        longest.stem.as_deref().unwrap_or(&longest.text)
    }

    /// Returns a pattern for the word in all its forms, with `joint` between its parts. It has to
    /// be searched without regard to case.
    pub(super) fn pattern(&self, joint: &str) -> String {
        let last = self.pieces.len() - 1;
        let piece = |(number, piece): (usize, &Piece)| {
            let stem = piece.stem.as_ref().filter(|_| number == last);
            escaped(stem.unwrap_or(&piece.text))
        };
        let pieces: Vec<String> = self.pieces.iter().enumerate().map(piece).collect();
        pieces.join(joint)
    }

    /// Returns the folded text of the word.
    pub(super) fn folded(&self) -> &str {
        &self.whole
    }

    /// Returns true if the word may be found inside of others.
    pub(super) fn may_be_inside(&self) -> bool {
        !self.is_name() && self.whole.chars().count() >= INFIX
    }

    /// Returns how the words of `parts` from number `at` on match, and the number of parts that do.
    pub(super) fn fit(&self, text: &[u8], parts: &Parts, at: usize) -> Option<(Fit, usize)> {
        self.fit_whole(parts, at).or_else(|| self.fit_pieces(text, parts, at))
    }

    // Matches a word of several humps, or a name that is written as one word.
    fn fit_whole(&self, parts: &Parts, at: usize) -> Option<(Fit, usize)> {
        let first = &parts.parts[at];
        if !first.begins || (first.ends && !self.is_name()) {
            return None;
        }
        let count = parts.parts[at..].iter().position(|part| part.ends)? + 1;
        let last = &parts.parts[at + count - 1];
        let word = &parts.folded[first.folded.0..last.folded.1];
        if word == self.whole {
            return Some((Fit::Same, count));
        }
        let piece = self.pieces.first().filter(|_| !self.is_name())?;
        Some((piece.fit(word)?, count))
    }

    fn fit_pieces(&self, text: &[u8], parts: &Parts, at: usize) -> Option<(Fit, usize)> {
        let found = parts.parts.get(at..at + self.pieces.len())?;
        let mut worst = Fit::Same;
        let mut before: Option<&Part> = None;
        for (number, (piece, part)) in self.pieces.iter().zip(found).enumerate() {
            if before.is_some_and(|before| !are_joined(text, before, part)) {
                return None;
            }
            let word = parts.text(part);
            let is_last = number + 1 == self.pieces.len();
            let fit = match piece.fit(word) {
                None if is_last && piece.begins(word) => Fit::Begins,
                fit => fit?,
            };
            worst = worst.min(fit);
            before = Some(part);
        }
        Some((worst, found.len()))
    }
}

fn are_joined(text: &[u8], before: &Part, after: &Part) -> bool {
    let between = &text[before.end..after.start];
    between.len() <= JOINT && between.iter().all(|byte| *byte >= b' ' && *byte != b'\\')
}

// Without escapes that only confuse a reader.
pub(super) fn escaped(text: &str) -> String {
    regex::escape(text).replace("\\-", "-")
}

fn is_word(word: &str) -> bool {
    word.chars().all(char::is_alphabetic)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how well the first of the words in `text` that fit does so.
    fn fit(word: &str, text: &str) -> Option<Fit> {
        let term = Term::new(word, 0).unwrap();
        let mut parts = Parts::default();
        parts.split(text.as_bytes(), false);
        let mut fits =
            (0..parts.parts.len()).filter_map(|at| term.fit(text.as_bytes(), &parts, at));
        fits.next().map(|(fit, _)| fit)
    }

    #[test]
    fn words_fit() {
        for (word, text, want) in [
            ("evicted", "an Eviction", Some(Fit::Form)),
            ("evicted", "Evicted!", Some(Fit::Same)),
            ("web-7", "pod web-7f9c", Some(Fit::Begins)),
            ("web-7", "pod web-78", None),
            ("web-7", "web 7", Some(Fit::Same)),
            ("payment-gateway", "paymentGateway", Some(Fit::Same)),
            ("paymentGateway", "PAYMENT_GATEWAYS", Some(Fit::Form)),
            ("payment-gateway", "payment is a gateway", None),
            ("gateway", "paymentGateway", Some(Fit::Same)),
            ("oomkilled", "reason: OOMKilled", Some(Fit::Same)),
            ("OOMKilled", "reason: oomkilled", Some(Fit::Same)),
            ("c75e", "usr_c75e", Some(Fit::Same)),
            ("usr_c75e", "user usr_c75e2", Some(Fit::Begins)),
            ("auth", "authentication", Some(Fit::Begins)),
            ("pod", "podman", None),
            ("500", "500ms", Some(Fit::Begins)),
            ("500", "5000", None),
            ("10.0.0.5", "10.0.0.5:80", Some(Fit::Same)),
            ("10.0.0.5", "10.0.0.53", None),
            ("zurich", "Z\u{fc}rich", Some(Fit::Same)),
            ("main.rs", "src/main.rs:7", Some(Fit::Same)),
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
