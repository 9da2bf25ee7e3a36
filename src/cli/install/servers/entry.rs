//! A server in a text, by the places of its words.

use std::ops::Range;

use crate::install::shape::WrongShape;

/// A part of the text, in bytes.
pub(super) type Span = Range<usize>;

/// A server.
#[derive(Debug)]
pub(super) struct ServerEntry {
    pub(super) name: String,
    pub(super) kind: Result<ServerKind, WrongShape>,
}

/// The way to reach a server.
#[derive(Debug)]
pub(super) enum ServerKind {
    /// It is started.
    Command(CommandPlace),
    /// It is reached over HTTP.
    Remote,
    /// The entry does not say.
    NoCommand,
}

/// The place of a command.
#[derive(Debug)]
pub(super) enum CommandPlace {
    /// The program is apart from the list of its arguments.
    Apart { program: Word, list: Option<ListPlace>, room: ListRoom },
    /// The program is the first word of the list.
    Together(ListPlace),
}

/// A list of words.
#[derive(Debug)]
pub(super) struct ListPlace {
    /// The list with its brackets.
    pub(super) span: Span,
    pub(super) words: Vec<Word>,
}

/// A word, or another value in its place.
#[derive(Debug)]
pub(super) struct Word {
    pub(super) span: Span,
    /// Its text, if it is one.
    pub(super) text: Option<String>,
}

/// The place for a list of arguments, where there may be none.
#[derive(Debug)]
pub(super) struct ListRoom {
    pub(super) at: usize,
    /// The text before the list.
    pub(super) lead: String,
}

impl CommandPlace {
    /// Returns the texts of all words, the program first.
    pub(super) fn words(&self) -> Vec<Option<&str>> {
        let (program, list) = match self {
            Self::Apart { program, list, .. } => (Some(program), list.as_ref()),
            Self::Together(list) => (None, Some(list)),
        };
        let words = list.map(|list| &list.words[..]).unwrap_or_default();
        program.into_iter().chain(words).map(|word| word.text.as_deref()).collect()
    }

    pub(super) fn has_list(&self) -> bool {
        matches!(self, Self::Together(_) | Self::Apart { list: Some(_), .. })
    }
}
