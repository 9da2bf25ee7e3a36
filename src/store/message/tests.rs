//! Tests that check, offload and append messages in a store on disk.

mod calls;

use std::fs;
use std::fs::File;
use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::{Artifact, ArtifactWriter, Store};
use ctxfs_core::model::{Component, Folder};

const THRESHOLD: u64 = 100;

/// A conversation, and a host whose previews have ten characters.
struct Fixture {
    dir: TempDir,
    store: Store,
    conversation: Arc<Conversation>,
    /// Number of bytes that may be stored. Beyond it, storing fails as if the disk were full.
    room: u64,
}

impl Host for Fixture {
    fn limits(&self, tool: Option<&str>) -> Limits {
        let message_threshold = if tool == Some("never") { Limits::NEVER } else { THRESHOLD };
        Limits { message_threshold, ..Limits::default() }
    }

    fn is_stored(&self, reference: &str) -> bool {
        self.store.resolve(reference).unwrap().is_some()
    }

    fn masks_stored(&self) -> bool {
        false
    }

    fn is_stand_in(&self, output: &[u8], _: &Limits) -> io::Result<bool> {
        Ok(output.starts_with(b"ctx://") && self.is_stored(str::from_utf8(output).unwrap().trim()))
    }

    fn write_stored(&self, output: &mut dyn Read, sink: &mut dyn Write) -> io::Result<()> {
        io::copy(output, sink).map(|_| ())
    }

    fn take_in(&self, mut output: LongOutput<'_>) -> Result<RelPath, MessageError> {
        if output.length > self.room {
            return Err(io::Error::from_raw_os_error(libc::ENOSPC).into());
        }
        let LongOutput { call, provenance, .. } = &output;
        let (folder, provenance) = (Folder::Tool, provenance.clone());
        let mut writer =
            ArtifactWriter::create_for_call(&self.conversation, folder, call, provenance)?;
        io::copy(&mut output.content, &mut writer)?;
        Ok(RelPath::from_text(&writer.seal()?.record.path).unwrap())
    }

    fn preview(&self, path: &RelPath) -> Result<Preview, MessageError> {
        let mut start = [0; 10];
        Artifact::open(self.conversation.dir(), path)?.file().as_ref().read_exact(&mut start)?;
        let text = String::from_utf8_lossy(&start).into_owned();
        Ok(Preview { text, full_output_path: format!("/ctx/c7/{path}") })
    }
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let id = Component::new("c7").unwrap();
        let conversation = store.create_conversation(&id).unwrap();
        Self { dir, store, conversation, room: u64::MAX }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.dir.path().join("context/c7").join(below)
    }

    fn open(&self) -> Arc<File> {
        let path = self.path("history/messages.jsonl");
        let mut options = File::options();
        Arc::new(options.read(true).write(true).create(true).truncate(false).open(path).unwrap())
    }

    fn context(&self) -> AppendContext<'_> {
        AppendContext { conversation: &self.conversation, host: self }
    }

    fn write(&self, unfinished: &mut UnfinishedLine, bytes: &[u8]) -> Result<(), MessageError> {
        Batch::take(unfinished, bytes, &self.context(), |batch| self.append_all(batch))
    }

    fn append_all(&self, batch: &Batch) -> Result<(), MessageError> {
        let file = self.open();
        let log = LockedLog::wait(&file)?;
        let end = log.repair(&self.conversation)?;
        Ok(log.append(batch, end)?)
    }

    fn append(&self, message: &Value) {
        self.write(&mut UnfinishedLine::default(), format!("{message}\n").as_bytes()).unwrap();
    }

    fn text(&self) -> String {
        fs::read_to_string(self.path("history/messages.jsonl")).unwrap_or_default()
    }

    fn messages(&self) -> Vec<Value> {
        self.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn outputs(&self) -> Vec<String> {
        let names = fs::read_dir(self.path("artifacts/tool")).unwrap();
        let mut names: Vec<_> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn output(&self, name: &str) -> String {
        fs::read_to_string(self.path("artifacts/tool").join(name)).unwrap()
    }
}

fn result(call: &str, content: &str) -> Value {
    json!({ "role": "tool", "tool_call_id": call, "toolName": "sh", "content": content })
}

#[test]
fn a_message_is_kept_byte_for_byte() {
    let fixture = Fixture::new();
    let text =
        "{\"role\": \"user\",\t\"content\":\"\\u00e9\\/ \u{20ac}\", \"x\": 1.50e+2, \"y\":{} }\r\n";
    fixture.write(&mut UnfinishedLine::default(), text.as_bytes()).unwrap();
    assert_eq!(fixture.text(), text);
}

#[test]
fn lines_come_in_pieces_of_any_size() {
    let text = "{\"role\":\"user\",\"content\":\"a\"}\n\n{\"role\":\"assistant\"}\n  \n{\"role\":\"user\"}\n";
    for size in 1..text.len() {
        let fixture = Fixture::new();
        let mut unfinished = UnfinishedLine::default();
        for piece in text.as_bytes().chunks(size) {
            fixture.write(&mut unfinished, piece).unwrap();
            let text = fixture.text();
            assert!(text.is_empty() || text.ends_with('\n'), "{text}");
        }
        assert!(unfinished.is_empty());
        assert_eq!(fixture.messages().len(), 3);
    }
}

#[test]
fn a_write_with_one_bad_line_appends_nothing() {
    let fixture = Fixture::new();
    let mut unfinished = UnfinishedLine::default();
    fixture.write(&mut unfinished, b"{\"role\":\"user\"}\n{\"role\":").unwrap();
    let long = result("call_1", &"x".repeat(1000));
    let bytes = format!("\"user\"}}\n{long}\nbad\n{{\"role\":\"user\"}}\n{{\"role");
    let error = fixture.write(&mut unfinished, bytes.as_bytes()).unwrap_err();
    assert!(matches!(error, MessageError::NotAMessage(_)) && unfinished.is_empty());
    assert_eq!(error.raw_os_error(), libc::EINVAL);
    assert_eq!(fixture.text(), "{\"role\":\"user\"}\n");
    assert!(fixture.outputs().is_empty());
    fixture.write(&mut unfinished, b"{\"role\":\"tool\"}\n").unwrap();
    assert_eq!(fixture.messages().len(), 2);
}

#[test]
fn a_last_line_is_finished_if_it_is_a_message() {
    let fixture = Fixture::new();
    let mut unfinished = UnfinishedLine::default();
    fixture.write(&mut unfinished, b"{\"role\":\"user\"").unwrap();
    let finish = |unfinished: &mut UnfinishedLine| {
        Batch::finish(unfinished, &fixture.context(), |batch| fixture.append_all(batch))
    };
    assert!(finish(&mut unfinished).is_err());
    fixture.write(&mut unfinished, b"}").unwrap();
    finish(&mut unfinished).unwrap();
    assert!(unfinished.is_empty());
    assert_eq!(fixture.text(), "{\"role\":\"user\"}\n");
}

#[test]
fn a_long_output_becomes_the_artifact_of_its_call() {
    let fixture = Fixture::new();
    let output = "line \u{e9}\n".repeat(50);
    let line = format!(
        "{{\"x\":1, \"role\" : \"tool\",\"content\": {},\"tool_call_id\":\"call_1\",\"y\":[ 2 ]}}\n",
        json!(output)
    );
    fixture.write(&mut UnfinishedLine::default(), line.as_bytes()).unwrap();
    assert_eq!(
        fixture.text(),
        "{\"x\":1, \"role\" : \"tool\",\"content\": \"line \u{e9}\\nli\",\"fullOutputPath\":\
         \"/ctx/c7/artifacts/tool/call_1.txt\",\"tool_call_id\":\"call_1\",\"y\":[ 2 ]}\n"
    );
    assert_eq!(fixture.output("call_1.txt"), output);
    let path = RelPath::new("artifacts/tool/call_1.txt").unwrap();
    let record = fixture.conversation.record(&path).unwrap().unwrap();
    assert_eq!((record.provenance.call.as_deref(), record.provenance.tool), (Some("call_1"), None));
    assert!(record.analysis.is_some());
}

#[test]
fn the_threshold_is_in_bytes_of_the_text_and_of_its_tool() {
    let fixture = Fixture::new();
    for (role, tool, length, is_long) in [
        ("tool", "sh", THRESHOLD, false),
        ("tool", "sh", THRESHOLD + 1, true),
        ("tool", "never", 10 * THRESHOLD, false),
        ("assistant", "sh", 10 * THRESHOLD, false),
    ] {
        // A text is shorter than its JSON form.
        let content = "\n".repeat(length as usize);
        let call = format!("{role}-{tool}-{length}");
        let mut message = result(&call, &content);
        (message["role"], message["toolName"]) = (role.into(), tool.into());
        fixture.append(&message);
        let kept = fixture.messages().pop().unwrap();
        assert_eq!(kept["fullOutputPath"].is_string(), is_long, "{kept}");
        assert_eq!(kept == message, !is_long);
    }
}

#[test]
fn an_output_that_is_an_artifact_already_is_not_stored_twice() {
    let fixture = Fixture::new();
    let output = "{\"a\": \"0123456789\"}\n".repeat(20);
    let name = Component::new("call_1.log").unwrap();
    let of = &fixture.conversation;
    let mut writer =
        ArtifactWriter::create(of, Folder::Tool, &name, Provenance::default()).unwrap();
    writer.write_all(output.as_bytes()).unwrap();
    writer.seal().unwrap();
    for _ in 0..2 {
        fixture.append(&result("call_1", &output));
    }
    for message in fixture.messages() {
        assert_eq!(message["fullOutputPath"], "/ctx/c7/artifacts/tool/call_1.log");
    }
    assert_eq!(fixture.outputs(), ["call_1.log"]);
}

#[test]
fn an_artifact_is_never_replaced_by_a_message() {
    let fixture = Fixture::new();
    let outputs = [1, 2, 3].map(|number| format!("{number} ").repeat(100));
    for output in outputs.iter().chain(&outputs) {
        fixture.append(&result("call_1", output));
    }
    assert_eq!(fixture.outputs(), ["call_1-2.txt", "call_1-3.txt", "call_1.txt"]);
    let paths: Vec<_> = fixture.messages().iter().map(|m| m["fullOutputPath"].clone()).collect();
    assert_eq!(paths[..3], paths[3..]);
    assert_eq!(fixture.output("call_1-2.txt"), outputs[1]);
}

/// The first file is left by a host that died while it stored an output.
#[test]
fn half_an_artifact_stays_beside_the_whole() {
    let fixture = Fixture::new();
    let output = "0123456789".repeat(100);
    let provenance = Provenance { call: Some("call_1".to_owned()), ..Provenance::default() };
    let of = &fixture.conversation;
    let mut writer =
        ArtifactWriter::create_for_call(of, Folder::Tool, "call_1", provenance).unwrap();
    writer.write_all(&output.as_bytes()[..500]).unwrap();
    drop(writer);
    for _ in 0..2 {
        fixture.append(&result("call_1", &output));
        assert_eq!(fixture.outputs(), ["call_1-2.txt", "call_1.txt"]);
    }
    assert_eq!(fixture.output("call_1-2.txt"), output);
}

#[test]
fn what_refers_to_something_stored_stays_as_it_is() {
    let fixture = Fixture::new();
    fixture.append(&result("call_1", &"x".repeat(1000)));
    let mut refers = result("call_2", &"y".repeat(1000));
    refers["fullOutputPath"] = "/any/c7/artifacts/tool/call_1.txt".into();
    let stand_in =
        result("call_3", &format!("ctx://c7/artifacts/tool/call_1.txt{}", " ".repeat(99)));
    for message in [&refers, &stand_in] {
        fixture.append(message);
        assert_eq!(fixture.messages().pop().as_ref(), Some(message));
    }
    assert_eq!(fixture.outputs(), ["call_1.txt"]);
    // A path to a file that does not exist is replaced.
    refers["fullOutputPath"] = "/elsewhere/call_2.txt".into();
    fixture.append(&refers);
    let kept = fixture.messages().pop().unwrap();
    assert_eq!(kept["fullOutputPath"], "/ctx/c7/artifacts/tool/call_2.txt");
}

#[test]
fn an_output_of_parts_stays_one_of_parts() {
    let fixture = Fixture::new();
    let parts = json!([{ "type": "text", "text": "x".repeat(1000) }]);
    let message = json!({ "role": "tool", "content": parts, "tool_call_id": "a/b" });
    fixture.append(&message);
    let kept = fixture.messages().pop().unwrap();
    assert_eq!(kept["content"][0]["type"], "text");
    assert_eq!(kept["content"][0]["text"].as_str().unwrap().len(), 10);
    let name = fixture.outputs().pop().unwrap();
    let stem = name.strip_suffix(".json").unwrap();
    assert!(stem.starts_with("call-"), "{name}");
    assert_eq!(serde_json::from_str::<Value>(&fixture.output(&name)).unwrap(), parts);
}

/// The span of a number is one byte too long.
#[test]
fn a_path_that_is_a_number_is_replaced_alone() {
    let fixture = Fixture::new();
    let content = "x".repeat(1000);
    for line in [
        format!(
            "{{\"role\":\"tool\",\"fullOutputPath\":-5,\"content\":\"{content}\",\"id\":\"m1\"}}\n"
        ),
        format!(
            "{{\"role\":\"tool\",\"content\":\"{content}\",\"id\":\"m1\",\"fullOutputPath\":12}}\n"
        ),
    ] {
        fixture.write(&mut UnfinishedLine::default(), line.as_bytes()).unwrap();
        let kept = fixture.messages().pop().unwrap();
        assert_eq!(kept["fullOutputPath"], "/ctx/c7/artifacts/tool/m1.txt");
    }
}

#[test]
fn an_output_without_a_call_is_named_after_its_message_or_its_bytes() {
    let fixture = Fixture::new();
    let message = json!({ "role": "tool", "content": "x".repeat(1000), "id": "m1" });
    fixture.append(&message);
    let message = json!({ "role": "tool", "content": "y".repeat(1000) });
    fixture.append(&message);
    fixture.append(&message);
    let names = fixture.outputs();
    assert!(names.len() == 2 && names[0] == "m1.txt" && names[1].starts_with("message-"));
}

#[test]
fn where_there_is_no_room_nothing_is_appended() {
    let fixture = Fixture { room: 500, ..Fixture::new() };
    let long = format!("{{\"role\":\"user\"}}\n{}\n", result("call_1", &"x".repeat(501)));
    let error = fixture.write(&mut UnfinishedLine::default(), long.as_bytes()).unwrap_err();
    assert_eq!(error.raw_os_error(), libc::ENOSPC);
    assert!(fixture.text().is_empty() && fixture.outputs().is_empty());
}

/// The kernel passes a long line in pieces, and a writer may retry a piece.
#[test]
fn a_line_for_which_there_was_no_room_can_be_tried_again() {
    let mut fixture = Fixture { room: 500, ..Fixture::new() };
    let output = "x".repeat(3 * HELD);
    let line = format!("{}\n", result("call_1", &output));
    let (first, last) = line.as_bytes().split_at(2 * HELD + 100);
    let mut unfinished = UnfinishedLine::default();
    for piece in first.chunks(HELD) {
        fixture.write(&mut unfinished, piece).unwrap();
    }
    for _ in 0..2 {
        assert_eq!(fixture.write(&mut unfinished, last).unwrap_err().raw_os_error(), libc::ENOSPC);
    }
    fixture.room = u64::MAX;
    fixture.write(&mut unfinished, last).unwrap();
    assert_eq!((fixture.output("call_1.txt"), fixture.messages().len()), (output, 1));
}

#[test]
fn lines_longer_than_what_is_held_go_through_a_file() {
    let fixture = Fixture::new();
    let mut unfinished = UnfinishedLine::default();
    let mut write = |bytes: &[u8]| {
        fixture.write(&mut unfinished, bytes).unwrap();
        assert!(unfinished.held_bytes() <= HELD);
    };
    let output = "0123456789abcde\n".repeat(3 * HELD / 16);
    for message in [result("call_1", &output), json!({ "role": "user", "content": output })] {
        format!("{message}\n").as_bytes().chunks(100_000).for_each(&mut write);
    }
    assert_eq!(fixture.output("call_1.txt"), output);
    let messages = fixture.messages();
    assert_eq!(messages[0]["content"], "0123456789");
    assert_eq!(messages[1]["content"].as_str(), Some(&*output));
    let left: Vec<_> = fs::read_dir(fixture.path("")).unwrap().collect();
    assert_eq!(left.len(), 5, "nothing but the directories, the manifest and a lock: {left:?}");
}

#[test]
fn a_torn_line_is_set_aside() {
    let fixture = Fixture::new();
    let torn = fixture.path("history/messages.torn");
    for (text, kept, aside) in [
        ("{\"role\":\"user\"}\n{\"role\":\"us", "{\"role\":\"user\"}\n", Some("{\"role\":\"us\n")),
        ("{\"role\":\"us", "", Some("{\"role\":\"us\n")),
        ("{\"role\":\"user\"}", "{\"role\":\"user\"}\n", None),
        ("{\"role\":\"user\"}\n", "{\"role\":\"user\"}\n", None),
    ] {
        fs::remove_file(&torn).ok();
        fs::write(fixture.path("history/messages.jsonl"), text).unwrap();
        let whole = log_of(&fixture.conversation, None).unwrap().unwrap();
        assert!(
            LogLines::from(whole, 0).all(|line| layout::MessageLayout::of(&line.unwrap()).is_ok())
        );
        fixture.append(&json!({ "role": "system" }));
        assert_eq!(fixture.text(), format!("{kept}{{\"role\":\"system\"}}\n"));
        assert_eq!(fs::read_to_string(&torn).ok().as_deref(), aside);
    }
}

#[test]
fn the_array_has_every_line() {
    let fixture = Fixture::new();
    let array = || {
        let mut text = Vec::new();
        array(log_of(&fixture.conversation, None).unwrap().unwrap(), &mut text).unwrap();
        serde_json::from_slice::<Value>(&text).unwrap()
    };
    fixture.open();
    assert_eq!(array(), json!([]));
    let long = format!("\u{20ac}\u{1}\"{}", "\u{20ac}".repeat(HELD));
    let lines = format!("{{\"role\":\"user\"}}\n\nno message\n{long}\n{{\"role\":\"tool\"}}\ntorn");
    fs::write(fixture.path("history/messages.jsonl"), lines).unwrap();
    let expected = json!([{ "role": "user" }, "no message", long, { "role": "tool" }]);
    assert!(array() == expected);
}

#[test]
fn a_file_that_is_to_be_a_log_has_nothing_but_messages() {
    let fixture = Fixture::new();
    let path = fixture.path("history/new");
    let checked = |text: &[u8]| {
        fs::write(&path, text).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let checked = check(&Arc::new(file));
        checked.map(|()| fs::read(&path).unwrap()).map_err(|error| error.to_string())
    };
    assert_eq!(checked(b"").unwrap(), b"");
    assert_eq!(checked(b"{\"role\":\"user\"}\n").unwrap(), b"{\"role\":\"user\"}\n");
    assert_eq!(checked(b"{\"role\":\"user\"}").unwrap(), b"{\"role\":\"user\"}\n");
    assert!(checked(b"{\"role\":\"user\"}\n{}\n").unwrap_err().contains("line 2"));
    assert!(checked(b"{\"role\":\"user\"}\n{").is_err());
}
