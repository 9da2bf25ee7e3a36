//! How a reader names an artifact.

use crate::model::RelPath;

/// Where an artifact stands for its reader: the prefix of the tree as the reader sees it, the
/// conversation and the path inside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    prefix: String,
    conversation: String,
    path: String,
}

impl Place {
    /// `prefix` is the root of the tree as the reader names it, such as `/ctx`, without a last `/`.
    pub fn new(prefix: &str, conversation: &str, path: &RelPath) -> Self {
        Self {
            prefix: prefix.trim_end_matches('/').to_owned(),
            conversation: conversation.to_owned(),
            path: path.to_text(),
        }
    }

    /// A file that stands in no tree; `path` is all there is to name it.
    pub fn alone(path: &str) -> Self {
        Self { prefix: String::new(), conversation: String::new(), path: path.to_owned() }
    }

    /// The conversation's id; empty of a file that stands alone.
    /// The place of what a view of it prints: `suffix` follows the path.
    #[must_use]
    pub fn of_view(&self, suffix: &str) -> Self {
        Self { path: format!("{}{suffix}", self.path), ..self.clone() }
    }

    /// The conversation's id.
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
        format!("{}/{}/{}", self.prefix, self.conversation, self.path)
    }

    /// The reference that stands for it anywhere: `ctx://c7/artifacts/tool/9f3k.txt`.
    pub fn reference(&self) -> String {
        format!("ctx://{}/{}", self.conversation, self.path)
    }
}
