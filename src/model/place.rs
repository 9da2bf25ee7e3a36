//! How a reader names an artifact.

use crate::model::RelPath;

/// Where a tree begins for its readers, such as `/ctx`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Root {
    /// The directory of all conversations.
    All(String),
    /// The directory of one conversation, the only one that the readers have.
    One(String),
}

impl Root {
    /// The directory as it is named, without a last `/`.
    pub fn path(&self) -> &str {
        let (Self::All(path) | Self::One(path)) = self;
        path.trim_end_matches('/')
    }

    /// The directory of a conversation.
    pub fn of(&self, conversation: &str) -> String {
        match self {
            Self::All(_) => format!("{}/{conversation}", self.path()),
            Self::One(_) => self.path().to_owned(),
        }
    }
}

/// Where an artifact stands for its reader: the prefix of the tree as the reader sees it, the
/// conversation and the path inside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The conversation's directory.
    root: String,
    conversation: String,
    path: String,
}

impl Place {
    /// `prefix` is the root of the tree as the reader names it, such as `/ctx`.
    pub fn new(prefix: &str, conversation: &str, path: &RelPath) -> Self {
        Self::below(&Root::All(prefix.to_owned()), conversation, path)
    }

    /// In the tree that has this root.
    pub fn below(root: &Root, conversation: &str, path: &RelPath) -> Self {
        let (root, path) = (root.of(conversation), path.to_text());
        Self { root, conversation: conversation.to_owned(), path }
    }

    /// A file that stands in no tree; `path` is all there is to name it.
    pub fn alone(path: &str) -> Self {
        Self { root: String::new(), conversation: String::new(), path: path.to_owned() }
    }

    /// The place of what a view of it prints: `suffix` follows the path.
    #[must_use]
    pub fn of_view(&self, suffix: &str) -> Self {
        Self { path: format!("{}{suffix}", self.path), ..self.clone() }
    }

    /// The conversation's id; empty of a file that stands alone.
    pub fn conversation(&self) -> &str {
        &self.conversation
    }

    /// The path inside the conversation: `artifacts/tool/9f3k.txt`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The file's name: `9f3k.txt`.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// The path for the reader: `/ctx/c7/artifacts/tool/9f3k.txt`. Absolute, but for a file that
    /// stands alone.
    pub fn file(&self) -> String {
        if self.conversation.is_empty() {
            return self.path.clone();
        }
        format!("{}/{}", self.root, self.path)
    }

    /// The reference that stands for it anywhere: `ctx://c7/artifacts/tool/9f3k.txt`.
    pub fn reference(&self) -> String {
        format!("ctx://{}/{}", self.conversation, self.path)
    }
}
