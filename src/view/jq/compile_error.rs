use jaq_core::compile::Undefined;
use jaq_core::{compile, load};

// Characters of the filter that are quoted.
const QUOTED: usize = 40;

/// Describes the first syntax error.
pub(super) fn of_text(program: &str, errors: &load::Errors<&str, ()>) -> String {
    let first = errors.iter().map(|(_, error)| error).next();
    let (expected, found) = match first {
        Some(load::Error::Lex(errors)) => match errors.first() {
            Some((expected, found)) => (expected.as_str(), *found),
            None => ("a filter", ""),
        },
        Some(load::Error::Parse(errors)) => match errors.first() {
            Some((expected, found)) => (expected.as_str(), *found),
            None => ("a filter", ""),
        },
        Some(load::Error::Io(_)) => return "modules cannot be loaded here".to_owned(),
        None => ("a filter", ""),
    };
    format!("expected {expected} {}", place(program, found))
}

/// Describes the first name that is not defined.
pub(super) fn of_names<'a>(program: &'a str, errors: &compile::Errors<&'a str, ()>) -> String {
    let Some((name, what)) = errors.iter().flat_map(|(_, names)| names).next() else {
        return "something in it is not defined".to_owned();
    };
    let what = match what {
        Undefined::Filter(0) => "filter".to_owned(),
        Undefined::Filter(count) => format!("filter of {count} arguments"),
        other => other.as_str().to_owned(),
    };
    format!("there is no {what} `{name}` {}", place(program, name))
}

/// Describes the place of `found` in the program, and the text that follows there: `at character 7,
/// before ...`.
fn place(program: &str, found: &str) -> String {
    let (start, end) = (program.as_ptr() as usize, program.as_ptr() as usize + program.len());
    let at = found.as_ptr() as usize;
    let inside = (start..=end).contains(&at).then(|| at - start);
    let Some((before, after)) = inside.and_then(|at| program.split_at_checked(at)) else {
        return String::new();
    };
    if after.is_empty() {
        return "at its end".to_owned();
    }
    let quoted: String = after.chars().take(QUOTED).collect();
    format!("at character {}, before `{quoted}`", before.chars().count() + 1)
}
