use std::io::Write as _;
use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::{EngineOptions, NewOutput, OutputName, Redaction, Tree};
use ctxfs_core::model::{Change, Component, Content as _, Provenance};
use ctxfs_core::redact::{SETS, SecretRules};
use ctxfs_store::Store;
use ctxfs_view::COMPARED_BYTES;

const KEY: &str = concat!("AKI", "AQYLPMN5HHHFPZAM2");

/// An engine over a store with one conversation, in which a command runs again and again.
struct Fixture {
    _dir: TempDir,
    engine: Arc<Engine>,
    conversation: Arc<Conversation>,
}

impl Fixture {
    fn new(redaction: Option<Redaction>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let conversation = store.create_conversation(&Component::new("c7").unwrap()).unwrap();
        let options = EngineOptions { redaction, ..EngineOptions::default() };
        Self { engine: Engine::new(store, options), conversation, _dir: dir }
    }

    /// Stores the output of the next run, which is incomplete for the reason `why`.
    fn run(&self, call: &str, bytes: &[u8], why: Option<&str>) -> Option<Change> {
        let args = Some(r#"{"command":"make"}"#.to_owned());
        let provenance = Provenance { args, ..Provenance::default() };
        let new = NewOutput { name: OutputName::Call(call.to_owned()), provenance, length: None };
        let mut intake = self.engine.intake(&self.conversation, new).unwrap();
        intake.write_all(bytes).unwrap();
        let output = match why {
            None => intake.seal().unwrap(),
            Some(why) => intake.seal_incomplete(why).unwrap(),
        };
        let record = self.conversation.record(output.path()).unwrap().unwrap();
        // The next run begins later by the clock of records.
        std::thread::sleep(std::time::Duration::from_millis(2));
        record.since.map(|since| since.change)
    }

    fn view(&self, name: &str) -> String {
        let tree = Tree::new(Arc::clone(&self.engine));
        let opened = tree.open(Path::new("c7/artifacts/tool").join(name).as_path()).unwrap();
        String::from_utf8(opened.bytes(0, 1 << 20).unwrap()).unwrap()
    }
}

#[test]
fn outputs_are_compared_when_they_are_recorded() {
    let fixture = Fixture::new(None);
    assert_eq!(fixture.run("a", b"one\n", None), None);
    assert_eq!(fixture.run("b", b"one\n", None), Some(Change::Same));
    let lines = Change::Lines { removed: 0, added: 1 };
    assert_eq!(fixture.run("c", b"one\ntwo\n", None), Some(lines));
    assert_eq!(fixture.run("d", b"one\n", Some("it was cut")), Some(Change::Other));
    assert_eq!(fixture.run("e", b"\x01\0b", None), Some(Change::Other));
    assert_eq!(fixture.run("f", b"\x01\0b", None), Some(Change::Same));
    let large = vec![b'\n'; COMPARED_BYTES as usize + 1];
    assert_eq!(fixture.run("g", &large, None), Some(Change::Other));
    assert_eq!(fixture.run("h", &large, None), Some(Change::Same));
    let text = fixture.view("d.txt.since");
    assert!(text.starts_with("# this output is incomplete (it was cut)"), "{text}");
    assert!(text.contains("\n# since run 3 (c.txt, 0 s ago): "), "{text}");
    assert!(fixture.view("e.txt.since").contains("; not text"));
    let text = fixture.view("g.txt.since-run/a");
    assert!(text.starts_with("# not all lines that differ are shown") && text.len() < 49_152);
    assert!(text.contains("\n-one\n+\n"), "{}", &text[..400]);
}

#[test]
fn the_output_of_a_removed_run_is_passed_over() {
    let fixture = Fixture::new(None);
    for (call, bytes) in [("a", &b"one\n"[..]), ("b", b"two\n"), ("c", b"three\n")] {
        fixture.run(call, bytes, None);
    }
    assert!(fixture.view("c.txt.since").starts_with("# since run 2 (b.txt, "));
    let path = fixture.conversation.path().join("artifacts/tool/b.txt");
    std::fs::write(&path, "changed by hand\n").unwrap();
    assert!(fixture.view("c.txt.since").starts_with("# since run 1 (a.txt, "));
    std::fs::remove_file(path).unwrap();
    assert!(fixture.view("c.txt.since").starts_with("# since run 1 (a.txt, "));
    assert!(
        fixture.view("c.txt.summary").contains("\nsince run 2 (0 s ago): 1 line removed, 1 added")
    );
}

#[test]
fn secrets_are_masked_on_both_sides() {
    let rules = SecretRules::new(&SETS.iter().collect::<Vec<_>>(), &[]).unwrap();
    let redaction = Redaction { rules: Arc::new(rules), stored: false };
    let fixture = Fixture::new(Some(redaction));
    fixture.run("a", format!("key {KEY}\nsame\n").as_bytes(), None);
    fixture.run("b", b"same\n", None);
    let text = fixture.view("b.txt.since");
    assert!(!text.contains(KEY) && text.contains("\n-key "), "{text}");
    assert!(text.starts_with("# 1 secret is redacted (aws-key 1)\n"), "{text}");
}

#[test]
fn ten_thousand_runs_are_no_burden() {
    let fixture = Fixture::new(None);
    fixture.run("last", b"one\n", None);
    let path = RelPath::new("artifacts/tool/last.txt").unwrap();
    let last = fixture.conversation.record(&path).unwrap().unwrap();
    // Outputs of earlier runs that are no longer there.
    let runs = (0..10_000).map(|n| {
        let path = format!("artifacts/tool/{n}.txt");
        Record { path, created: last.created - 10_000 + n, ..last.clone() }
    });
    fixture.conversation.manifest().append(&runs.collect::<Vec<_>>()).unwrap();
    let run = last.provenance.run.as_deref().unwrap();
    assert_eq!(earlier_run(&fixture.conversation, run, last.created).unwrap(), None);
    let (number, record) = earlier_run(&fixture.conversation, run, i64::MAX).unwrap().unwrap();
    assert_eq!((number, record.path), (10_001, last.path));
    assert_eq!(fixture.run("next", b"one\n", None), Some(Change::Same));
    assert!(fixture.view("next.txt.since").starts_with("# since run 10,001 (last.txt, "));
    assert_eq!(numbered_run(&fixture.conversation, (run, i64::MAX), 7).unwrap(), None);
}
