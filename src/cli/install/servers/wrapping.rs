//! Words put before a command in a text, and taken out again.

use crate::install::servers::entry::{CommandPlace, ListPlace, ListRoom, Span, Word};

/// Returns `text` with `words` before the command. The command's own words stay as they are
/// written.
pub(super) fn wrapped(
    text: &str,
    place: &CommandPlace,
    words: &[String],
    quoted: impl Fn(&str) -> String,
) -> String {
    let mut words = words.iter().map(|word| quoted(word));
    match place {
        CommandPlace::Together(list) => {
            edited(text, vec![insertion(text, list, &words.collect::<Vec<_>>().join(", "))])
        }
        CommandPlace::Apart { program, list, room } => {
            let first = words.next().unwrap_or_default();
            let own = text[program.span.clone()].to_owned();
            let words = words.chain([own]).collect::<Vec<_>>().join(", ");
            let list = match list {
                Some(list) => insertion(text, list, &words),
                None => (room.at..room.at, format!("{}[{words}]", room.lead)),
            };
            edited(text, vec![(program.span.clone(), first), list])
        }
    }
}

/// Returns `text` without the first `count` words of the command, of which there are more. A list
/// of arguments that this leaves empty goes too, unless `keeps_list`.
pub(super) fn unwrapped(
    text: &str,
    place: &CommandPlace,
    count: usize,
    keeps_list: bool,
) -> String {
    let edits = match place {
        CommandPlace::Together(list) => vec![removal(text, list, count)],
        CommandPlace::Apart { program, list: Some(list), room } => {
            let own = text[list.words[count - 1].span.clone()].to_owned();
            let is_ours = !keeps_list && list.words.len() == count && is_in(text, list, room);
            let rest = if is_ours {
                (room.at..list.span.end, String::new())
            } else {
                removal(text, list, count)
            };
            vec![(program.span.clone(), own), rest]
        }
        CommandPlace::Apart { list: None, .. } => Vec::new(),
    };
    edited(text, edits)
}

/// Returns the edit that puts `words` first in a list, on the line of the first word or on one of
/// their own if that has one.
fn insertion(text: &str, list: &ListPlace, words: &str) -> (Span, String) {
    match list.words.first() {
        None => (list.span.start + 1..list.span.start + 1, words.to_owned()),
        Some(Word { span, .. }) => {
            let gap = gap_before(&text[..span.start]);
            (span.start..span.start, format!("{words},{gap}"))
        }
    }
}

/// Returns the edit that takes the first `count` words out of a list.
fn removal(text: &str, list: &ListPlace, count: usize) -> (Span, String) {
    let start = list.words.first().map_or(list.span.end, |word| word.span.start);
    let end = match (list.words.get(count), list.words.last()) {
        (Some(next), _) => next.span.start,
        (None, Some(last)) => {
            let rest = &text[last.span.end..list.span.end];
            let comma = rest.len() - rest.trim_start().strip_prefix(',').unwrap_or(rest).len();
            last.span.end + comma
        }
        (None, None) => start,
    };
    (start..end, String::new())
}

/// Returns true if a list stands as [`wrapped`] puts it where there was none.
fn is_in(text: &str, list: &ListPlace, room: &ListRoom) -> bool {
    let inner = list.words.first().zip(list.words.last());
    text[room.at..].starts_with(&room.lead)
        && room.at + room.lead.len() == list.span.start
        && inner.is_some_and(|(first, last)| {
            first.span.start == list.span.start + 1 && last.span.end + 1 == list.span.end
        })
}

/// Returns the break and the indentation at the end of `text`, or else one space.
pub(super) fn gap_before(text: &str) -> &str {
    let space = &text[text.trim_end().len()..];
    match space.rfind('\n') {
        Some(at) if space[..at].ends_with('\r') => &space[at - 1..],
        Some(at) => &space[at..],
        None => " ",
    }
}

fn edited(text: &str, mut edits: Vec<(Span, String)>) -> String {
    edits.sort_by_key(|(span, _)| span.start);
    let (mut edited, mut at) = (String::with_capacity(text.len() + 256), 0);
    for (span, added) in edits {
        edited.push_str(&text[at..span.start]);
        edited.push_str(&added);
        at = span.end;
    }
    edited.push_str(&text[at..]);
    edited
}
