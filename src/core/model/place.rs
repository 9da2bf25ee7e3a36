//! The names by which readers refer to an artifact: place, handle and reference.

use serde::{Deserialize, Serialize};

use crate::model::{Component, Record, RelPath};

/// The root directory of a tree, such as `/ctx`. The path is the one by which readers know the
/// tree. The tree contains either all conversations or the files of a single conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Root {
    /// The directory of all conversations.
    All(String),
    /// The directory of one conversation.
    One(String),
    /// No directory, because nothing is mounted: the command that prints a file of the tree, such
    /// as `ctxfs view`.
    Command(String),
}

impl Root {
    /// The root for readers without access to files. Below it, a path is a reference.
    pub const REFERENCES: &str = "ctx://";

    /// Returns the directory without a trailing `/`, or the command.
    pub fn path(&self) -> &str {
        let (Self::All(path) | Self::One(path) | Self::Command(path)) = self;
        if path == Self::REFERENCES { "ctx:/" } else { path.trim_end_matches('/') }
    }

    /// Returns the directory of `conversation`. For a command, this is the path that the command
    /// accepts.
    pub fn of(&self, conversation: &str) -> String {
        match self {
            Self::All(_) => format!("{}/{conversation}", self.path()),
            Self::One(_) => self.path().to_owned(),
            Self::Command(_) => conversation.to_owned(),
        }
    }
}

/// The names by which a reader refers to an artifact: the root of the tree as the reader knows it,
/// the conversation, and the path inside the conversation. A file outside any tree has only a path.
/// The place of a directory is similar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    command: Option<String>,
    root: String,
    conversation: String,
    path: String,
}

impl Place {
    /// Returns a place in the tree of all conversations. `prefix` is the root of the tree as the
    /// reader knows it, such as `/ctx`.
    pub fn new(prefix: &str, conversation: &str, path: &RelPath) -> Self {
        Self::below(&Root::All(prefix.to_owned()), conversation, path)
    }

    /// Returns a place in the tree with this root.
    pub fn below(root: &Root, conversation: &str, path: &RelPath) -> Self {
        Self { path: path.to_text(), ..Self::of_conversation(root, conversation) }
    }

    /// Returns the place of the directory of a conversation. The suffix of a view in it begins with
    /// `/`.
    pub fn of_conversation(root: &Root, conversation: &str) -> Self {
        let command = match root {
            Root::Command(command) => Some(command.clone()),
            Root::All(_) | Root::One(_) => None,
        };
        let (root, conversation) = (root.of(conversation), conversation.to_owned());
        Self { command, root, conversation, path: String::new() }
    }

    /// Returns the place of a file that is outside any tree.
    pub fn alone(path: &str) -> Self {
        let (root, conversation) = (String::new(), String::new());
        Self { command: None, root, conversation, path: path.to_owned() }
    }

    /// Returns the place of a view of the artifact: the path of the artifact followed by `suffix`.
    #[must_use]
    pub fn of_view(&self, suffix: &str) -> Self {
        Self { path: format!("{}{suffix}", self.path), ..self.clone() }
    }

    /// Returns the id of the conversation; empty for a file outside any tree.
    pub fn conversation(&self) -> &str {
        &self.conversation
    }

    /// Returns the path inside the conversation: `artifacts/tool/9f3k.txt`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the file's name: `9f3k.txt`.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Returns the path that the reader uses: `/ctx/c7/artifacts/tool/9f3k.txt`. It is absolute,
    /// unless the file is outside any tree. For a reader without a mount, returns the command that
    /// prints the file, as a line for a shell: `ctxfs view c7/artifacts/tool/9f3k.txt`. Text for
    /// the name of a view is not appended to this, but given to [`Self::of_view`].
    pub fn file(&self) -> String {
        if self.command.is_some() { self.command() } else { self.path_for_reader() }
    }

    /// Returns the command that prints the file, as a line for a shell: `ctxfs view
    /// /ctx/c7/artifacts/tool/9f3k.txt`.
    pub fn command(&self) -> String {
        let command = self.command.as_deref().unwrap_or("ctxfs view");
        format!("{command} {}", shell_word(&self.path_for_reader()))
    }

    /// Returns the path that the reader uses. For a reader without a mount, returns the reference.
    /// Programs that read a stand-in expect one of these.
    pub fn address(&self) -> String {
        if self.command.is_some() { self.reference() } else { self.path_for_reader() }
    }

    /// Returns true if the reader has no mount, so that [`Self::file`] is a command.
    pub fn is_read_by_command(&self) -> bool {
        self.command.is_some()
    }

    /// Returns the path that the reader uses. For a reader without a mount, this is the path that
    /// the command accepts.
    pub fn path_for_reader(&self) -> String {
        let Self { root, path, .. } = self;
        let is_joined = root.is_empty() || path.is_empty() || path.starts_with('/');
        if is_joined { format!("{root}{path}") } else { format!("{root}/{path}") }
    }

    /// Returns the reference: `ctx://c7/artifacts/tool/9f3k.txt`. It is valid for all readers.
    pub fn reference(&self) -> String {
        format!("ctx://{}/{}", self.conversation, self.path)
    }
}

/// Quotes `text` as one word for a shell. Leaves it as it is if it needs no quotes.
pub fn shell_word(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:@%,=".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

// Directories that a handle may omit.
const FOLDERS: [&str; 2] = ["artifacts/tool", "artifacts/terminal"];
// Extensions that a handle may omit after a call id.
const EXTENSIONS: [&str; 3] = ["", ".json", ".txt"];

/// Returns the handle of an artifact (`formats.md`, section 3): a relative path by which a model
/// can request the artifact later.
///
/// The handle is `<conversation>/<call id>` if ctxfs generated the call id, which is then a UUID.
/// For any other output of a tool it is `<conversation>/<file name>`, and for any other file
/// `<conversation>/<path>`. [`readings`] resolves all three forms.
pub fn handle(record: &Record, conversation: &str, path: &str) -> String {
    let name = path.strip_prefix("artifacts/tool/").filter(|name| !name.contains('/'));
    let name = name.unwrap_or(path);
    let stem = name.rsplit_once('.').map(|(stem, _)| stem);
    let call = record.provenance.call.as_deref();
    let made_up = stem.filter(|stem| call == Some(*stem) && uuid::Uuid::try_parse(stem).is_ok());
    format!("{conversation}/{}", made_up.unwrap_or(name))
}

/// Returns the files that `text` may refer to, the most literal reading first. `text` is a handle,
/// a reference such as `ctx://c7/artifacts/tool/9f3k.txt`, or an absolute path that ends like a
/// reference.
///
/// Every component is checked, so no path leaves its conversation. The files need not exist; the
/// caller must check that.
pub fn readings(text: &str) -> Vec<(Component, RelPath)> {
    if text.starts_with('/') {
        return text.match_indices("/artifacts/").filter_map(|(at, _)| split(text, at)).collect();
    }
    let text = text.strip_prefix(Root::REFERENCES).unwrap_or(text);
    let Some((conversation, rest)) = text.split_once('/') else { return Vec::new() };
    let Ok(conversation) = Component::new(conversation) else { return Vec::new() };
    let mut paths = vec![rest.to_owned()];
    if Component::new(rest).is_ok() {
        let named = |folder| EXTENSIONS.map(|extension| format!("{folder}/{rest}{extension}"));
        paths.extend(FOLDERS.into_iter().flat_map(named));
    }
    let paths = paths.into_iter().filter_map(|path| RelPath::new(path).ok());
    paths.map(|path| (conversation.clone(), path)).collect()
}

// Splits `text` into conversation and path. `at` is the offset of `/artifacts/` in `text`.
fn split(text: &str, at: usize) -> Option<(Component, RelPath)> {
    let conversation = text[..at].rsplit('/').next()?;
    Some((Component::new(conversation).ok()?, RelPath::new(&text[at + 1..]).ok()?))
}

/// A reference to a file of a conversation. It is small enough to be kept in a model's context
/// (`formats.md`, section 5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContextRef {
    /// `ctx://<conversation>/<path>`.
    pub id: String,
    /// `artifact`, `history` or `catalog`. A manifest also uses `closed` for a file that the reader
    /// is not permitted to read, and `unread` for a directory that could not be listed.
    pub kind: String,
    /// MIME type, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Size in bytes, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub byte_size: Option<u64>,
    /// Time of creation, in milliseconds since the epoch.
    pub created_at: i64,
    /// A short description: tool, call, size and type.
    pub hint: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Provenance;

    #[test]
    fn without_files_a_path_is_the_reference() {
        let path = RelPath::new("artifacts/tool/x.txt").unwrap();
        let place = Place::new(Root::REFERENCES, "c7", &path);
        assert_eq!(place.file(), place.reference());
        assert_eq!(Place::new("/ctx/", "c7", &path).file(), "/ctx/c7/artifacts/tool/x.txt");
    }

    #[test]
    fn a_path_is_one_word_of_a_shell() {
        assert_eq!(shell_word("/ctx/c7/x.txt"), "/ctx/c7/x.txt");
        assert_eq!(shell_word("/ctx/a b/$(rm -rf).txt"), "'/ctx/a b/$(rm -rf).txt'");
        assert_eq!(shell_word("it's"), "'it'\\''s'");
        assert_eq!(shell_word(""), "''");
    }

    #[test]
    fn without_a_mount_a_file_is_read_by_a_command() {
        let root = Root::Command("ctxfs view --store '/my data'".to_owned());
        let path = RelPath::new("artifacts/tool/x.txt").unwrap();
        let place = Place::below(&root, "c7", &path);
        let command = "ctxfs view --store '/my data'";
        assert_eq!(place.file(), format!("{command} c7/artifacts/tool/x.txt"));
        let search = place.of_view(".grep/-i it's|x");
        assert_eq!(
            search.file(),
            format!("{command} 'c7/artifacts/tool/x.txt.grep/-i it'\\''s|x'")
        );
        assert_eq!(place.address(), "ctx://c7/artifacts/tool/x.txt");
        let all = Place::of_conversation(&root, "c7");
        assert_eq!(all.file(), format!("{command} c7"));
        assert_eq!(all.of_view("/.grep/x").file(), format!("{command} c7/.grep/x"));
    }

    const ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

    fn found(text: &str) -> Vec<String> {
        readings(text).iter().map(|(id, path)| format!("{id}:{path}")).collect()
    }

    fn handle_of(call: Option<&str>, conversation: &str, path: &str) -> String {
        let provenance = Provenance { call: call.map(str::to_owned), ..Provenance::default() };
        handle(&Record { provenance, ..Record::default() }, conversation, path)
    }

    #[test]
    fn a_handle_names_the_call_that_ctxfs_made_up_and_else_the_file() {
        let path = format!("artifacts/tool/{ID}.txt");
        let session = format!("session-{ID}");
        assert_eq!(handle_of(Some(ID), &session, &path), format!("{session}/{ID}"));
        assert_eq!(handle_of(None, "c7", &path), format!("c7/{ID}.txt"));
        assert_eq!(handle_of(Some("9f3k"), "c7", "artifacts/tool/9f3k.txt"), "c7/9f3k.txt");
        let deeper = "artifacts/tool/a/9f3k.txt";
        assert_eq!(handle_of(None, "c7", deeper), format!("c7/{deeper}"));
        assert_eq!(
            handle_of(None, "c7", "artifacts/terminal/s1.log"),
            "c7/artifacts/terminal/s1.log"
        );
    }

    #[test]
    fn every_handle_reads_as_its_file() {
        for path in [
            "artifacts/tool/9f3k.txt",
            "artifacts/tool/9f3k",
            "artifacts/tool/a/b.txt",
            "artifacts/terminal/s1.log",
            "history/messages.jsonl",
            &format!("artifacts/tool/{ID}.json"),
        ] {
            for call in [None, Some(ID)] {
                let handle = handle_of(call, "c7", path);
                assert!(found(&handle).contains(&format!("c7:{path}")), "{handle}");
            }
        }
    }

    #[test]
    fn references_and_absolute_paths_are_read_too() {
        assert_eq!(found("ctx://c7/artifacts/tool/x"), ["c7:artifacts/tool/x"]);
        assert_eq!(found("/home/ann/ctx/c7/artifacts/tool/x"), ["c7:artifacts/tool/x"]);
        assert_eq!(
            found("/a/artifacts/c7/artifacts/tool/x"),
            ["a:artifacts/c7/artifacts/tool/x", "c7:artifacts/tool/x"]
        );
    }

    #[test]
    fn nothing_leaves_its_conversation() {
        for text in [
            "",
            "/",
            "..",
            "c7",
            "c7/",
            "c7//x",
            "../x",
            "c7/../c8/x",
            "c7/..",
            "./x",
            "c7/./x",
            "ctx://../x",
            "ctx:///x",
            ".ctxfs/status.json",
            "c7/.ctxfs-manifest",
            "/etc/passwd",
            "c7/a\0b",
            "c7/a\nb",
            "/x/../artifacts/tool/x",
            "c7/artifacts/tool/../../../c8/x",
        ] {
            assert_eq!(found(text), <[String; 0]>::default(), "{text:?}");
        }
        let long = "x".repeat(256);
        assert!(found(&format!("c7/{long}")).is_empty());
    }
}
