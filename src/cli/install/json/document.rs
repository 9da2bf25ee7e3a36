//! A JSON file as a tree that keeps every byte: comments, trailing commas and all.

use jsonc_parser::cst::{CstArray, CstNode, CstObject, CstObjectProp, CstRootNode};

use crate::install::shape::WrongShape;
use ctxfs_mcp::config::AS_CLIENTS_HAVE_IT;

/// The mark that some editors put before the text.
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// A JSON file.
#[derive(Debug)]
pub(super) struct Document {
    mark: &'static str,
    root: CstRootNode,
}

impl Document {
    /// Parses `text`. An empty one is an empty object.
    pub(super) fn parse(text: &str) -> Result<Self, WrongShape> {
        let (mark, text) = match text.strip_prefix(BYTE_ORDER_MARK) {
            Some(rest) => (BYTE_ORDER_MARK, rest),
            None => ("", text),
        };
        let root = CstRootNode::parse(text, &AS_CLIENTS_HAVE_IT);
        Ok(Self { mark, root: root.map_err(|error| WrongShape::invalid("JSON", &error))? })
    }

    /// Returns the text of the file.
    pub(super) fn text(&self) -> String {
        format!("{}{}", self.mark, self.root)
    }

    /// Returns the value that these names lead to, if it is there.
    pub(super) fn find(&self, path: &[&str]) -> Option<CstNode> {
        let step = |node: CstNode, name: &&str| node.as_object()?.get(name)?.value();
        path.iter().try_fold(self.root.value()?, step)
    }

    /// Returns the object that these names lead to, and creates what is missing.
    pub(super) fn object(&self, path: &[&str]) -> Result<CstObject, WrongShape> {
        let top = self.root.object_value_or_create();
        let mut object = top.ok_or_else(|| WrongShape::new(&[], "it is not an object"))?;
        for (depth, name) in path.iter().enumerate() {
            let path = &path[..=depth];
            is_single(&object, path)?;
            let inner = object.object_value_or_create(name);
            object = inner.ok_or_else(|| WrongShape::new(path, "is not an object"))?;
        }
        Ok(object)
    }

    /// Returns the list that these names lead to, and creates what is missing.
    pub(super) fn list(&self, path: &[&str]) -> Result<CstArray, WrongShape> {
        let (name, parents) = path.split_last().expect("a list has a name");
        let object = self.object(parents)?;
        is_single(&object, path)?;
        object.array_value_or_create(name).ok_or_else(|| WrongShape::new(path, "is not a list"))
    }

    /// Removes the value at `path` if it is empty, and then those around it. Keeps what `before`
    /// has.
    pub(super) fn clear(&self, path: &[&str], before: Option<&Self>) {
        for end in (1..=path.len()).rev() {
            let path = &path[..end];
            let is_kept = before.is_some_and(|before| before.find(path).is_some());
            if is_kept || !self.find(path).is_some_and(|node| is_empty(&node)) {
                return;
            }
            let parent = self.find(&path[..end - 1]).and_then(|node| node.as_object());
            if let Some(member) = parent.and_then(|parent| parent.get(path[end - 1])) {
                member.remove();
            }
        }
    }
}

/// Returns the text of a node, if it is one.
pub(super) fn text_of(node: &CstNode) -> Option<String> {
    node.as_string_lit()?.decoded_value().ok()
}

/// Readers of JSON do not agree on the one that counts.
fn is_single(object: &CstObject, path: &[&str]) -> Result<(), WrongShape> {
    let name = path.last().copied();
    let is_it = |member: &&CstObjectProp| member.decoded_name().as_deref() == name;
    let count = object.properties().iter().filter(is_it).count();
    if count > 1 { Err(WrongShape::new(path, "is there more than once")) } else { Ok(()) }
}

/// Returns true if there is nothing in an object or a list, comments included.
fn is_empty(node: &CstNode) -> bool {
    let is_bracket = |child: &CstNode| matches!(child.token_char(), Some('{' | '}' | '[' | ']'));
    let is_space = |child: &CstNode| child.is_whitespace() || child.is_newline();
    (node.as_object().is_some() || node.as_array().is_some())
        && node.children().iter().all(|child| is_bracket(child) || is_space(child))
}
