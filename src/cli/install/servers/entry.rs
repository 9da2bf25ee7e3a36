//! The words of a server's command are its program and arguments. This module describes their
//! positions in a text, and inserts and removes words at the start of a command.

/// The language of the file, and the form of a command. A command is either a text `command` and a
/// list `args`, or a single list `command`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServersForm {
    Json,
    JsonList,
    Toml,
}

pub(crate) type ByteSpan = std::ops::Range<usize>;

#[derive(Debug)]
pub(crate) struct ServerEntry {
    pub(crate) name: String,
    pub(crate) kind: Result<ServerKind, crate::install::entry::WrongShape>,
}

#[derive(Debug)]
pub(crate) enum ServerKind {
    Command(CommandPlace),
    Remote,
    NoCommand,
}

/// The position of a command. With `Apart`, the arguments are in a separate list. With `Together`,
/// the program is the first word in the list of all words.
#[derive(Debug)]
pub(crate) enum CommandPlace {
    Apart { program: CommandWord, list: Option<ListPlace>, room: ListRoom },
    Together(ListPlace),
}

#[derive(Debug)]
pub(crate) struct ListPlace {
    pub(crate) span: ByteSpan,
    pub(crate) words: Vec<CommandWord>,
}

#[derive(Debug)]
pub(crate) struct CommandWord {
    pub(crate) span: ByteSpan,
    pub(crate) text: Option<String>,
}

// The position where a missing list of arguments is inserted, and the text to insert before it.
#[derive(Debug)]
pub(crate) struct ListRoom {
    pub(crate) at: usize,
    pub(crate) lead: String,
}

impl CommandPlace {
    pub(crate) fn words(&self) -> Vec<Option<&str>> {
        let (program, list) = match self {
            Self::Apart { program, list, .. } => (Some(program), list.as_ref()),
            Self::Together(list) => (None, Some(list)),
        };
        let words = list.map(|list| &list.words[..]).unwrap_or_default();
        program.into_iter().chain(words).map(|word| word.text.as_deref()).collect()
    }

    pub(crate) fn has_list(&self) -> bool {
        matches!(self, Self::Together(_) | Self::Apart { list: Some(_), .. })
    }
}

/// Returns `text` with `words` inserted before the command. The words of the command keep their
/// spelling.
pub(crate) fn wrapped(
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

/// Returns `text` without the first `count` words of the command, which must have more words.
/// Removes a list of arguments that becomes empty, unless `keeps_list` is true.
pub(crate) fn unwrapped(
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

// Inserts on the line of the first word, or on a new line if the first word has its own line.
fn insertion(text: &str, list: &ListPlace, words: &str) -> (ByteSpan, String) {
    match list.words.first() {
        None => (list.span.start + 1..list.span.start + 1, words.to_owned()),
        Some(CommandWord { span, .. }) => {
            let gap = gap_before(&text[..span.start]);
            (span.start..span.start, format!("{words},{gap}"))
        }
    }
}

fn removal(text: &str, list: &ListPlace, count: usize) -> (ByteSpan, String) {
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

// Returns true if `list` has the form in which `wrapped` inserts a missing list.
fn is_in(text: &str, list: &ListPlace, room: &ListRoom) -> bool {
    let inner = list.words.first().zip(list.words.last());
    text[room.at..].starts_with(&room.lead)
        && room.at + room.lead.len() == list.span.start
        && inner.is_some_and(|(first, last)| {
            first.span.start == list.span.start + 1 && last.span.end + 1 == list.span.end
        })
}

pub(crate) fn gap_before(text: &str) -> &str {
    let space = &text[text.trim_end().len()..];
    match space.rfind('\n') {
        Some(at) if space[..at].ends_with('\r') => &space[at - 1..],
        Some(at) => &space[at..],
        None => " ",
    }
}

fn edited(text: &str, mut edits: Vec<(ByteSpan, String)>) -> String {
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
