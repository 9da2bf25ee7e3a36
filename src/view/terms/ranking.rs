use std::cmp::Reverse;
use std::collections::HashMap;

use crate::terms::counts::{Term, WordCounts};
use crate::terms::words;

// Parts of words that suggest trouble.
const TROUBLE: [&[u8]; 12] = [
    b"abort",
    b"corrupt",
    b"crash",
    b"denied",
    b"error",
    b"exception",
    b"fail",
    b"fatal",
    b"invalid",
    b"panic",
    b"refused",
    b"timeout",
];
// Candidates for each term that is shown. They are searched for names that contain them.
const CANDIDATES: usize = 4;
// Scores are integers: a value of 1.0 is this many points.
const UNIT: f64 = 1000.0;

/// Returns the best `count` terms, best first. Leaves out words that hardly occur outside of one of
/// the names.
pub(super) fn best(counts: &WordCounts, count: usize) -> Vec<Term<'_>> {
    let terms = counts.terms().filter(|term| !words::is_common(term.text));
    let mut terms: Vec<(u64, Term<'_>)> =
        terms.map(|term| (score(&term, counts.units), term)).collect();
    let order = |(score, term): &(u64, Term<'_>)| (Reverse(*score), Reverse(term.times), term.line);
    terms.sort_unstable_by(|a, b| (order(a), a.1.text).cmp(&(order(b), b.1.text)));
    terms.truncate(CANDIDATES * count);
    let mut in_name: HashMap<&[u8], u64> = HashMap::new();
    for (_, name) in terms.iter().filter(|(_, term)| words::is_name(term.text)) {
        for word in words::of_name(name.text) {
            let times = in_name.entry(word).or_default();
            *times = name.times.max(*times);
        }
    }
    let is_part = |term: &Term<'_>| {
        let times = in_name.get(term.text).filter(|_| !words::is_name(term.text));
        times.is_some_and(|times| times * 10 >= term.times * 9)
    };
    let terms = terms.into_iter().map(|(_, term)| term);
    terms.filter(|term| !is_part(term)).take(count).collect()
}

/// Scores a term. The score is highest for a term that occurs in the square root of all lines: one
/// that occurs in most lines says as little as one that occurs once. Names score higher than words,
/// and names that suggest trouble highest.
fn score(term: &Term<'_>, units: u64) -> u64 {
    let (some, all) = (term.units as f64, units as f64);
    let spread = some.ln_1p() * (all / some).ln_1p();
    (spread * weight(term.text) * UNIT) as u64
}

fn weight(text: &[u8]) -> f64 {
    let digits = text.iter().filter(|byte| byte.is_ascii_digit()).count();
    let is_name = words::is_name(text) || text.contains(&b'_') || is_camel(text);
    let name = if is_name { 2.0 } else { 1.0 };
    let trouble = if tells_of_trouble(text) { 1.5 } else { 1.0 };
    let number = if 2 * digits > text.len() { 0.25 } else { 1.0 };
    name * trouble * number
}

fn tells_of_trouble(text: &[u8]) -> bool {
    let lower = text.to_ascii_lowercase();
    TROUBLE.iter().any(|trouble| memchr::memmem::find(&lower, trouble).is_some())
}

fn is_camel(text: &[u8]) -> bool {
    text.windows(2).any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(text: &str) -> Vec<String> {
        let content: Vec<u8> = text.into();
        let counts = WordCounts::take(&content, false, &|| false).unwrap();
        let text = |term: &Term<'_>| String::from_utf8(term.text.to_vec()).unwrap();
        best(&counts, 100).iter().map(text).collect()
    }

    #[test]
    fn what_tells_most_comes_first() {
        let line = |n: usize| match n {
            40 | 700 => "INFO request refused\n",
            n if n.is_multiple_of(40) => "INFO request by com.shop.Cart\n",
            n if n.is_multiple_of(30) => "INFO request by getTotal\n",
            n if n.is_multiple_of(31) => "INFO request by basket\n",
            _ => "INFO request\n",
        };
        let text: String = (0..1000).map(line).collect();
        let want = ["getTotal", "com.shop.Cart", "basket", "refused", "INFO", "request"];
        assert_eq!(order(&text), want);
    }

    #[test]
    fn parts_of_one_name_are_left_out() {
        let text = "com.shop.Cart\ncom.shop.Order\ncom.shop.Cart\n";
        assert_eq!(order(text), ["com.shop.Cart", "com.shop.Order", "com", "shop"]);
    }
}
