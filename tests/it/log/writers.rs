//! Several processes that append to one log: two mounts of a store, and `ctxfs log append`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::thread;

use super::{log_in, messages, plain_log, result};
use crate::support::{Command, Mode, TestMount, TestStore};

/// Messages of each writer.
const EACH: u64 = 30;
/// Appends standard input to `$1`, a line at a time.
const SHELL: &str = "while IFS= read -r line; do printf '%s\\n' \"$line\" >> \"$1\"; done";

/// Returns the messages of one writer: short ones, long ones, and outputs for artifacts.
fn script(who: u64) -> String {
    let mut text = String::new();
    for number in 0..EACH {
        let mut message = match number % 10 {
            3 => result(&format!("call-{who}-{number}"), &format!("{number}\n").repeat(30_000)),
            7 => serde_json::json!({ "role": "assistant", "content": "x".repeat(150_000) }),
            _ => serde_json::json!({ "role": "user", "content": "short" }),
        };
        (message["who"], message["number"]) = (who.into(), number.into());
        let _ = writeln!(text, "{message}");
    }
    text
}

#[test]
fn no_two_of_them_interleave() {
    for modes in [[Mode::Passthrough, Mode::Cached], [Mode::Cached, Mode::Passthrough]] {
        let store = Arc::new(TestStore::new());
        let mounts = modes.map(|mode| TestMount::of(&store, mode, &["--advertise", "/ctx"]));
        mounts[0].tool("c7");
        let mut writers = Vec::new();
        for who in 0..6 {
            let (store, input) = (Arc::clone(&store), script(who));
            let log = log_in(mounts[who as usize % 2].path());
            writers.push(thread::spawn(move || {
                let command = if who < 4 {
                    Command::shell(SHELL, &[&log])
                } else {
                    store.ctxfs("log", &["append", "c7", "--advertise", "/ctx"])
                };
                command.stdin(input).stdout();
            }));
        }
        for writer in writers {
            writer.join().unwrap();
        }
        let all = messages(&plain_log(&store));
        assert!(all == messages(&log_in(mounts[0].path())));
        let mut seen = BTreeMap::<u64, Vec<u64>>::new();
        for message in &all {
            let number = message["number"].as_u64().unwrap();
            seen.entry(message["who"].as_u64().unwrap()).or_default().push(number);
            if number % 10 == 3 {
                let path = message["fullOutputPath"].as_str().unwrap();
                let name = path.strip_prefix("/ctx/c7/artifacts/tool/").unwrap();
                let output = std::fs::read_to_string(store.plain("c7", name)).unwrap();
                assert_eq!(output, format!("{number}\n").repeat(30_000), "{modes:?}");
            }
        }
        assert_eq!(seen.len(), 6);
        for (who, numbers) in seen {
            assert_eq!(numbers, (0..EACH).collect::<Vec<_>>(), "{who}, {modes:?}");
        }
    }
}

/// Several writers append the message of one call: its output is stored once.
#[test]
fn one_output_told_by_many_is_one_artifact() {
    let store = Arc::new(TestStore::new());
    let input = format!("{}\n", result("call_1", &"output\n".repeat(50_000)));
    let writers: Vec<_> = (0..6)
        .map(|_| {
            let (store, input) = (Arc::clone(&store), input.clone());
            thread::spawn(move || {
                store.ctxfs("log", &["append", "c7", "--advertise", "/ctx"]).stdin(input).stdout()
            })
        })
        .collect();
    for writer in writers {
        writer.join().unwrap();
    }
    let all = messages(&plain_log(&store));
    assert_eq!(all.len(), 6);
    assert!(all.iter().all(|message| *message == all[0]), "{all:?}");
    assert_eq!(crate::support::listing(&store.plain("c7", "")), ["call_1.txt"]);
}
