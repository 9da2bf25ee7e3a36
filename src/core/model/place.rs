//! The names of an artifact for its reader.

use crate::model::RelPath;

/// The root of a tree as its readers name it, such as `/ctx`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Root {
    /// The directory of all conversations.
    All(String),
    /// The directory of one conversation, the only one that the readers see.
    One(String),
}

impl Root {
    /// The root for readers who see no files: below it, a path is a reference.
    pub const REFERENCES: &str = "ctx://";

    /// Returns the directory without a trailing `/`.
    pub fn path(&self) -> &str {
        let (Self::All(path) | Self::One(path)) = self;
        if path == Self::REFERENCES { "ctx:/" } else { path.trim_end_matches('/') }
    }

    /// Returns the directory of a conversation.
    pub fn of(&self, conversation: &str) -> String {
        match self {
            Self::All(_) => format!("{}/{conversation}", self.path()),
            Self::One(_) => self.path().to_owned(),
        }
    }
}

/// The place of an artifact for its reader: the root of the tree as the reader names it, the
/// conversation, and the path inside that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The conversation's directory.
    root: String,
    conversation: String,
    path: String,
}

impl Place {
    /// Returns a place in the tree of all conversations that the reader names `prefix`, such as
    /// `/ctx`.
    pub fn new(prefix: &str, conversation: &str, path: &RelPath) -> Self {
        Self::below(&Root::All(prefix.to_owned()), conversation, path)
    }

    /// Returns a place in the tree with this root.
    pub fn below(root: &Root, conversation: &str, path: &RelPath) -> Self {
        let (root, path) = (root.of(conversation), path.to_text());
        Self { root, conversation: conversation.to_owned(), path }
    }

    /// Returns the place of a file outside any tree, which is named by `path` alone.
    pub fn alone(path: &str) -> Self {
        Self { root: String::new(), conversation: String::new(), path: path.to_owned() }
    }

    /// Returns the place of a view of the artifact: the path, followed by `suffix`.
    #[must_use]
    pub fn of_view(&self, suffix: &str) -> Self {
        Self { path: format!("{}{suffix}", self.path), ..self.clone() }
    }

    /// Returns the conversation's id; empty for a file outside any tree.
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

    /// Returns the path for the reader: `/ctx/c7/artifacts/tool/9f3k.txt`. It is absolute, except
    /// for a file outside any tree.
    pub fn file(&self) -> String {
        if self.conversation.is_empty() {
            return self.path.clone();
        }
        format!("{}/{}", self.root, self.path)
    }

    /// Returns the reference, which is valid anywhere: `ctx://c7/artifacts/tool/9f3k.txt`.
    pub fn reference(&self) -> String {
        format!("ctx://{}/{}", self.conversation, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_files_a_path_is_the_reference() {
        let path = RelPath::new("artifacts/tool/x.txt").unwrap();
        let place = Place::new(Root::REFERENCES, "c7", &path);
        assert_eq!(place.file(), place.reference());
        assert_eq!(Place::new("/ctx/", "c7", &path).file(), "/ctx/c7/artifacts/tool/x.txt");
    }
}
