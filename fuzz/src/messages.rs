//! Message log, written in pieces of any length.

use std::fs::File;
use std::io;
use std::io::{Read, Write};
use std::sync::Arc;

use serde::de::IgnoredAny;
use serde_json::{Map, Value};
use tempfile::TempDir;

use crate::empty_store;
use ctxfs_core::model::{Component, Folder, Limits, RelPath};
use ctxfs_store::message::{
    AppendContext, Batch, Host, LockedLog, LongOutput, MessageError, Preview, UnfinishedLine,
};
use ctxfs_store::{ArtifactWriter, Conversation};

/// Maximum bytes of an output that stays in its message.
const THRESHOLD: u64 = 40;
const TAG: &str = "<function_call>";
const ROLES: [&str; 6] = ["system", "developer", "user", "assistant", "tool", "function"];

/// Asserts that the log has the lines that are messages, regardless of the boundaries of writes.
/// Each line must be as written, except for outputs that are stored elsewhere. This includes
/// outputs of calls in a text.
///
/// The first byte determines the length of the pieces.
pub fn messages(data: &[u8]) {
    let Some((first, text)) = data.split_first() else { return };
    let whole = Bench::new();
    let mut accepted = Vec::new();
    for line in text.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n")) {
        match whole.write(&mut UnfinishedLine::default(), line) {
            Ok(()) if line.iter().all(u8::is_ascii_whitespace) => {}
            Ok(()) => accepted.push(line),
            Err(MessageError::NotAMessage(_)) => assert!(!is_message(line)),
            Err(error) => panic!("{error}"),
        }
    }
    let log = whole.log();
    let lines: Vec<&[u8]> = log.split_inclusive(|byte| *byte == b'\n').collect();
    assert_eq!(lines.len(), accepted.len());
    for (kept, written) in lines.iter().zip(&accepted) {
        whole.compare(kept, written);
    }

    let pieces = Bench::new();
    let mut unfinished = UnfinishedLine::default();
    let accepted = accepted.concat();
    for piece in accepted.chunks(usize::from(*first) + 1) {
        pieces.write(&mut unfinished, piece).expect("what was taken once is taken again");
    }
    assert_eq!(pieces.log(), log);
}

/// Returns true if a line must be accepted: an object with a known role and without duplicate
/// members.
fn is_message(line: &[u8]) -> bool {
    let Ok(Value::Object(message)) = serde_json::from_slice(line) else { return false };
    let role = message.get("role").and_then(Value::as_str);
    let plain = !line.contains(&b'\\') && message.len() == members(line);
    plain && role.is_some_and(|role| ROLES.contains(&role)) && line.len() < 60_000
}

/// Returns the number of members of an object, including duplicates.
fn members(line: &[u8]) -> usize {
    struct Count;
    impl<'de> serde::de::Visitor<'de> for Count {
        type Value = usize;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<usize, A::Error> {
            let mut count = 0;
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
                count += 1;
            }
            Ok(count)
        }
    }
    let mut json = serde_json::Deserializer::from_slice(line);
    serde::Deserializer::deserialize_map(&mut json, Count).unwrap_or(0)
}

/// A conversation, and a host that stores long outputs.
struct Bench {
    dir: TempDir,
    conversation: Arc<Conversation>,
}

impl Bench {
    fn new() -> Self {
        let (dir, store) = empty_store();
        let id = Component::new("c7").expect("a name");
        let conversation = store.create_conversation(&id).expect("a new conversation");
        Self { dir, conversation }
    }

    fn file(&self) -> Arc<File> {
        let path = self.dir.path().join("store/context/c7/history/messages.jsonl");
        let mut options = File::options();
        let options = options.read(true).append(true).create(true);
        Arc::new(options.open(path).expect("a log"))
    }

    fn write(&self, unfinished: &mut UnfinishedLine, bytes: &[u8]) -> Result<(), MessageError> {
        let context = AppendContext { conversation: &self.conversation, host: self };
        Batch::take(unfinished, bytes, &context, |batch| {
            let file = self.file();
            let log = LockedLog::wait(&file)?;
            let end = log.repair(&self.conversation)?;
            Ok(log.append(batch, end)?)
        })
    }

    fn log(&self) -> Vec<u8> {
        let mut log = Vec::new();
        self.file().as_ref().read_to_end(&mut log).expect("readable");
        log
    }

    /// Asserts that a line is as written, or refers to an artifact with the output that was taken
    /// out.
    fn compare(&self, kept: &[u8], written: &[u8]) {
        // A lone surrogate is valid JSON, but this parser rejects it.
        let Some(mut written) = object(written).filter(|_| kept != written) else { return };
        let mut kept = object(kept).expect("what is kept is a message");
        if kept.get("role").and_then(Value::as_str) == Some("assistant") {
            return self.compare_texts(&kept, &written);
        }
        self.compare_outputs("content", &mut kept, &mut written);
        assert_eq!(kept, written);
    }

    /// Asserts that the artifact to which `kept` refers has the output in `written`. Removes the
    /// reference and the output from the objects.
    fn compare_outputs(
        &self,
        name: &str,
        kept: &mut Map<String, Value>,
        written: &mut Map<String, Value>,
    ) {
        let path = kept.remove("fullOutputPath").expect("where the output is");
        let path = path.as_str().and_then(|path| path.strip_prefix("/ctx/c7/")).expect("a path");
        assert!(kept.remove(name).is_some(), "something is in place of the output");
        let output = written.remove(name).expect("an output");
        let artifact = self.dir.path().join("store/context/c7").join(path);
        let stored = std::fs::read(artifact).expect("the output is kept");
        match output {
            Value::String(output) => assert_eq!(stored, output.as_bytes()),
            output => {
                let stored: Value = serde_json::from_slice(&stored).expect("JSON is kept as JSON");
                assert_eq!(stored, output);
            }
        }
        written.remove("fullOutputPath");
    }

    /// Asserts that messages differ only in outputs of calls, which are stored elsewhere.
    fn compare_texts(&self, kept: &Map<String, Value>, written: &Map<String, Value>) {
        assert_eq!(kept.len(), written.len());
        for (name, kept) in kept {
            match (kept, &written[name]) {
                (kept, written) if name != "content" => assert_eq!(kept, written),
                (Value::Array(kept), Value::Array(written)) => {
                    assert_eq!(kept.len(), written.len());
                    for (kept, written) in kept.iter().zip(written) {
                        self.compare_calls(text_of(kept), text_of(written));
                    }
                }
                (kept, written) => self.compare_calls(kept.as_str(), written.as_str()),
            }
        }
    }

    fn compare_calls(&self, kept: Option<&str>, written: Option<&str>) {
        let (Some(mut kept), Some(mut written)) = (kept, written) else {
            return assert_eq!(kept, written);
        };
        while kept != written {
            let Some([(mut call, kept_end), (mut was, written_end)]) = stored_call(kept, written)
            else {
                // A lone surrogate in a call is valid JSON, but this parser rejects it.
                return assert!(written.to_lowercase().contains("\\ud"), "{kept} of {written}");
            };
            self.compare_outputs("response", &mut call, &mut was);
            assert_eq!(call, was);
            (kept, written) = (&kept[kept_end..], &written[written_end..]);
        }
    }
}

fn text_of(part: &Value) -> Option<&str> {
    part.as_str().or_else(|| part.get("text")?.as_str())
}

/// An object, and its end in the text.
type FoundObject = (Map<String, Value>, usize);

/// Returns the first call that differs in two texts: as stored in the log, and as written.
fn stored_call(kept: &str, written: &str) -> Option<[FoundObject; 2]> {
    let same = kept.bytes().zip(written.bytes()).take_while(|(a, b)| a == b).count();
    let tags = kept.match_indices(TAG).map(|(at, _)| at + TAG.len());
    let tags: Vec<usize> = tags.take_while(|at| *at <= same).collect();
    tags.into_iter().rev().find_map(|at| {
        let calls = [object_at(kept, at)?, object_at(written, at)?];
        (calls[0].0 != calls[1].0 && calls[0].0.contains_key("fullOutputPath")).then_some(calls)
    })
}

fn object_at(text: &str, at: usize) -> Option<FoundObject> {
    let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter();
    let object = values.next()?.ok()?;
    Some((object, at + values.byte_offset()))
}

fn object(line: &[u8]) -> Option<Map<String, Value>> {
    serde_json::from_slice(line).ok()
}

impl Host for Bench {
    fn limits(&self, _: Option<&str>) -> Limits {
        Limits { message_threshold: THRESHOLD, ..Limits::default() }
    }

    fn is_stored(&self, _: &str) -> bool {
        false
    }

    fn masks_stored(&self) -> bool {
        false
    }

    fn is_stand_in(&self, _: &[u8], _: &Limits) -> io::Result<bool> {
        Ok(false)
    }

    fn write_stored(&self, output: &mut dyn Read, sink: &mut dyn Write) -> io::Result<()> {
        io::copy(output, sink).map(|_| ())
    }

    fn take_in(&self, mut output: LongOutput<'_>) -> Result<RelPath, MessageError> {
        let LongOutput { call, provenance, .. } = &output;
        let (folder, provenance) = (Folder::Tool, provenance.clone());
        let mut writer =
            ArtifactWriter::create_for_call(&self.conversation, folder, call, provenance)?;
        io::copy(&mut output.content, &mut writer)?;
        Ok(RelPath::from_text(&writer.seal()?.record.path).expect("a path"))
    }

    fn preview(&self, path: &RelPath) -> Result<Preview, MessageError> {
        Ok(Preview { text: "...".to_owned(), full_output_path: format!("/ctx/c7/{path}") })
    }
}
