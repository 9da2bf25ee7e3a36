//! The search that a summary suggests.

use crate::model::Errors;
use crate::model::Subject;
use crate::view::errors::Findings;
use crate::view::query;

/// The number of error lines from which on a search for them is limited.
const MANY_ERRORS: u64 = 200;
/// Words that do not tell the cause of an error: the lines around them do.
const EXPLAINED: [&str; 7] =
    ["Caused by", "panicked", "Traceback", "FAILED", "FAIL", "assert", "Expected:"];

/// Returns `search: X.grep/-i error|timeout`: the words that occur, with suitable options.
pub(super) fn line(subject: &Subject<'_>, found: &Findings) -> String {
    let file = subject.place.file();
    let errors = &subject.analysis.errors;
    if errors.words.is_empty() || found.shown.is_empty() {
        return format!("search: {file}.grep/TEXT (a pattern of ripgrep; words: {file}.terms)");
    }
    format!("search: {file}.grep/{}", query_of(errors))
}

fn query_of(errors: &Errors) -> String {
    let (words, alike) = folded(&errors.words);
    let is_many = errors.count > MANY_ERRORS;
    let explained = |word: &String| EXPLAINED.iter().any(|known| known.eq_ignore_ascii_case(word));
    let options =
        [(alike, "-i "), (!is_many && words.iter().any(explained), "-C3 "), (is_many, "-m20 ")];
    let options: String =
        options.iter().filter(|(helps, _)| *helps).map(|(_, name)| *name).collect();
    options + &query::name_of(&words.join("|"))
}

/// Merges words that differ only in case into one in lower case. Returns true if there were any.
fn folded(words: &[String]) -> (Vec<String>, bool) {
    let mut kept: Vec<String> = Vec::new();
    for word in words {
        match kept.iter_mut().find(|other| other.eq_ignore_ascii_case(word)) {
            Some(other) => other.make_ascii_lowercase(),
            None => kept.push(word.clone()),
        }
    }
    let alike = kept.len() < words.len();
    (kept, alike)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_named_where_they_help() {
        let cases: [(&[&str], u64, &str); 6] = [
            (&["Error", "Exception"], 3, "Error|Exception"),
            (&["Error", "Exception"], 201, "-m20 Error|Exception"),
            (&["Error", "ERROR", "timeout"], 3, "-i error|timeout"),
            (&["panicked", "Error"], 3, "-C3 panicked|Error"),
            (&["assert", "failed", "FAILED"], 7, "-i -C3 assert|failed"),
            (&["Traceback", "Error", "error"], 900, "-i -m20 Traceback|error"),
        ];
        for (words, count, query) in cases {
            let words = words.iter().map(|word| (*word).to_owned()).collect();
            let errors = Errors { count, shown: Vec::new(), words };
            assert_eq!(query_of(&errors), query);
        }
    }
}
