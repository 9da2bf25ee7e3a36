//! `ctxfs shell`, killed between any two of its calls, and of those of its command.

use std::fmt::Write as _;

use crate::crash::chosen_of;
use crate::crash::sound::sound;
use crate::crash::stops::{calls_by_thread, each_once, traced, was_killed};
use crate::support::TestStore;

const CODE: i32 = 3;
const SAMPLE: usize = 40;

/// The host sees the signal, or all that the command printed, with its status.
#[test]
fn a_host_sees_the_signal_or_the_result() {
    let whole = (1..=1500).fold(String::new(), |mut text, number| {
        let _ = writeln!(text, "{number}");
        text
    });
    let script = format!("seq 700; echo 701; seq 702 1500; exit {CODE}");
    let run = |options: &[String]| {
        let store = TestStore::new();
        let trace = store.scratch("trace").join("trace");
        let root = store.path().display().to_string();
        let words = ["--store", &root, "shell", "-c", "c7", "--", "sh", "-c", &script];
        let output = traced(options, &trace, &words.map(str::to_owned)).run();
        (store, trace, output)
    };
    let (store, trace, output) = run(&[]);
    assert_eq!((output.code, &*output.stdout), (CODE, whole.as_bytes()), "{output}");
    let mut stopped = 0;
    for call in chosen_of(each_once(calls_by_thread(&trace)), SAMPLE) {
        let (store, _, output) = run(&call.options());
        if was_killed(&output) {
            stopped += 1;
            assert!(whole.as_bytes().starts_with(&output.stdout), "{call}: {output}");
        } else {
            assert_eq!(
                (output.code, &*output.stdout),
                (CODE, whole.as_bytes()),
                "{call}: {output}"
            );
        }
        if store.path().join("VERSION").exists() {
            sound(&store);
        }
    }
    assert!(stopped >= 5, "stopped {stopped} times");
    sound(&store);
}
