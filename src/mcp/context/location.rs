//! Resolves references within one conversation.

use std::path::{Path, PathBuf};

use crate::shelf::GatewayConversation;
use ctxfs_engine::{EngineError, OpenedFile, Tree};

// Directories that are searched for a bare name.
const FOLDERS: [&str; 3] = ["", "artifacts/tool/", "artifacts/terminal/"];

/// A file or view of the conversation, by its path in the conversation. The path may not exist. No
/// path leads to another conversation.
pub(crate) struct Location<'a> {
    open: &'a GatewayConversation,
    path: String,
}

impl<'a> Location<'a> {
    pub(crate) fn at(open: &'a GatewayConversation, path: &str) -> Self {
        Self { open, path: path.to_owned() }
    }

    /// Resolves a reference, a handle, a call id or a path of the mount. Errors are worded for the
    /// model.
    pub(crate) fn find(open: &'a GatewayConversation, reference: &str) -> Result<Self, String> {
        let inside = inside(open, reference.trim()).ok_or_else(|| not_found(reference))?;
        for folder in FOLDERS {
            let found = Self::at(open, &format!("{folder}{inside}"));
            match found.try_open() {
                Ok(_) => return Ok(found),
                Err(error) if is_absence(&error) => {}
                Err(error) => return Err(format!("cannot read `{reference}`: {error}")),
            }
        }
        let id = open.conversation.id();
        match open.engine.store().resolve(&format!("{id}/{inside}")) {
            Ok(Some((found, path))) if found == *id => Ok(Self::at(open, &path.to_text())),
            _ => Err(not_found(reference)),
        }
    }

    pub(crate) fn view(&self, view: &str) -> Self {
        Self::at(self.open, &format!("{}.{view}", self.path))
    }

    pub(crate) fn open(&self) -> Result<OpenedFile, String> {
        self.try_open().map_err(|error| {
            if is_absence(&error) {
                format!(
                    "there is no `{}`: context_list names the outputs, and the `summary` of each \
                     names its views",
                    self.name()
                )
            } else {
                format!("cannot read `{}`: {error}", self.name())
            }
        })
    }

    pub(crate) fn name(&self) -> String {
        format!("ctx://{}/{}", self.open.conversation.id(), self.path)
    }

    fn try_open(&self) -> Result<OpenedFile, EngineError> {
        Tree::new(std::sync::Arc::clone(&self.open.engine)).open(&self.in_tree())
    }

    pub(crate) fn in_tree(&self) -> PathBuf {
        let shows_one = self.open.engine.options.only.is_some();
        let above = if shows_one {
            Path::new("")
        } else {
            Path::new(self.open.conversation.id().as_os_str())
        };
        // `Path::join` would treat a query that starts with `/` as an absolute path.
        let mut path = PathBuf::from(above).into_os_string();
        path.push("/");
        path.push(&self.path);
        let path = path.into_string().unwrap_or_default();
        PathBuf::from(path.trim_start_matches('/'))
    }
}

fn not_found(reference: &str) -> String {
    format!("there is no output `{reference}` in this conversation: context_list names them")
}

fn is_absence(error: &EngineError) -> bool {
    let absent = [libc::ENOENT, libc::EISDIR, libc::ENOTDIR, libc::EINVAL, libc::ENAMETOOLONG];
    absent.contains(&error.raw_os_error())
}

/// Returns the path within the conversation. A reference that names no conversation is returned
/// unchanged. Returns `None` if the reference names another conversation.
fn inside<'r>(open: &GatewayConversation, reference: &'r str) -> Option<&'r str> {
    let id = open.conversation.id().to_text();
    let below = |text: &'r str| text.strip_prefix(&*id)?.strip_prefix('/');
    if let Some(rest) = reference.strip_prefix("ctx://") {
        return below(rest);
    }
    if reference.starts_with('/') {
        let root = open.engine.options.root.of(&id);
        return reference.strip_prefix(&root)?.strip_prefix('/');
    }
    Some(below(reference).unwrap_or(reference))
}
