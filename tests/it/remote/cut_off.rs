//! Pushes and pulls that are killed.

use std::thread;
use std::time::Duration;

use crate::remote::{Pair, large, outputs};
use crate::support::Command;

/// The pauses after which a process is killed, in milliseconds: from before it has begun to after
/// it has ended.
const PAUSES: [u64; 8] = [2, 5, 10, 20, 40, 80, 160, 320];

fn kill_after(command: Command, pause: u64) {
    let command = command.with(|command| {
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    });
    let mut child = command.spawn();
    thread::sleep(Duration::from_millis(pause));
    child.kill().ok();
    child.wait().unwrap();
}

#[test]
fn a_push_that_is_killed_loses_nothing_and_shows_nothing_half() {
    let pair = Pair::new();
    pair.one.put("c7", "first", b"few bytes\n");
    pair.push(&pair.one);
    for (number, pause) in PAUSES.into_iter().enumerate() {
        pair.one.put("c7", &format!("small-{number}"), b"few bytes\n");
        pair.one.put("c7", &format!("large-{number}"), &large(&number.to_string()));
        kill_after(pair.ctxfs(&pair.one, "push", &["--quiet"]), pause);
        pair.pull(&pair.other);
        let (there, here) = (outputs(&pair.other), outputs(&pair.one));
        assert!(there.iter().all(|(name, bytes)| here.get(name) == Some(bytes)));
    }
    pair.push(&pair.one);
    pair.pull(&pair.other);
    assert_eq!(outputs(&pair.other), outputs(&pair.one));
    pair.ctxfs(&pair.other, "remote", &["check", "--read"]).stdout();
}

#[test]
fn a_pull_that_is_killed_goes_on() {
    let pair = Pair::new();
    for number in 0..8 {
        pair.one.put("c7", &format!("large-{number}"), &large(&number.to_string()));
    }
    pair.push(&pair.one);
    let here = outputs(&pair.one);
    for pause in PAUSES {
        kill_after(pair.ctxfs(&pair.other, "pull", &["--quiet"]), pause);
        let there = outputs(&pair.other);
        let mut seen = there.iter().filter(|(name, _)| !name.starts_with('.'));
        assert!(seen.all(|(name, bytes)| here.get(name) == Some(bytes)));
    }
    pair.pull(&pair.other);
    assert_eq!(outputs(&pair.other), here);
    pair.push(&pair.other);
    pair.pull(&pair.one);
    assert_eq!(outputs(&pair.one), here, "what came is nothing new");
}
