use std::fs;
use std::path::PathBuf;

use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::quota::fixture::of_new_conversation;
use crate::{EngineOptions, Freed, MessageWriter, Redaction, Replace, StandInRequest};
use ctxfs_core::model::Limits;
use ctxfs_core::redact::{SETS, SecretRules};
use ctxfs_store::Store;
use ctxfs_store::keep::RetentionRules;
use ctxfs_view::{Audience, Form, StandIn, View};

const KEY: &str = concat!("AKI", "AQYLPMN5HHHFPZAM2");

/// An engine over a temporary store with one conversation.
struct Fixture {
    dir: TempDir,
    engine: Arc<Engine>,
    conversation: Arc<Conversation>,
}

impl Fixture {
    fn new(options: EngineOptions) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let conversation = store.create_conversation(&Component::new("c7").unwrap()).unwrap();
        Self { engine: Engine::new(store, options), conversation, dir }
    }

    fn intake(&self, name: OutputName, length: Option<u64>) -> Result<Intake<'_>> {
        let provenance = Provenance::default();
        self.engine.intake(&self.conversation, NewOutput { name, provenance, length })
    }

    fn call(&self, call: &str) -> Intake<'_> {
        self.intake(OutputName::Call(call.to_owned()), None).unwrap()
    }

    /// Stores a complete output.
    fn put(&self, call: &str, bytes: &[u8]) -> StoredOutput {
        let mut intake = self.call(call);
        intake.write_all(bytes).unwrap();
        intake.seal().unwrap()
    }

    /// Stores as much of `bytes` as fits, in pieces of `step` bytes. Returns the output and the
    /// error.
    fn put_part(&self, call: &str, bytes: &[u8], step: usize) -> (StoredOutput, io::Error) {
        let mut intake = self.call(call);
        let mut pieces = bytes.chunks(step);
        let written = pieces.try_for_each(|piece| intake.write_all(piece));
        let error = written.and_then(|()| intake.finish()).unwrap_err();
        (intake.seal().unwrap(), error)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("context/c7/artifacts").join(name)
    }

    /// Removes a file in the same way as a door.
    fn remove(&self, name: &str) {
        fs::remove_file(self.path(name)).unwrap();
        self.engine.freed(self.conversation.id(), Freed::default());
    }

    fn read(&self, output: &StoredOutput) -> Vec<u8> {
        fs::read(self.dir.path().join("context/c7").join(output.path().as_os_str())).unwrap()
    }

    fn record(&self, output: &StoredOutput) -> Record {
        self.conversation.record(output.path()).unwrap().unwrap()
    }

    /// Returns the reason why an output is incomplete.
    fn why(&self, output: &StoredOutput) -> String {
        match self.record(output).state {
            ArtifactState::Incomplete(why) => why,
            state => panic!("{state:?}"),
        }
    }
}

fn engine_error(error: &io::Error) -> &EngineError {
    error.get_ref().unwrap().downcast_ref().unwrap()
}

fn stored_redaction() -> Redaction {
    let rules = SecretRules::new(&SETS.iter().collect::<Vec<_>>(), &[]).unwrap();
    Redaction { rules: Arc::new(rules), stored: true }
}

#[test]
fn an_output_is_stored_recorded_and_counted_once() {
    let fixture = Fixture::new(EngineOptions::default());
    let mut intake = fixture.call("a");
    intake.write_all(b"some text\n").unwrap();
    intake.say(&Provenance { exit_code: Some(3), ..Provenance::default() });
    let output = intake.seal().unwrap();
    assert_eq!(output.path().to_text(), "artifacts/tool/a.txt");
    assert_eq!(output.place().file(), "/ctx/c7/artifacts/tool/a.txt");
    let record = fixture.record(&output);
    assert_eq!((record.state, record.size), (ArtifactState::Sealed, 10));
    assert_eq!(record.provenance.exit_code, Some(3));
    let log = OutputName::Stream(Component::new("a.stdout.log").unwrap());
    let mut copy = fixture.intake(log, None).unwrap().as_copy();
    copy.write_all(b"text\n").unwrap();
    assert_eq!(copy.seal().unwrap().path().to_text(), "artifacts/terminal/a.stdout.log");
    let stored = fixture.engine.counts(None).unwrap().sums.total.stored;
    assert_eq!((stored.times, stored.bytes), (1, 10));
}

#[test]
fn of_an_output_that_passes_its_cap_what_fits_is_kept() {
    let options = EngineOptions { max_artifact: Some(10), ..EngineOptions::default() };
    let fixture = Fixture::new(options);
    for step in [1, 4, 10, 100] {
        let (output, error) = fixture.put_part("a", &[b'x'; 12], step);
        assert!(matches!(engine_error(&error), EngineError::TooLarge(10)), "{error}");
        assert_eq!(fixture.read(&output), [b'x'; 10]);
        assert_eq!(fixture.why(&output), "the artifact has reached its cap of 10 bytes");
        fs::remove_file(fixture.path("tool/a.txt")).unwrap();
    }
    assert_eq!(fixture.read(&fixture.put("b", &[b'x'; 10])), [b'x'; 10]);
}

#[test]
fn a_log_has_a_cap_of_its_own() {
    let options = EngineOptions { max_terminal: Some(10), ..EngineOptions::default() };
    let fixture = Fixture::new(options);
    let log = OutputName::Log("a".to_owned());
    let mut intake = fixture.intake(log, None).unwrap();
    assert!(intake.write_all(&[b'x'; 11]).is_err());
    assert_eq!(fixture.read(&intake.seal().unwrap()).len(), 10);
    assert_eq!(fixture.read(&fixture.put("a", &[b'x'; 11])).len(), 11);
}

#[test]
fn the_files_of_a_conversation_share_its_quota() {
    let quota = of_new_conversation(100_000);
    let fixture = Fixture::new(EngineOptions { quota: Some(quota), ..EngineOptions::default() });
    fixture.put("a", &vec![b'x'; 60_000]);
    for step in [7, 1000, 70_000] {
        let (output, error) = fixture.put_part("b", &vec![b'y'; 70_000], step);
        assert!(matches!(engine_error(&error), EngineError::OverQuota(_)), "{error}");
        let kept = fixture.read(&output);
        assert!(kept.iter().all(|byte| *byte == b'y'));
        assert!((20_000..40_000).contains(&kept.len()), "{step}: {}", kept.len());
        let why = fixture.why(&output);
        let told =
            format!("the files of the conversation have reached their quota of {quota} bytes");
        assert_eq!(why, format!("there was no room: {told}"));
        fixture.remove("tool/b.txt");
    }
}

#[test]
fn the_same_bytes_of_a_call_take_no_room_and_count_once() {
    let quota = Some(of_new_conversation(100_000));
    let fixture = Fixture::new(EngineOptions { quota, ..EngineOptions::default() });
    for _ in 0..5 {
        let output = fixture.put("a", &vec![b'x'; 40_000]);
        assert_eq!(output.path().to_text(), "artifacts/tool/a.txt");
    }
    let stored = fixture.engine.counts(None).unwrap().sums.total.stored;
    assert_eq!((stored.times, stored.bytes), (1, 40_000));
}

#[test]
fn a_conversation_that_is_full_says_so_of_each_output() {
    let quota = Some(of_new_conversation(0));
    let fixture = Fixture::new(EngineOptions { quota, ..EngineOptions::default() });
    let error = fixture.intake(OutputName::Call("a".to_owned()), Some(1)).err().unwrap();
    assert!(matches!(error, EngineError::OverQuota(_)), "{error}");
    assert!(!fixture.path("tool/a.txt").exists());
    let (output, _) = fixture.put_part("b", b"text", 4);
    assert!(fixture.why(&output).starts_with("there was no room: the files of"));
}

#[test]
fn a_disk_that_is_nearly_full_takes_nothing() {
    let options = EngineOptions { min_free: u64::MAX, ..EngineOptions::default() };
    let fixture = Fixture::new(options);
    let (output, error) = fixture.put_part("a", b"x", 1);
    assert!(matches!(engine_error(&error), EngineError::DiskNearlyFull(u64::MAX)), "{error}");
    assert_eq!(fixture.read(&output), b"");
    assert!(fixture.why(&output).starts_with("there was no room: the store's disk has less than"));
}

#[test]
fn a_rule_of_retention_makes_room_first() {
    let keep = RetentionRules { conversation: Some(100_000), ..RetentionRules::default() };
    let quota = Some(of_new_conversation(100_000));
    let fixture = Fixture::new(EngineOptions { quota, keep, ..EngineOptions::default() });
    let old = fixture.put("old", &vec![b'x'; 60_000]);
    assert_eq!(fixture.read(&fixture.put("new", &vec![b'y'; 70_000])).len(), 70_000);
    assert!(!fixture.path("tool/old.txt").exists(), "{old:?}");
}

#[test]
fn who_never_stops_is_told_how_much_was_not_kept() {
    for redaction in [None, Some(stored_redaction())] {
        let options =
            EngineOptions { max_artifact: Some(10), redaction, ..EngineOptions::default() };
        let fixture = Fixture::new(options);
        let mut intake = fixture.call("a").keeping_end();
        for _ in 0..5 {
            intake.write_all(b"0123456").unwrap();
        }
        let output = intake.seal().unwrap();
        assert_eq!(fixture.read(&output), b"0123456012");
        let why = "the artifact has reached its cap of 10 bytes; 25 bytes more were not kept";
        assert_eq!(fixture.why(&output), why);
    }
}

#[test]
fn another_reason_counts_if_all_was_kept() {
    let fixture = Fixture::new(EngineOptions::default());
    let mut intake = fixture.call("a");
    intake.write_all(b"text").unwrap();
    assert_eq!(fixture.why(&intake.seal_incomplete("it was cut").unwrap()), "it was cut");
}

#[test]
fn secrets_are_masked_on_their_way_to_the_disk() {
    let options = EngineOptions { redaction: Some(stored_redaction()), ..EngineOptions::default() };
    let fixture = Fixture::new(options);
    let provenance = Provenance { args: Some(format!("--key {KEY}")), ..Provenance::default() };
    let name = OutputName::Call("a".to_owned());
    let output = NewOutput { name, provenance, length: None };
    let mut intake = fixture.engine.intake(&fixture.conversation, output).unwrap();
    intake.write_all(format!("key {KEY}\n").as_bytes()).unwrap();
    let output = intake.seal().unwrap();
    assert_eq!(fixture.read(&output), b"key [redacted:aws-key]**\n");
    let args = fixture.record(&output).provenance.args.unwrap();
    assert!(!args.contains(KEY), "{args}");
}

#[test]
fn an_output_of_known_length_is_stored_whole_or_not_at_all() {
    let quota = Some(of_new_conversation(100_000));
    let fixture = Fixture::new(EngineOptions { quota, ..EngineOptions::default() });
    let begin = |length| fixture.intake(OutputName::Call("a".to_owned()), Some(length));
    assert!(matches!(begin(110_000).unwrap_err(), EngineError::OverQuota(_)));
    assert!(!fixture.path("tool/a.txt").exists());
    let mut intake = begin(90_000).unwrap();
    intake.write_all(&vec![b'x'; 90_000]).unwrap();
    assert_eq!(fixture.read(&intake.seal().unwrap()).len(), 90_000);
}

/// Appends a message with an output of 200 bytes.
fn append(fixture: &Fixture) -> std::result::Result<Vec<u8>, EngineError> {
    let message = json!({ "role": "tool", "tool_call_id": "a", "content": "word ".repeat(400) });
    let line = format!("{message}\n");
    MessageWriter::open(&fixture.engine, fixture.conversation.id())?.write(line.as_bytes())?;
    Ok(fs::read(fixture.dir.path().join("context/c7/history/messages.jsonl"))?)
}

#[test]
fn the_message_log_refuses_with_the_limit_that_was_met() {
    let limits = Arc::new(Limits { message_threshold: 100, ..Limits::default() });
    let options = EngineOptions { limits, ..EngineOptions::default() };
    let quota = Fixture::new(EngineOptions { quota: Some(100), ..options.clone() });
    assert_eq!(append(&quota).unwrap_err().raw_os_error(), libc::EDQUOT);
    let cap = Fixture::new(EngineOptions { max_artifact: Some(100), ..options });
    let error = append(&cap).unwrap_err();
    assert_eq!(error.raw_os_error(), libc::EFBIG);
    assert_eq!(error.to_string(), "the artifact has reached its cap of 100 bytes");
}

#[test]
fn a_message_holds_the_preview_of_its_output() {
    let limits = Arc::new(Limits { message_threshold: 100, ..Limits::default() });
    let fixture = Fixture::new(EngineOptions { limits, ..EngineOptions::default() });
    let line = append(&fixture).unwrap();
    let message: serde_json::Value = serde_json::from_slice(&line).unwrap();
    let path = ctxfs_core::model::RelPath::new("artifacts/tool/a.txt").unwrap();
    let record = fixture.conversation.record(&path).unwrap().unwrap();
    let output = StoredOutput::open(&fixture.engine, &fixture.conversation, record, true).unwrap();
    let preview = output.view_in_place(&fixture.engine, &View::Preview).unwrap();
    let held = message["content"].as_str().unwrap();
    assert_eq!(format!("{held}\n").as_bytes(), preview);
    let audience = Audience { tools: &[], is_stored: &|_| false, above: b"" };
    let request =
        StandInRequest { form: Form::Preview, replace: Replace::OverLimits, seen: false, audience };
    let answer = output.stand_in(&fixture.engine, &request).unwrap();
    assert_eq!(answer, StandIn::Replaced(format!("{held}\n")));
}

#[test]
fn the_last_bytes_stay_however_they_came() {
    let bytes: Vec<u8> = (0..MOST * 3).map(|at| (at / 7 % 251) as u8).collect();
    for step in [1000, 65_536, MOST - 1, MOST, MOST + 1, MOST * 3] {
        let mut tail = Tail::default();
        bytes.chunks(step).for_each(|piece| tail.add(piece));
        assert_eq!((tail.dropped(), tail.bytes()), (MOST as u64 * 2, &bytes[MOST * 2..]));
    }
    let mut tail = Tail::default();
    tail.add(&bytes[..MOST]);
    assert_eq!((tail.dropped(), tail.bytes()), (0, &bytes[..MOST]));
}

#[test]
fn cuts_fall_between_lines_or_at_least_characters() {
    assert_eq!(whole_lines_before(b"one\ntwo"), 4);
    assert_eq!(whole_lines_before(b"one\n"), 4);
    assert_eq!(whole_lines_before(b"one"), 3);
    assert_eq!(whole_lines_before("on\u{20ac}".as_bytes()), 2);
    assert_eq!(whole_lines_before(&"\u{20ac}".as_bytes()[..2]), 0);
    assert_eq!(whole_lines_before(b""), 0);
    assert_eq!(cut_line_of(b"ne\ntwo\n"), 3);
    assert_eq!(cut_line_of(b"two\n"), 0);
    assert_eq!(cut_line_of(&"\u{20ac}x".as_bytes()[1..]), 2);
    assert_eq!(cut_line_of(&[0x80; 9]), 3);
    assert_eq!(cut_line_of(b""), 0);
}
