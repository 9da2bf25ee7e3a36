//! The escape sequences of terminals, one by one.

/// Returns the length of the terminal escape that `raw` begins with: a colour, a cursor movement, a
/// title. Returns 0 if it begins with none.
pub fn escape_length(raw: &[u8]) -> usize {
    match raw {
        [0x1b, b'[', rest @ ..] => {
            let parameters = rest.iter().take_while(|byte| (0x20..0x40).contains(*byte)).count();
            2 + parameters + usize::from(parameters < rest.len())
        }
        [0x1b, b']', rest @ ..] => title_length(rest) + 2,
        [0x1b, b' '..=b'~', ..] => 2,
        _ => 0,
    }
}

/// Returns the length up to and including BEL or ESC `\`, or 0 if neither comes.
fn title_length(rest: &[u8]) -> usize {
    let end = rest.iter().position(|byte| matches!(byte, 0x07 | 0x1b));
    match end.map(|end| (end, &rest[end..])) {
        Some((end, [0x1b, b'\\', ..])) => end + 2,
        Some((end, [0x07, ..])) => end + 1,
        _ => 0,
    }
}
