//! The members of one value in a JSON document of any size, for displays that open a tree node by
//! node.
//!
//! The document is scanned up to the end of the value, and only the requested members are held in
//! memory. If the offset of the value is given, the scan starts there.

use std::io;

use ctxfs_core::materialize::json::{BOM, Events, Scalar, ScanOutcome, Scanner};
use ctxfs_core::model::Content;

/// The maximum number of members in one window.
pub const JSON_WINDOW: u64 = 100;
// Maximum number of bytes that are kept of a key.
const KEY_BYTES: usize = 1024;
// Maximum number of bytes that are shown of a string or a number.
const TEXT_BYTES: usize = 240;
// Number of bytes that are read at once.
const READ_BYTES: usize = 256 << 10;

/// A step from a value to one of its members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JsonStep {
    /// The member of an object with this key. The key is in its raw JSON spelling, without quotes.
    Key(Vec<u8>),
    /// The item of an array, from 0. In JSON Lines, the document on a line.
    Item(u64),
}

/// A value of a document, and the requested window of its members.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JsonNode {
    /// The path to the value. An empty path means the document, or the list of all documents in
    /// JSON Lines.
    pub path: Vec<JsonStep>,
    /// True if the content is JSON Lines. The first step of the path is then the number of a
    /// document.
    pub is_lines: bool,
    /// The offset at which the value begins, if it is known. If it is set, the path is not
    /// followed.
    pub offset: Option<u64>,
    /// The number of the first member to show, from 0.
    pub from: u64,
}

/// The type of a value: a string, an object, an array, or a scalar (`null`, `true`, `false` or a
/// number).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names tell it")]
pub enum JsonType {
    Scalar(Scalar),
    Text,
    Object,
    Array,
}

/// A member of a value. `step` is the step to it, and `offset` is the offset of its first byte.
///
/// `size` is the number of its own members, or the raw length in bytes if it is a string. `written`
/// is the beginning of the raw text of a string (without quotes), number or word.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the contract above tells it")]
pub struct JsonMember {
    pub step: JsonStep,
    pub kind: JsonType,
    pub offset: u64,
    pub size: u64,
    pub written: Vec<u8>,
}

/// A window of the members of a value. If time ran out, or if the content is not valid JSON, it
/// contains the members that were found before.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JsonMembers {
    /// The type of the value. `None` if there is no such value, or if the content before the value
    /// is not valid JSON.
    pub kind: Option<JsonType>,
    /// The members in the window, at most [`JSON_WINDOW`].
    pub members: Vec<JsonMember>,
    /// The number of members that were seen. If `whole` is false, there may be more.
    pub total: u64,
    /// True if the value was read to its end.
    pub whole: bool,
}

/// Finds the members of the value `node`. Stops when `expired` returns true.
pub fn json_members(
    content: &dyn Content,
    node: &JsonNode,
    expired: &dyn Fn() -> bool,
) -> io::Result<JsonMembers> {
    let mut finder = MemberFinder::new(node);
    let mut scanner = Scanner::default();
    let (mut inside, mut offset) = (false, node.offset.unwrap_or(0));
    let mut block = vec![0; READ_BYTES];
    while !finder.found.whole && !expired() {
        let got = content.read_at(offset, &mut block)?;
        if got == 0 {
            finder.found.whole = !inside && finder.path.is_empty();
            break;
        }
        let Some(still) = finder.scan(&mut scanner, &block[..got], (offset, inside)) else { break };
        inside = still;
        offset += got as u64;
    }
    Ok(finder.found)
}

/// Follows a path through the events of a scanner, and collects the members of the value at its
/// end.
///
/// The documents of the content are treated as items of an enclosing array, so that JSON Lines need
/// no special case. The path in a single document therefore begins with item 0.
#[derive(Debug, Default)]
struct MemberFinder {
    path: Vec<JsonStep>,
    from: u64,
    // Number of open containers.
    level: usize,
    // Number of path steps that lead to the open containers.
    on: usize,
    // Number of items so far in the innermost container on the path.
    index: u64,
    // The key of the next value, if that value is in the innermost container on the path.
    key: Option<Vec<u8>>,
    // The offset of the current block, and the offset of the value that has begun.
    block: u64,
    began: u64,
    // True while a member that is shown is being scanned.
    in_member: bool,
    found: JsonMembers,
}

impl MemberFinder {
    fn new(node: &JsonNode) -> Self {
        let mut path = Vec::new();
        if node.offset.is_some() || !node.is_lines {
            path.push(JsonStep::Item(0));
        }
        if node.offset.is_none() {
            path.extend(node.path.iter().cloned());
        }
        let is_list = path.is_empty();
        let kind = is_list.then_some(JsonType::Array);
        let found = JsonMembers { kind, ..JsonMembers::default() };
        Self { path, from: node.from, found, ..Self::default() }
    }

    /// Scans `bytes` from `offset` on. `inside` is true if a value began before these bytes.
    /// Returns true if a value is unfinished at the end of the bytes, and `None` if they are not
    /// valid JSON.
    fn scan(
        &mut self,
        scanner: &mut Scanner,
        bytes: &[u8],
        (offset, mut inside): (u64, bool),
    ) -> Option<bool> {
        let mut at = 0;
        while at < bytes.len() && !self.found.whole {
            if !inside {
                if offset + at as u64 == 0 && bytes.starts_with(BOM) {
                    at += BOM.len();
                }
                at += bytes[at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
                inside = at < bytes.len();
                continue;
            }
            self.block = offset + at as u64;
            match scanner.push(&bytes[at..], self) {
                ScanOutcome::More => return Some(true),
                ScanOutcome::Wrong(_) => return None,
                ScanOutcome::Done(used) => {
                    at += used;
                    inside = false;
                }
            }
        }
        Some(inside)
    }

    // Processes a value. Returns true if the path leads into it.
    fn value(&mut self, kind: JsonType, size: u64, written: &[u8]) -> bool {
        if self.found.whole {
            return false;
        }
        if self.level > self.on {
            if self.in_member
                && self.level == self.on + 1
                && let Some(member) = self.found.members.last_mut()
            {
                member.size += 1;
            }
            return false;
        }
        let index = self.index;
        self.index += 1;
        let step = self.key.take().map_or(JsonStep::Item(index), JsonStep::Key);
        if self.on == self.path.len() {
            self.member(step, kind, size, written);
            return false;
        }
        if self.path[self.on] != step {
            return false;
        }
        let is_container = matches!(kind, JsonType::Object | JsonType::Array);
        if self.on + 1 == self.path.len() {
            self.found.kind = Some(kind);
            if !is_container {
                self.member(step, kind, size, written);
                self.found.whole = true;
            }
        }
        is_container
    }

    fn member(&mut self, step: JsonStep, kind: JsonType, size: u64, written: &[u8]) {
        let number = self.found.total;
        self.found.total += 1;
        self.in_member = number >= self.from && number - self.from < JSON_WINDOW;
        if self.in_member {
            let (offset, written) = (self.began, written.to_vec());
            self.found.members.push(JsonMember { step, kind, offset, size, written });
        }
    }

    fn begin(&mut self, kind: JsonType) {
        let leads_on = self.value(kind, 0, b"");
        self.level += 1;
        if leads_on {
            self.on += 1;
            self.index = 0;
        }
    }
}

impl Events for MemberFinder {
    const KEY_BYTES: usize = KEY_BYTES;
    const TEXT_BYTES: usize = TEXT_BYTES;

    fn begins(&mut self, at: usize) {
        self.began = self.block + at as u64;
    }

    fn scalar(&mut self, scalar: Scalar, written: &[u8]) {
        self.value(JsonType::Scalar(scalar), written.len() as u64, written);
    }

    fn text(&mut self, start: &[u8], length: u64) {
        self.value(JsonType::Text, length, start);
    }

    fn bracket(&mut self, byte: u8) {
        match byte {
            b'{' => self.begin(JsonType::Object),
            b'[' => self.begin(JsonType::Array),
            _ => {}
        }
    }

    fn key(&mut self, key: &[u8]) {
        if self.level == self.on {
            self.key = Some(key.to_vec());
        }
    }

    fn end(&mut self) {
        self.level -= 1;
        if self.level == self.on {
            self.in_member = false;
        }
        if self.level < self.on {
            // The value at the end of the path has ended, so no more members follow.
            self.found.whole = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(text: &str, node: &JsonNode) -> JsonMembers {
        json_members(&text.as_bytes().to_vec(), node, &|| false).unwrap()
    }

    fn names(found: &JsonMembers) -> Vec<String> {
        let name = |member: &JsonMember| match &member.step {
            JsonStep::Key(key) => String::from_utf8_lossy(key).into_owned(),
            JsonStep::Item(number) => number.to_string(),
        };
        found.members.iter().map(name).collect()
    }

    fn node(path: &[JsonStep]) -> JsonNode {
        JsonNode { path: path.to_vec(), ..JsonNode::default() }
    }

    const SAMPLE: &str =
        r#"{"a": [1, {"x": null, "y": [1,2,3]}, "text"], "b": {"c": true}, "d": 4.5}"#;

    #[test]
    fn a_path_leads_to_members() {
        let root = members(SAMPLE, &node(&[]));
        assert_eq!((root.kind, root.total, root.whole), (Some(JsonType::Object), 3, true));
        assert_eq!(names(&root), ["a", "b", "d"]);
        assert_eq!(root.members[0].size, 3);
        assert_eq!(root.members[2].written, b"4.5");
        let key = |name: &str| JsonStep::Key(name.as_bytes().to_vec());
        let inner = members(SAMPLE, &node(&[key("a"), JsonStep::Item(1)]));
        assert_eq!(
            (inner.kind, names(&inner)),
            (Some(JsonType::Object), vec!["x".into(), "y".into()])
        );
        assert_eq!(inner.members[1].size, 3);
        let scalar = members(SAMPLE, &node(&[key("b"), key("c")]));
        assert_eq!(scalar.kind, Some(JsonType::Scalar(Scalar::Bool)));
        assert_eq!(members(SAMPLE, &node(&[key("z")])).kind, None);
        assert_eq!(members("not json", &node(&[])).kind, None);
    }

    #[test]
    fn an_offset_leads_there_at_once() {
        let root = members(SAMPLE, &node(&[]));
        let at = |offset| JsonNode { offset: Some(offset), ..JsonNode::default() };
        let list = members(SAMPLE, &at(root.members[0].offset));
        assert_eq!((list.kind, list.total, list.whole), (Some(JsonType::Array), 3, true));
        assert_eq!(list.members[2].written, b"text");
        let deeper = members(SAMPLE, &at(list.members[1].offset));
        assert_eq!(names(&deeper), ["x", "y"]);
    }

    #[test]
    fn long_arrays_come_in_windows() {
        let text = format!("[{}]", (0..1000).map(|n| n.to_string()).collect::<Vec<_>>().join(","));
        let found = members(&text, &JsonNode { from: 950, ..JsonNode::default() });
        assert_eq!((found.total, found.members.len()), (1000, 50));
        assert_eq!(found.members[0].step, JsonStep::Item(950));
        let first = members(&text, &node(&[]));
        assert_eq!(first.members.len() as u64, JSON_WINDOW);
    }

    #[test]
    fn the_values_of_lines_are_a_list() {
        let text = "{\"a\":1}\n{\"a\":2}\n{\"a\":3}\n";
        let lines = JsonNode { is_lines: true, ..JsonNode::default() };
        let found = members(text, &lines);
        assert_eq!((found.total, found.whole), (3, true));
        let second = JsonNode { path: vec![JsonStep::Item(1)], ..lines };
        assert_eq!(members(text, &second).members[0].written, b"2");
    }
}
