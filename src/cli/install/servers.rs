//! The MCP servers in the settings of a host, and `ctxfs mcp` before their commands.
//!
//! Edits are made by the places of words in the text, so all else stays byte for byte, and taking
//! the words out again gives the text from before.

mod entry;
mod json;
mod line;
mod toml;
mod wrapping;

use crate::install::servers::entry::{CommandPlace, ServerEntry, ServerKind};
use crate::install::shape::WrongShape;

/// The mark that some editors put before the text.
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// The way in which a host writes its servers.
#[derive(Debug, Clone)]
pub(super) struct ServersDialect {
    /// The names that lead to the servers.
    pub(super) path: Vec<String>,
    pub(super) form: ServersForm,
}

/// The language of the file, and the form of a command in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServersForm {
    /// JSON, with a text `command` and a list `args`.
    Json,
    /// JSON, with a list `command`.
    JsonList,
    /// TOML, with a text `command` and a list `args`.
    Toml,
}

/// The words of `ctxfs mcp` before the commands of the servers in a file.
#[derive(Debug, Clone)]
pub(super) struct WrappedServers {
    pub(super) dialect: ServersDialect,
    /// This program.
    pub(super) program: String,
    pub(super) store: NamedStore,
    /// The one server that is meant; `None` for all.
    pub(super) only: Option<String>,
}

/// The store that the words name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum NamedStore {
    /// The one that they name already, if they do.
    Former,
    /// None, as `ctxfs mcp` finds it by itself.
    Found,
    /// This one.
    Given(String),
}

/// A server in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundServer {
    pub(super) name: String,
    pub(super) state: ServerState,
}

/// The way in which a server is reached. Programs may rely on the names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ServerState {
    /// By its own command.
    Bare,
    /// Through `ctxfs mcp`, as `ctxfs install mcp` has it.
    Wrapped,
    /// Through `ctxfs mcp`, as somebody else has it.
    WrappedByOthers,
    /// Over HTTP.
    Remote,
    /// Not at all: its entry has no command.
    NoCommand,
    /// Its entry has an unknown shape.
    Unknown,
}

impl WrappedServers {
    /// Returns the servers in `text`.
    pub(super) fn found(&self, text: &str) -> Result<Vec<FoundServer>, WrongShape> {
        let found = |entry: ServerEntry| FoundServer { state: state(&entry), name: entry.name };
        Ok(self.entries(split(text).1)?.into_iter().map(found).collect())
    }

    /// Returns `text` with the words, and the same `text` if it has them. A server that runs
    /// through `ctxfs mcp` in another way stays as it is.
    pub(super) fn with(&self, text: &str) -> Result<String, WrongShape> {
        let (mark, text) = split(text);
        let put = |text: String, name: String| self.with_line(text, &name);
        Ok(mark.to_owned() + &self.meant(text)?.into_iter().try_fold(text.to_owned(), put)?)
    }

    /// Returns `text` without the words that `ctxfs install mcp` has put in.
    ///
    /// `before` is the file as it was before. If nobody else has changed anything since, the result
    /// is just that.
    pub(super) fn without(&self, text: &str, before: Option<&str>) -> Result<String, WrongShape> {
        let bare = self.bare(text, before)?;
        match before {
            Some(before) if bare != text && self.is_behind(&bare, before) => Ok(before.to_owned()),
            _ => Ok(bare),
        }
    }

    /// Returns the words of the first server that runs through `ctxfs mcp` as `ctxfs install mcp`
    /// has it.
    pub(super) fn line_in(&self, text: &str) -> Result<Option<Vec<String>>, WrongShape> {
        for entry in self.entries(split(text).1)? {
            let Ok(ServerKind::Command(place)) = entry.kind else { continue };
            let words = place.words();
            if let Some(line) = line::former(&words) {
                let words = words[..line.count].iter().flatten();
                return Ok(Some(words.map(|word| (*word).to_owned()).collect()));
            }
        }
        Ok(None)
    }

    /// Returns a file with one server, as an example of what to write.
    pub(super) fn example(&self) -> String {
        let name = self.only.as_deref().unwrap_or("SERVER");
        let words = line::words(&self.program, name, self.store.given());
        let words: Vec<&str> = words.iter().map(String::as_str).chain(["COMMAND"]).collect();
        match self.dialect.form {
            ServersForm::Toml => toml::example(&self.dialect.path, name, &words),
            form => json::example(&self.dialect.path, name, &words, form),
        }
    }

    fn with_line(&self, text: String, name: &str) -> Result<String, WrongShape> {
        let Some(place) = self.place(&text, name)? else { return Ok(text) };
        let words = place.words();
        let former = line::former(&words);
        if former.is_none() && line::is_gateway(&words) {
            return Ok(text);
        }
        let store = match &self.store {
            NamedStore::Former => former.as_ref().and_then(|former| former.store),
            store => store.given(),
        };
        let line = line::words(&self.program, name, store);
        let Some(former) = former else { return Ok(self.wrapped(&text, &place, &line)) };
        if words[..former.count].iter().flatten().eq(line.iter()) {
            return Ok(text);
        }
        let bare = wrapping::unwrapped(&text, &place, former.count, true);
        let place = self.place(&bare, name)?;
        Ok(place.map_or_else(|| bare.clone(), |place| self.wrapped(&bare, &place, &line)))
    }

    fn wrapped(&self, text: &str, place: &CommandPlace, line: &[String]) -> String {
        let quoted = match self.dialect.form {
            ServersForm::Toml => toml::quoted,
            ServersForm::Json | ServersForm::JsonList => json::quoted,
        };
        wrapping::wrapped(text, place, line, quoted)
    }

    fn bare(&self, text: &str, before: Option<&str>) -> Result<String, WrongShape> {
        let (mark, text) = split(text);
        let before = before.map(|before| split(before).1);
        let take = |text: String, name: String| {
            let Some(place) = self.place(&text, &name)? else { return Ok(text) };
            let Some(former) = line::former(&place.words()) else { return Ok(text) };
            let before = before.and_then(|before| self.place(before, &name).ok().flatten());
            let keeps_list = before.is_some_and(|before| before.has_list());
            Ok(wrapping::unwrapped(&text, &place, former.count, keeps_list))
        };
        Ok(mark.to_owned() + &self.meant(text)?.into_iter().try_fold(text.to_owned(), take)?)
    }

    /// Returns true if `bare` is what is left of `before` after the words were put in and taken
    /// out.
    fn is_behind(&self, bare: &str, before: &str) -> bool {
        let again = self.with(before).and_then(|wrapped| self.bare(&wrapped, Some(before)));
        let is_bare = self.bare(before, Some(before)).is_ok_and(|found| found == before);
        is_bare && again.is_ok_and(|again| again == bare)
    }

    /// Returns the names of the servers that are meant.
    fn meant(&self, text: &str) -> Result<Vec<String>, WrongShape> {
        let names = self.entries(text)?.into_iter().map(|entry| entry.name);
        Ok(names.filter(|name| self.only.as_ref().is_none_or(|only| only == name)).collect())
    }

    /// Returns the place of the command of a server, if it has one.
    fn place(&self, text: &str, name: &str) -> Result<Option<CommandPlace>, WrongShape> {
        let entry = self.entries(text)?.into_iter().find(|entry| entry.name == name);
        match entry.map(|entry| entry.kind).transpose()? {
            Some(ServerKind::Command(place)) => Ok(Some(place)),
            Some(ServerKind::Remote | ServerKind::NoCommand) | None => Ok(None),
        }
    }

    fn entries(&self, text: &str) -> Result<Vec<ServerEntry>, WrongShape> {
        match self.dialect.form {
            ServersForm::Toml => toml::entries(text, &self.dialect.path),
            form => json::entries(text, &self.dialect.path, form),
        }
    }
}

impl NamedStore {
    fn given(&self) -> Option<&str> {
        match self {
            Self::Given(store) => Some(store),
            Self::Former | Self::Found => None,
        }
    }
}

fn state(entry: &ServerEntry) -> ServerState {
    match &entry.kind {
        Err(_) => ServerState::Unknown,
        Ok(ServerKind::Remote) => ServerState::Remote,
        Ok(ServerKind::NoCommand) => ServerState::NoCommand,
        Ok(ServerKind::Command(place)) => {
            let words = place.words();
            match line::former(&words) {
                Some(_) => ServerState::Wrapped,
                None if line::is_gateway(&words) => ServerState::WrappedByOthers,
                None => ServerState::Bare,
            }
        }
    }
}

/// Splits off the byte order mark.
fn split(text: &str) -> (&'static str, &str) {
    match text.strip_prefix(BYTE_ORDER_MARK) {
        Some(rest) => (BYTE_ORDER_MARK, rest),
        None => ("", text),
    }
}

#[cfg(test)]
mod tests;
