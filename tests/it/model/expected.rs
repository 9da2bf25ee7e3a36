//! The expected text of views, computed from the bytes in the simplest way.

use ctxfs_core::materialize::reading;
use ctxfs_core::model::Reading;

use super::operations::Ask;

/// The most bytes that a view shows whole.
const VIEW_BYTES: usize = 48 * 1024;
/// The length from which on searches show only a part of a line.
const LONG: usize = 400;

/// The expectations of a view's text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Exactly(Vec<u8>),
    /// There is a first line that begins with `# `, about the bytes that are not shown.
    Noted,
    /// There is a text.
    Something,
    NotFound,
}

/// Returns the expected text of the view `ask` of `bytes`.
pub(crate) fn view(ask: Ask, bytes: &[u8]) -> Expected {
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    if ask == Ask::Summary || ask == Ask::Meta {
        return Expected::Something;
    }
    if bytes.contains(&0) {
        match reading(bytes, false) {
            None => return Expected::Noted,
            Some(reading) if reading != Reading::default() => return Expected::Something,
            Some(_) => {}
        }
    }
    match ask {
        Ask::Tail => fitting(lines[lines.len().saturating_sub(200)..].concat()),
        Ask::Head => fitting(lines[..lines.len().min(200)].concat()),
        Ask::Lines if lines.len() < 2 => Expected::NotFound,
        Ask::Lines => fitting(lines[1..lines.len().min(3)].concat()),
        Ask::Grep => matches(&lines),
        Ask::Summary | Ask::Meta => Expected::Something,
    }
}

fn fitting(bytes: Vec<u8>) -> Expected {
    if bytes.len() <= VIEW_BYTES { Expected::Exactly(bytes) } else { Expected::Noted }
}

/// `rg -n beta`.
fn matches(lines: &[&[u8]]) -> Expected {
    if lines.iter().any(|line| line.len() > LONG && holds(line, b"beta")) {
        return Expected::Something;
    }
    let numbered = lines.iter().enumerate().filter(|(_, line)| holds(line, b"beta"));
    let shown = numbered.flat_map(|(at, line)| {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        [format!("{}:", at + 1).as_bytes(), line, b"\n"].concat()
    });
    fitting(shown.collect())
}

fn holds(line: &[u8], word: &[u8]) -> bool {
    line.windows(word.len()).any(|part| part == word)
}
