//! `.summary`, `.tail` and `.head` of what is elsewhere cost a request at most, whatever the output
//! is, and say what they say where it was written.

use ctxfs_store::RemovalOutcome;

use crate::remote::host::{Host, path};
use crate::remote::proxy::{Kind, Proxy};
use crate::remote::requests::settle;
use crate::remote::{Pair, noise};
use crate::support::{Command, TestStore, eventually, while_none_starts};

const VIEWS: [&str; 3] = ["summary", "tail", "head"];

/// An output: its name and its bytes.
type Output = (&'static str, Vec<u8>);

/// Two stores that share a bucket behind a proxy.
struct Scene {
    proxy: Proxy,
    one: TestStore,
    other: TestStore,
    /// The setting by which secrets are masked.
    redact: &'static str,
    /// The artifacts.
    names: Vec<String>,
}

impl Scene {
    /// Returns two stores, of which the second knows that the first has these outputs, and nothing
    /// of their bytes but what came with their records.
    fn new(outputs: &[Output], redact: &'static str) -> Self {
        let (one, other) = (TestStore::new(), TestStore::new());
        let names = outputs.iter().map(|(name, bytes)| one.put("c7", name, bytes)).collect();
        let scene = Self { proxy: Proxy::start(), one, other, redact, names };
        // To know the conversation, status needs a bucket that was begun.
        scene.run(scene.one.ctxfs("push", &[]));
        settle(&scene.proxy, &scene.one);
        scene.run(scene.one.ctxfs("push", &[]));
        scene.run(scene.other.ctxfs("ls", &["c7"]));
        scene
    }

    fn run(&self, command: Command) -> Vec<u8> {
        let command = self.proxy.environment(command).limit(300);
        // Without a mount, texts name a command with the store of their host.
        command.env("CTXFS_REDACT", self.redact).env("CTXFS_ADVERTISE", "/ctx").stdout()
    }

    /// Asserts that each view of an output costs at most a request, and that both hosts show the
    /// same.
    #[track_caller]
    fn check(&self, artifact: &str) {
        for view in VIEWS {
            let path = format!("c7/artifacts/tool/{artifact}.{view}");
            drop(self.proxy.seen());
            let there = self.run(self.other.ctxfs("view", &[&path]));
            let seen = self.proxy.seen();
            let is_one = seen.is_empty() || (seen.len() == 1 && seen[0].kind == Kind::Get);
            assert!(is_one, "{path}: {seen:#?}");
            let here = self.run(self.one.ctxfs("view", &[&path]));
            let [there, here] = [there, here].map(|text| String::from_utf8(text).unwrap());
            assert_eq!(there, here, "{path}");
        }
    }
}

/// Returns lines until they have `size` bytes.
fn lines(size: usize, line: impl Fn(usize) -> String) -> Vec<u8> {
    let mut text = String::new();
    for number in 0.. {
        if text.len() >= size {
            break;
        }
        text.push_str(&line(number));
        text.push('\n');
    }
    text.into_bytes()
}

/// Returns the word of a number: letters alone, so that lines with other words are not alike.
fn word(number: usize) -> String {
    let digits = number.to_string();
    digits.bytes().map(|digit| char::from(digit - b'0' + b'a')).collect()
}

fn entry(number: usize) -> String {
    format!("10:00:01 worker {} handled request {number} in {} ms", number % 7, number % 41)
}

/// A log in which each 400th line is an error, of many kinds.
fn erring(number: usize) -> String {
    match number % 400 {
        399 => format!("ERROR {}: cannot open the door {}", word(number % 97), word(number)),
        _ => entry(number),
    }
}

/// The same with colours, which in some lines come after text.
fn coloured(number: usize) -> String {
    let line = erring(number);
    let (start, end) = line.split_at(line.len() / 2);
    format!("\u{1b}[3{}m{start}\u{1b}[1m{end}\u{1b}[0m", number % 8)
}

fn row(number: usize) -> String {
    match number {
        0 => "id,state,value".to_owned(),
        _ => format!("{number},state-{},{}", number % 5, number * 7),
    }
}

/// Returns an output of each kind.
fn outputs(size: usize) -> Vec<Output> {
    let items = |between: &str| {
        let item =
            |number: usize| format!("{{\"id\":{number},\"level\":\"info\",\"text\":\"a b\"}}");
        let count = size / item(100_000).len();
        let items: Vec<String> = (0..count).map(item).collect();
        format!("[{}]", items.join(between)).into_bytes()
    };
    let middle = &b"\nTraceback (most recent call last):\nValueError: 17 is no port\n"[..];
    let half = lines(size / 2, entry);
    let json = |number: usize| match number % 500 {
        499 => {
            format!("{{\"id\":{number},\"level\":\"error\",\"message\":\"no {}\"}}", word(number))
        }
        _ => format!("{{\"id\":{number},\"level\":\"info\",\"message\":\"ok\"}}"),
    };
    vec![
        ("plain", lines(size, entry)),
        ("error", [&half[..], middle, &half[..]].concat()),
        ("errors", lines(size, erring)),
        ("coloured", lines(size, coloured)),
        ("json", items(",\n")),
        ("json-lines", lines(size, json)),
        ("csv", lines(size, row)),
        ("one-line", items(",")),
        ("binary", noise("binary", size)),
    ]
}

#[track_caller]
fn check_all(size: usize, redact: &'static str) {
    let scene = Scene::new(&outputs(size), redact);
    for artifact in &scene.names {
        scene.check(artifact);
    }
}

#[test]
fn of_300_kib() {
    check_all(300 << 10, "off");
}

#[test]
fn of_600_kib() {
    check_all(600 << 10, "off");
}

#[test]
fn of_4_mib() {
    check_all(4 << 20, "off");
}

#[test]
fn of_17_mib() {
    check_all(17 << 20, "off");
}

#[test]
fn of_what_is_shown_with_masks() {
    check_all(300 << 10, "views");
    check_all(600 << 10, "views");
}

#[test]
fn the_record_of_what_a_host_let_go_of_says_as_much() {
    let pair = Pair::new();
    let host = Host::new(&pair.url(), 0);
    let name = host.store.put("c7", "coloured", &lines(4 << 20, coloured));
    let name = format!("tool/{name}");
    eventually("it is complete", || host.is_complete());
    host.sync(|sync| sync.push(&host.conversation)).unwrap();
    // A process that starts has the file open for a moment.
    assert_eq!(while_none_starts(|| host.evict(&name)), RemovalOutcome::Removed);
    let record = host.conversation.far(&path(&name)).unwrap().unwrap().record;
    let shortcuts = record.analysis.unwrap().shortcuts.unwrap();
    assert!(!shortcuts.tried.is_empty() && !shortcuts.places.is_empty(), "{shortcuts:?}");
}
