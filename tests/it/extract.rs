//! `ctxfs extract` and the gateway's `tool_output`, before an endpoint that plays a model.

pub(crate) mod endpoint;
mod view;

use std::fs;

use rustix::process::{Pid, Signal};
use serde_json::Value;

use crate::extract::endpoint::{Endpoint, Reply};
use crate::support::{Command, Output, TestStore, eventually};

const LOG: &[u8] = b"start\nERROR disk sdb1 is full\nend\n";
const KEY: &str = "sk-very-secret-key-0123456789";

/// A store with one output, whose settings name the model of an endpoint.
struct AskedStore {
    store: TestStore,
    endpoint: Endpoint,
    name: String,
}

impl AskedStore {
    fn new(script: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Self {
        let (store, endpoint) = (TestStore::new(), Endpoint::new(script));
        store.user_settings(endpoint.settings());
        let name = format!("c7/artifacts/tool/{}", store.put("c7", "9f3k", LOG));
        Self { store, endpoint, name }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        self.store.ctxfs("extract", arguments).env("TEST_KEY", KEY)
    }

    fn ask(&self, question: &str) -> Output {
        self.command(&[&self.name, question]).run()
    }

    fn log(&self) -> Vec<Value> {
        let log = self.store.path().join("context/c7/history/extractions.jsonl");
        let text = fs::read_to_string(log).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn stats(&self) -> Value {
        let told = self.store.ctxfs("stats", &["--json"]).stdout();
        serde_json::from_slice::<Value>(&told).unwrap()["total"]["questions"].take()
    }
}

#[test]
fn a_question_is_answered_once_and_paid_once() {
    let asked = AskedStore::new(|_| Reply::Answer("sdb1"));
    let header =
        "ABSTRACT FROM TOOL OUTPUT unknown WITH HANDLE c7/9f3k.txt, STRATEGY:full-chunked:";
    for _ in 0..2 {
        let told = asked.ask("which disk is full?");
        assert_eq!(
            (told.code, String::from_utf8_lossy(&told.stdout)),
            (0, format!("{header}\n\nsdb1\n").into())
        );
    }
    let json = asked.command(&["--json", &asked.name, "which disk is full?"]).stdout();
    let json: Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(
        (&json["cached"], &json["found"], &json["mode"]),
        (&true.into(), &true.into(), &"full-chunked".into())
    );
    let requests = asked.endpoint.requests();
    assert_eq!((requests.len(), &requests[0]["model"]), (1, &"a".into()));
    let log = asked.log();
    assert_eq!(
        log.iter().map(|entry| entry["cached"] == true).collect::<Vec<_>>(),
        [false, true, true]
    );
    let paid: u64 = log.iter().map(|entry| entry["nanodollars"].as_u64().unwrap()).sum();
    let stats = asked.stats();
    assert_eq!((&stats["times"], &stats["calls"]), (&3.into(), &1.into()));
    assert_eq!((paid, stats["nanodollars"].as_u64()), (100 * 1000 + 10 * 4000, Some(paid)));
    assert_eq!((stats["input"].as_u64(), stats["output"].as_u64()), (Some(100), Some(10)));
    let table = asked.store.ctxfs("stats", &[]).text();
    assert!(table.contains("0.000140  all"), "{table}");
}

#[test]
fn an_answer_that_was_cut_says_so_and_is_asked_for_again() {
    let asked = AskedStore::new(|_| Reply::Cut("sdb1 and"));
    for calls in [1, 2] {
        let told = asked.command(&["--json", &asked.name, "which disks are full?"]).stdout();
        let told: Value = serde_json::from_slice(&told).unwrap();
        assert_eq!((&told["cached"], &told["cut"]), (&false.into(), &true.into()), "{told}");
        let text = told["text"].as_str().unwrap();
        assert!(text.starts_with("sdb1 and\n") && text.contains("(Not complete: "), "{text}");
        assert!(told["warnings"][0].as_str().unwrap().contains("`max_output_tokens`"), "{told}");
        assert_eq!(asked.endpoint.requests().len(), calls);
    }
    assert!(asked.log().iter().all(|entry| entry["ended"] == "cut"), "{:?}", asked.log());
    let text = asked.ask("which disks are full?");
    assert!(String::from_utf8_lossy(&text.stdout).contains("\n\nWarning: "), "{text}");
}

#[test]
fn no_key_is_in_any_output() {
    let asked = AskedStore::new(|_| {
        Reply::Status(401, r#"{"error":{"message":"wrong key sk-very-secret-key-0123456789"}}"#)
    });
    let told = asked.command(&["--log", "trace", &asked.name, "why?"]).run();
    let all = format!("{told}{:?}", asked.log());
    assert!(all.contains("Warning: ") && !all.contains("very-secret"), "{all}");
    let without = asked.store.ctxfs("extract", &[&asked.name, "why?"]).text();
    assert!(without.contains("the environment variable `TEST_KEY` is not set"), "{without}");
    assert!(without.contains("ERROR disk sdb1 is full"), "{without}");
}

#[test]
fn without_a_model_the_output_is_shown() {
    let store = TestStore::new();
    let name = format!("c7/artifacts/tool/{}", store.put("c7", "9f3k", LOG));
    let told = store.ctxfs("extract", &[&name, "which disk is full?"]).text();
    assert!(
        told.contains("STRATEGY:truncate") && told.contains("ERROR disk sdb1 is full"),
        "{told}"
    );
    assert!(told.contains("Warning: no model is configured: name one in `targets`"), "{told}");
}

#[test]
fn what_it_would_take_is_told_without_asking() {
    let asked = AskedStore::new(|_| Reply::Answer("never"));
    let long = asked.store.put("c7", "long", &crate::support::log(10_000));
    let long = format!("c7/artifacts/tool/{long}");
    let plan = asked.command(&["--dry-run", &long, "what?"]).text();
    assert!(plan.contains(": read-grep by test/a, at most 12 calls, "), "{plan}");
    let plan = asked.command(&["-n", "--json", "--mode", "full-chunked", &long, "what?"]).stdout();
    let plan: Value = serde_json::from_slice(&plan).unwrap();
    assert!(plan["chunks"].as_u64() > Some(10) && plan["dollars"].as_f64() > Some(0.01), "{plan}");
    assert!(asked.endpoint.requests().is_empty() && asked.log().is_empty());
}

#[test]
fn what_cannot_be_asked_is_refused() {
    let asked = AskedStore::new(|_| Reply::Answer("never"));
    for (arguments, told) in [
        (&["why?"][..], "the output to read is missing"),
        (&[&*asked.name, " "], "the question is empty"),
        (&["c7/artifacts/tool/none.txt", "why?"], "No such file"),
        (&["c7/artifacts/tool", "why?"], "Is a directory"),
        (&["../../etc/passwd", "why?"], "cannot read"),
        (&["--mode", "best", &asked.name, "why?"], "there is no mode `best`"),
        (&["--conversation", "none", "why?"], "none"),
    ] {
        let output = asked.command(arguments).run();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.code != 0 && said.contains(told), "{arguments:?}: {output}");
        assert!(output.stdout.is_empty());
    }
    assert!(asked.endpoint.requests().is_empty());
}

#[test]
fn a_conversation_is_asked_by_its_words() {
    let asked = AskedStore::new(|_| Reply::Answer("sdb1"));
    asked.store.put("c7", "other", b"nothing of that kind\n");
    let told = asked.command(&["-c", "c7", "which disk is full?"]).text();
    let first = told.find("HANDLE c7/9f3k.txt").unwrap();
    assert!(first < told.find("HANDLE c7/other.txt").unwrap(), "{told}");
    assert!(told.contains("Read: c7/9f3k.txt, c7/other.txt."), "{told}");
}

#[test]
fn an_interrupt_ends_the_call() {
    let asked = AskedStore::new(|_| Reply::Silence);
    let child = asked.command(&[&asked.name, "why?"]).spawn();
    let pid = Pid::from_child(&child);
    eventually("the model is asked", || asked.endpoint.requests().len() == 1);
    rustix::process::kill_process(pid, Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    eventually("the call has ended", || asked.endpoint.given_up() == 1);
    assert_eq!(asked.log()[0]["ended"], "stopped");
}
