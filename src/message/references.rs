//! The artifacts that a conversation's messages speak of.

use std::collections::BTreeSet;
use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt as _;

use memchr::memmem;

use crate::message::BLOCK;
use crate::message::Line;
use crate::message::Lines;
use crate::message::MessageError;
use crate::message::line::Anatomy;
use crate::message::line::Member;
use crate::message::lines::log_of;
use crate::model::Content as _;
use crate::model::RelPath;
use crate::model::readings;
use crate::store::Conversation;
use crate::store::call_stem;

/// What every path of an artifact begins with.
const ARTIFACTS: &[u8] = b"artifacts/";
/// Bytes of a path that are looked at.
const LONGEST_PATH: usize = 1024;

/// The artifacts on disk that the log of `conversation` refers to: by the `tool_call_id` of a
/// tool's message, by `fullOutputPath`, or by their path anywhere in a message.
///
/// Reads the log once and lists the artifacts once.
pub fn references(conversation: &Conversation) -> Result<BTreeSet<RelPath>, MessageError> {
    let known = Known::of(conversation)?;
    let mut found = BTreeSet::new();
    let Some(log) = log_of(conversation)? else { return Ok(found) };
    for line in Lines::of(log) {
        known.in_line(&line?, &mut found)?;
    }
    Ok(found)
}

/// The artifacts on disk.
struct Known {
    paths: HashMap<Vec<u8>, RelPath>,
    by_stem: HashMap<Vec<u8>, Vec<RelPath>>,
}

impl Known {
    fn of(conversation: &Conversation) -> Result<Self, MessageError> {
        let (mut paths, mut by_stem) = (HashMap::new(), HashMap::<_, Vec<_>>::new());
        for path in conversation.artifacts()? {
            let name = path.file_name().as_bytes();
            let stem = name.rsplitn(2, |byte| *byte == b'.').last().unwrap_or(name).to_vec();
            by_stem.entry(stem).or_default().push(path.clone());
            paths.insert(path.as_os_str().as_bytes().to_vec(), path);
        }
        Ok(Self { paths, by_stem })
    }

    fn in_line(&self, line: &Line, found: &mut BTreeSet<RelPath>) -> Result<(), MessageError> {
        let mut offset = 0;
        let (mut members, length) = (false, line.len());
        while offset < length {
            let block = line.bytes(offset, BLOCK + LONGEST_PATH)?;
            members |= memmem::find(&block, b"\"tool_call_id\"").is_some();
            members |= memmem::find(&block, b"\"fullOutputPath\"").is_some();
            self.in_text(&block, found);
            offset += BLOCK as u64;
        }
        if members && let Ok(anatomy) = Anatomy::of(line) {
            self.in_members(line, &anatomy, found)?;
        }
        Ok(())
    }

    /// Paths as they stand in a text: the longest name that there is.
    fn in_text(&self, text: &[u8], found: &mut BTreeSet<RelPath>) {
        for at in memmem::find_iter(text, ARTIFACTS) {
            let rest = &text[at..text.len().min(at + LONGEST_PATH)];
            let path =
                (ARTIFACTS.len()..=rest.len()).rev().find_map(|end| self.paths.get(&rest[..end]));
            found.extend(path.cloned());
        }
    }

    fn in_members(
        &self,
        line: &Line,
        anatomy: &Anatomy,
        found: &mut BTreeSet<RelPath>,
    ) -> Result<(), MessageError> {
        if let Some(call) = anatomy.short(line, Member::ToolCallId)? {
            let stem = call_stem(&call);
            let left = self.by_stem.get(stem.as_os_str().as_bytes());
            found.extend(left.into_iter().flatten().cloned());
        }
        if let Some(path) = anatomy.short(line, Member::FullOutputPath)? {
            let inside = readings(&path).into_iter().map(|(_, path)| path);
            let known = inside.filter_map(|path| self.paths.get(path.as_os_str().as_bytes()));
            found.extend(known.cloned());
        }
        Ok(())
    }
}
