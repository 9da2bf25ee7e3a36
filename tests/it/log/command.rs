//! `ctxfs log` and `ctxfs log append`.

use std::fs;

use serde_json::json;

use super::{messages, plain_log, result};
use crate::support::{Command, Terminal, TestStore};

/// A log with one message of each kind.
fn talked() -> TestStore {
    let store = TestStore::new();
    let call = json!({ "id": "call_1", "type": "function",
        "function": { "name": "shell/exec", "arguments": "{\"cmd\":\"make\"}" } });
    let mut output = result("call_1", &"a line\u{7}\n".repeat(9000));
    (output["toolName"], output["duration"]) = ("shell/exec".into(), 1250.into());
    let said = [
        json!({ "role": "user", "content": "Why does it\nnot build?", "createdAt": 1_763_755_200_000_i64 }),
        json!({ "role": "assistant", "content": null, "tool_calls": [call], "mode": "plan" }),
        output,
        json!({ "role": "tool", "tool_call_id": "call_2", "content": "1\n2\n3\n4\n5\n6\n7\n" }),
        json!({ "role": "assistant", "createdAt": "2025-11-21T20:00:09Z",
            "content": [{ "type": "text", "text": "Because." }, { "type": "image_url" }] }),
    ];
    let input = said.map(|message| message.to_string() + "\n").concat();
    store.ctxfs("log", &["append", "c7", "--advertise", "/ctx"]).stdin(input).stdout();
    store
}

const SHOWN: &str = "\
user  2025-11-21 20:00:00Z
  Why does it
  not build?

assistant  plan
  -> shell/exec  call_1  {\"cmd\":\"make\"}

tool  shell/exec  call_1  1.2s
  artifacts/tool/call_1.txt  72000 bytes
  a line\u{2407}
  a line\u{2407}
  a line\u{2407}
  a line\u{2407}
  a line\u{2407}
  ...

tool  call_2
  1
  2
  3
  4
  5
  ... 2 more lines

assistant  2025-11-21 20:00:09Z
  Because.
  [image_url]
";

#[test]
fn it_prints_a_conversation_as_a_person_reads_it() {
    let store = talked();
    for arguments in [&["c7"][..], &[], &["--no-pager", "c7"]] {
        let said = store.ctxfs("log", arguments).env("CTXFS_CONVERSATION", "c8").stdout();
        assert_eq!(String::from_utf8(said).unwrap(), SHOWN);
    }
    let lines = store.ctxfs("log", &["c7", "--json"]).stdout();
    assert_eq!(lines, fs::read(plain_log(&store)).unwrap());
}

#[test]
fn it_hides_secrets_where_that_is_asked_for() {
    let store = TestStore::new();
    let said = json!({ "role": "user", "content": "DB=\n\"postgres://app:correct-horse@db\"" });
    store.ctxfs("log", &["append", "c7"]).stdin(format!("{said}\n")).stdout();
    let shown = |redact: &str| {
        String::from_utf8(store.ctxfs("log", &[]).env("CTXFS_REDACT", redact).stdout()).unwrap()
    };
    assert_eq!(shown("off"), "user\n  DB=\n  \"postgres://app:correct-horse@db\"\n");
    let masked = shown("views");
    assert!(!masked.contains("horse") && masked.contains("\n  \"postgres://app:["), "{masked}");
}

#[test]
fn it_pages_on_a_terminal() {
    let store = talked();
    let scratch = store.scratch("terminal");
    let program = env!("CARGO_BIN_EXE_ctxfs");
    let line = |before: &str, after: &str| {
        format!("{before} {program} log c7 --store {} {after}; sleep 60", store.path().display())
    };
    let paged = line("PAGER=\"sed 's/^/page: /'\"", "");
    let terminal = Terminal::start(&scratch, &scratch, &paged);
    let screen = terminal.screen_when("the pager shows it", |screen| screen.contains("Because."));
    assert!(screen.contains("page:   Because."), "{screen}");
    drop(terminal);
    let direct = line("PAGER=false", "--no-pager");
    let terminal = Terminal::start(&scratch, &scratch, &direct);
    terminal.screen_when("it is on the screen", |screen| screen.contains("\n  Because."));
}

#[test]
fn append_says_which_line_is_no_message() {
    let store = TestStore::new();
    let append = |input: &str| {
        let output = store.ctxfs("log", &["append", "c7"]).stdin(input).run();
        (output.code, String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(append("").0, 0);
    let (code, said) = append("{\"role\":\"user\"}\n\n{\"role\":\"robot\"}\n{\"role\":\"user\"}\n");
    assert_eq!(code, 1);
    assert!(
        said.contains("line 3") && said.contains("robot") && said.contains("assistant"),
        "{said}"
    );
    assert_eq!(messages(&plain_log(&store)).len(), 1);
    assert_eq!(append("{\"role\":\"user\"}").0, 0);
    assert_eq!(messages(&plain_log(&store)).len(), 2);
    assert_eq!(append("{\"role\":").0, 1);
    assert_eq!(messages(&plain_log(&store)).len(), 2);
}

#[test]
fn without_a_log_it_says_what_to_do() {
    let store = TestStore::new();
    for arguments in [&[][..], &["c7"]] {
        let output = store.ctxfs("log", arguments).run();
        assert_eq!((output.code, output.stdout.len()), (1, 0));
        assert!(!output.stderr.is_empty());
    }
    let output = store.ctxfs("log", &["append"]).run();
    assert_eq!(output.code, 2, "no conversation is named");
    let output = Command::ctxfs().args(["log", "append", "--store"]).arg(store.path());
    output.env("CTXFS_CONVERSATION", "c7").stdin("{\"role\":\"user\"}\n").stdout();
    assert_eq!(messages(&plain_log(&store)).len(), 1);
}
