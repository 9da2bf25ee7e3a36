use crate::find::question::{Chosen, NoQuestion};
use crate::number::{counted, grouped};

// Characters of the question that are repeated.
const QUESTION: usize = 200;
const SEARCH: usize = 400;
// Bytes to keep free for the notice of a line that is shown in part.
pub(super) const MARGIN: usize = 400;

/// The facts that the first line tells. `terms` are the words of the best passage as bits; `among`
/// is ` in 3 of 12 artifacts` for a directory; `grep` is the path of its searches: `X.grep`.
pub(super) struct Summary<'a> {
    pub(super) chosen: &'a Chosen,
    pub(super) terms: u64,
    pub(super) shown: usize,
    pub(super) count: u64,
    pub(super) among: &'a str,
    pub(super) grep: &'a str,
}

impl Summary<'_> {
    /// Returns the first line, without its mark and newline.
    pub(super) fn text(&self) -> String {
        let asked = cut(&self.chosen.asked.join(" "));
        let all = self.chosen.asked.len();
        let has = self.chosen.asked_of(self.terms);
        let words = format!("{has} of {}", counted(all as u64, "word"));
        format!(
            "{asked}: {words}{}; {}. All lines: {}",
            self.changes(),
            self.follow(),
            self.search()
        )
    }

    fn follow(&self) -> String {
        let verb = if self.shown == 1 { "follows" } else { "follow" };
        let among = self.among;
        let lines = if among.is_empty() { "lines as in X.grep/" } else { "lines as in .grep/" };
        let best = match (self.shown as u64, self.count) {
            (1, 1) => format!("the only passage{among}"),
            (shown, count) if shown >= count => format!("all {shown} passages{among}"),
            (1, count) => format!("the best of {}{among}", counted(count, "passage")),
            (shown, count) => format!("the best {shown} of {}{among}", counted(count, "passage")),
        };
        format!("{best} {verb}, {lines}")
    }

    // The words that were replaced, and those that do not occur.
    fn changes(&self) -> String {
        let replaced = self.chosen.replaced.iter();
        let replaced: Vec<String> =
            replaced.map(|(from, to)| format!(", {} searched as {to}", cut(from))).collect();
        let absent = match self.chosen.absent.as_slice() {
            [] => String::new(),
            words => format!(" (not there: {})", cut(&words.join(", "))),
        };
        replaced.concat() + &absent
    }

    fn search(&self) -> String {
        let query = self.chosen.query.to_string();
        if query.len() <= SEARCH {
            format!("{}/{query}", self.grep)
        } else {
            format!("{}/", self.grep)
        }
    }
}

/// Returns the line for a question that cannot be looked for.
pub(super) fn no_question(why: &NoQuestion) -> String {
    match why {
        NoQuestion::NoWords => "# no words to look for: a word has letters or digits\n".to_owned(),
        NoQuestion::TooLong => format!(
            "# a word is too long: at most {} bytes\n",
            grouped(crate::find::parts::LONGEST as u64)
        ),
    }
}

/// Returns the line for words of which none occurs in `place`, with some words that do. `more`
/// tells where more of these are.
pub(super) fn nothing(asked: &[String], place: &str, telling: &[String], more: &str) -> String {
    let none =
        if asked.len() == 1 { "the word does not occur" } else { "none of the words occurs" };
    let asked = cut(&asked.join(" "));
    let telling = match telling {
        [] => String::new(),
        words => format!(". The most telling words there are: {}{more}", words.join(", ")),
    };
    format!("# {asked}: {none} in {place}{telling}\n")
}

/// Returns `text` in one line, cut if it is long.
pub(super) fn cut(text: &str) -> String {
    let line = crate::cleaned(text, QUESTION);
    if line.chars().count() < text.chars().count() { line + "..." } else { line }
}
