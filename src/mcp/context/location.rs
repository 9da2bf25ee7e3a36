//! Resolves references within one conversation.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::shelf::GatewayConversation;
use ctxfs_engine::{EngineError, OpenedFile, Tree};

const SCHEME: &str = "ctx://";
// Characters that a URI has percent-encoded. The views encode `/` themselves.
const ENCODED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'.').remove(b'_').remove(b'~');
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
        let reference = reference.trim();
        let decoded = decoded(reference);
        let literal = (*decoded != *reference).then_some(reference);
        for text in [Some(&*decoded), literal].into_iter().flatten() {
            if let Some(found) = Self::find_literal(open, text)? {
                return Ok(found);
            }
        }
        Err(not_found(reference))
    }

    fn find_literal(
        open: &'a GatewayConversation,
        reference: &str,
    ) -> Result<Option<Self>, String> {
        let Some(inside) = inside(open, reference) else { return Ok(None) };
        for folder in FOLDERS {
            let found = Self::at(open, &format!("{folder}{inside}"));
            match found.try_open() {
                Ok(_) => return Ok(Some(found)),
                Err(error) if is_absence(&error) => {}
                Err(error) => return Err(format!("cannot read `{reference}`: {error}")),
            }
        }
        let id = open.conversation.id();
        Ok(match open.engine.store().resolve(&format!("{id}/{inside}")) {
            Ok(Some((found, path))) if found == *id => Some(Self::at(open, &path.to_text())),
            _ => None,
        })
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
        format!("{SCHEME}{}/{}", self.open.conversation.id(), self.path)
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

/// Returns a reference, such as `ctx://c7/artifacts/tool/my file.txt`, as a URI.
pub(crate) fn uri(reference: &str) -> String {
    let path = reference.strip_prefix(SCHEME).unwrap_or(reference);
    format!("{SCHEME}{}", utf8_percent_encode(path, ENCODED))
}

/// Returns the reference of a URI. `%2F` stays, because views have it in their names. Other
/// references are returned unchanged.
fn decoded(reference: &str) -> Cow<'_, str> {
    let Some(rest) = reference.strip_prefix(SCHEME) else { return Cow::Borrowed(reference) };
    let part = |part| percent_decode_str(part).decode_utf8().ok();
    let parts: Option<Vec<_>> = rest.split("%2F").map(part).collect();
    parts.map_or(Cow::Borrowed(reference), |parts| format!("{SCHEME}{}", parts.join("%2F")).into())
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
    if let Some(rest) = reference.strip_prefix(SCHEME) {
        return below(rest);
    }
    if reference.starts_with('/') {
        let root = open.engine.options.root.of(&id);
        let below_root = reference.strip_prefix(&root).and_then(|rest| rest.strip_prefix('/'));
        // The store may also be mounted elsewhere.
        let name = format!("/{id}/");
        return below_root.or_else(|| Some(reference.split_once(&name)?.1));
    }
    Some(below(reference).unwrap_or(reference))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_leads_back_to_its_reference() {
        for (reference, expected) in [
            ("ctx://c7/artifacts/tool/a1.txt", "ctx://c7/artifacts/tool/a1.txt"),
            ("ctx://c7/a b.txt", "ctx://c7/a%20b.txt"),
            ("ctx://c 7/a[1].txt.grep/x|y", "ctx://c%207/a%5B1%5D.txt.grep/x%7Cy"),
            ("ctx://c7/a.txt.grep/a%2Fb 5%25", "ctx://c7/a.txt.grep/a%252Fb%205%2525"),
            ("ctx://c7/caf\u{e9}?#%.txt", "ctx://c7/caf%C3%A9%3F%23%25.txt"),
        ] {
            assert_eq!(uri(reference), expected);
            assert_eq!(decoded(expected), reference);
        }
    }

    #[test]
    fn a_reference_that_is_no_uri_stays() {
        for (reference, expected) in [
            ("ctx://c7/my file.txt", "ctx://c7/my file.txt"),
            ("ctx://c7/a.txt.grep/a%2Fb", "ctx://c7/a.txt.grep/a%2Fb"),
            ("ctx://c7/100%.txt", "ctx://c7/100%.txt"),
            ("ctx://c7/%FF.txt", "ctx://c7/%FF.txt"),
            ("a%20b.txt", "a%20b.txt"),
        ] {
            assert_eq!(decoded(reference), expected);
        }
    }
}
