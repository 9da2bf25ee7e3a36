//! Puts `ctxfs mcp` before the commands of MCP servers in the settings of a host.
//!
//! Edits insert or remove the words of a command line (program and arguments) at byte positions.
//! All other bytes are preserved, and removing the words restores the original text.

mod entry;
mod json;
mod toml;

use crate::install::entry::{STORE_OPTION, WrongShape};
use crate::install::servers::entry::{CommandPlace, ServerEntry, ServerKind};

pub(crate) use crate::install::servers::entry::ServersForm;

// Byte order mark, which editors may write.
const BYTE_ORDER_MARK: &str = "\u{feff}";

#[derive(Debug, Clone)]
pub(crate) struct ServersDialect {
    pub(crate) path: Vec<String>,
    pub(crate) form: ServersForm,
}

/// Edits that put `ctxfs mcp` before the commands of servers in a file. If `only` is set, only that
/// server is edited, and otherwise all servers.
#[derive(Debug, Clone)]
pub(crate) struct WrappedServers {
    pub(crate) dialect: ServersDialect,
    pub(crate) program: String,
    pub(crate) store: NamedStore,
    pub(crate) only: Option<String>,
}

/// The store to name in the inserted command line of `ctxfs mcp`. `Former` keeps the store that an
/// existing line names. `Found` names no store, because `ctxfs mcp` finds the store by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NamedStore {
    Former,
    Found,
    Given(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundServer {
    pub(crate) name: String,
    pub(crate) state: ServerState,
}

/// The way in which a server is started. `Wrapped` means that the server runs through a `ctxfs mcp`
/// line in the form that `ctxfs install mcp` writes. `WrappedByOthers` means that it runs through a
/// `ctxfs mcp` line of another form. Programs may rely on the names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ServerState {
    Bare,
    Wrapped,
    WrappedByOthers,
    Remote,
    NoCommand,
    Unknown,
}

impl WrappedServers {
    pub(crate) fn found(&self, text: &str) -> Result<Vec<FoundServer>, WrongShape> {
        let found = |entry: ServerEntry| FoundServer { state: state(&entry), name: entry.name };
        Ok(self.entries(split(text).1)?.into_iter().map(found).collect())
    }

    /// Returns `text` with `ctxfs mcp` before the commands of the servers. Does not change a server
    /// that runs through `ctxfs mcp` in another form.
    pub(crate) fn with(&self, text: &str) -> Result<String, WrongShape> {
        let (mark, text) = split(text);
        let put = |text: String, name: String| self.with_line(text, &name);
        Ok(mark.to_owned() + &self.selected(text)?.into_iter().try_fold(text.to_owned(), put)?)
    }

    /// Returns `text` without the words that `ctxfs install mcp` has put before the commands.
    /// `before` is the copy from before the installation. If nothing else has changed since, the
    /// result equals `before`.
    pub(crate) fn without(&self, text: &str, before: Option<&str>) -> Result<String, WrongShape> {
        let bare = self.stripped(text, before)?;
        match before {
            Some(before) if bare != text && self.is_behind(&bare, before) => Ok(before.to_owned()),
            _ => Ok(bare),
        }
    }

    /// Returns the words that `ctxfs install mcp` has put before the command of a server. If
    /// several servers have such words, the first server counts.
    pub(crate) fn line_in(&self, text: &str) -> Result<Option<Vec<String>>, WrongShape> {
        for entry in self.entries(split(text).1)? {
            let Ok(ServerKind::Command(place)) = entry.kind else { continue };
            let words = place.words();
            if let Some(line) = former_line(&words) {
                let words = words[..line.count].iter().flatten();
                return Ok(Some(words.map(|word| (*word).to_owned()).collect()));
            }
        }
        Ok(None)
    }

    pub(crate) fn example(&self) -> String {
        let name = self.only.as_deref().unwrap_or("SERVER");
        let words = gateway_words(&self.program, name, self.store.given());
        let words: Vec<&str> = words.iter().map(String::as_str).chain(["COMMAND"]).collect();
        match self.dialect.form {
            ServersForm::Toml => toml::example(&self.dialect.path, name, &words),
            form => json::example(&self.dialect.path, name, &words, form),
        }
    }

    fn with_line(&self, text: String, name: &str) -> Result<String, WrongShape> {
        let Some(place) = self.place(&text, name)? else { return Ok(text) };
        let words = place.words();
        let former = former_line(&words);
        if former.is_none() && is_gateway(&words) {
            return Ok(text);
        }
        let store = match &self.store {
            NamedStore::Former => former.as_ref().and_then(|former| former.store),
            store => store.given(),
        };
        let line = gateway_words(&self.program, name, store);
        let Some(former) = former else { return Ok(self.wrapped(&text, &place, &line)) };
        if words[..former.count].iter().flatten().eq(line.iter()) {
            return Ok(text);
        }
        let bare = entry::unwrapped(&text, &place, former.count, true);
        let place = self.place(&bare, name)?;
        Ok(place.map_or_else(|| bare.clone(), |place| self.wrapped(&bare, &place, &line)))
    }

    fn wrapped(&self, text: &str, place: &CommandPlace, line: &[String]) -> String {
        let quoted = match self.dialect.form {
            ServersForm::Toml => toml::quoted,
            ServersForm::Json | ServersForm::JsonList => json::quoted,
        };
        entry::wrapped(text, place, line, quoted)
    }

    fn stripped(&self, text: &str, before: Option<&str>) -> Result<String, WrongShape> {
        let (mark, text) = split(text);
        let before = before.map(|before| split(before).1);
        let take = |text: String, name: String| {
            let Some(place) = self.place(&text, &name)? else { return Ok(text) };
            let Some(former) = former_line(&place.words()) else { return Ok(text) };
            let before = before.and_then(|before| self.place(before, &name).ok().flatten());
            let keeps_list = before.is_some_and(|before| before.has_list());
            Ok(entry::unwrapped(&text, &place, former.count, keeps_list))
        };
        Ok(mark.to_owned() + &self.selected(text)?.into_iter().try_fold(text.to_owned(), take)?)
    }

    // Returns true if adding the words to `before` and removing them again gives `bare`.
    fn is_behind(&self, bare: &str, before: &str) -> bool {
        let again = self.with(before).and_then(|wrapped| self.stripped(&wrapped, Some(before)));
        let is_bare = self.stripped(before, Some(before)).is_ok_and(|found| found == before);
        is_bare && again.is_ok_and(|again| again == bare)
    }

    fn selected(&self, text: &str) -> Result<Vec<String>, WrongShape> {
        let names = self.entries(text)?.into_iter().map(|entry| entry.name);
        Ok(names.filter(|name| self.only.as_ref().is_none_or(|only| only == name)).collect())
    }

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
            match former_line(&words) {
                Some(_) => ServerState::Wrapped,
                None if is_gateway(&words) => ServerState::WrappedByOthers,
                None => ServerState::Bare,
            }
        }
    }
}

fn split(text: &str) -> (&'static str, &str) {
    match text.strip_prefix(BYTE_ORDER_MARK) {
        Some(rest) => (BYTE_ORDER_MARK, rest),
        None => ("", text),
    }
}

const MCP: &str = "mcp";
const NAME_OPTION: &str = "--name";
// Disables the time limit of `ctxfs mcp`, so that the time limit of the host is always reached
// first.
const NO_LIMIT: [&str; 2] = ["--timeout", "0"];
const END_OF_OPTIONS: &str = "--";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FormerLine<'a> {
    count: usize,
    store: Option<&'a str>,
}

fn gateway_words(program: &str, name: &str, store: Option<&str>) -> Vec<String> {
    let store = store.into_iter().flat_map(|store| [STORE_OPTION, store]);
    let mut words: Vec<String> =
        [program, MCP].into_iter().chain(store).map(str::to_owned).collect();
    if name.starts_with('-') {
        words.push(format!("{NAME_OPTION}={name}"));
    } else {
        words.extend([NAME_OPTION, name].map(str::to_owned));
    }
    words.extend(NO_LIMIT.into_iter().chain([END_OF_OPTIONS]).map(str::to_owned));
    words
}

// Accepts any program, name and store. A line with other options was not written by ctxfs.
fn former_line<'a>(words: &[Option<&'a str>]) -> Option<FormerLine<'a>> {
    let mut rest = words.iter().copied();
    is_program(rest.next()??).then_some(())?;
    is(rest.next()??, MCP)?;
    let (mut option, mut store) = (rest.next()??, None);
    if option == STORE_OPTION {
        store = Some(rest.next()??);
        option = rest.next()??;
    }
    if option == NAME_OPTION {
        rest.next()??;
    } else {
        is(option.split_once('=')?.0, NAME_OPTION)?;
    }
    for word in NO_LIMIT.into_iter().chain([END_OF_OPTIONS]) {
        is(rest.next()??, word)?;
    }
    let left = rest.count();
    (left > 0).then_some(FormerLine { count: words.len() - left, store })
}

fn is_gateway(words: &[Option<&str>]) -> bool {
    let is_it = |pair: &[Option<&str>]| {
        let [Some(program), Some(MCP)] = pair else { return false };
        is_program(program.split_once('@').map_or(*program, |(name, _)| name))
    };
    words.windows(2).any(is_it)
}

fn is(word: &str, wanted: &str) -> Option<()> {
    (word == wanted).then_some(())
}

fn is_program(word: &str) -> bool {
    std::path::Path::new(word).file_name().is_some_and(|name| name == crate::places::PROGRAM_NAME)
}

#[cfg(test)]
mod tests;
