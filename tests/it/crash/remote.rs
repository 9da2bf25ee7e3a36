//! What uses a bucket, killed between any two of its calls: the bucket and the stores show what was
//! before or what is after, and the next run ends it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::{env, fs};

use ctxfs_store::RemovalOutcome;

use crate::crash::case::{Case, Ground};
use crate::crash::stops::{calls_by_thread, each_once, traced_program, was_killed};
use crate::crash::{SAMPLE, chosen_of};
use crate::remote::host::{Host, Sharing};
use crate::remote::{ending, files, noise, outputs};
use crate::support::{Command, Output, TestStore, eventually};

/// The bytes of an output that has an object of its own.
const LARGE: usize = 300_000;
/// Segments that are merged.
const SEGMENTS: usize = 64;
/// The store of the host that is to evict, for the process that does.
const EVICT: &str = "CTXFS_TEST_EVICT";

/// What a host sees of `c7`: outputs, by name, and messages.
type Seen = (BTreeMap<String, Vec<u8>>, String);

fn few(name: &str) -> Vec<u8> {
    format!("few bytes of {name}\n").into_bytes()
}

fn message(number: usize) -> String {
    format!("{{\"role\":\"user\",\"content\":\"message {number}\"}}\n")
}

/// Returns the output of a call. The one named `large` is.
fn output(call: &str) -> Vec<u8> {
    if call == "large" { noise(call, LARGE) } else { few(call) }
}

/// Returns the outputs of these calls, by name.
fn named(calls: &[&str]) -> BTreeMap<String, Vec<u8>> {
    calls.iter().map(|call| (format!("{call}.txt"), output(call))).collect()
}

fn put(store: &TestStore, calls: &[&str]) {
    for call in calls {
        store.put("c7", call, &output(call));
    }
}

fn say(store: &TestStore, number: usize) {
    let log = store.path().join("context/c7/history/messages.jsonl");
    let mut log = File::options().append(true).create(true).open(log).unwrap();
    log.write_all(message(number).as_bytes()).unwrap();
}

fn ctxfs(ground: &Ground, store: &TestStore, command: &str, arguments: &[&str]) -> Output {
    ground.with_bucket(store.ctxfs(command, arguments)).run()
}

#[track_caller]
fn done(ground: &Ground, store: &TestStore, command: &str, arguments: &[&str]) {
    let output = ctxfs(ground, store, command, arguments);
    assert_eq!(output.code, 0, "{command}: {output}");
}

/// Returns what a host sees that was never there before.
fn elsewhere(ground: &Ground) -> Seen {
    let other = TestStore::new();
    done(ground, &other, "pull", &["c7"]);
    let log = other.ctxfs("log", &["c7", "--json"]).run().stdout;
    (outputs(&other), String::from_utf8(log).unwrap())
}

/// All that the bucket names is there, and the store has nothing that is half done. The bytes of a
/// segment of which nothing says any more that it is to be sent go with the next one.
fn nothing_is_left(ground: &Ground) {
    done(ground, &ground.store, "remote", &["check", "--read"]);
    let is_left = |name: &str| {
        name.rsplit_once('.').is_some_and(|(_, end)| end == "new") || name == "intent.json"
    };
    let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
    let kept = files(&ground.store.path().join("remote")).into_iter();
    let left: Vec<_> = kept.filter(|path| is_left(&name(path))).collect();
    assert!(left.is_empty(), "{left:?}");
    let scratch = outputs(&ground.store).into_keys().filter(|name| name.starts_with('.'));
    assert_eq!(scratch.count(), 0);
}

/// What the bucket says before and after the push.
fn before() -> Seen {
    (named(&["kept", "moved", "old"]), String::new())
}

fn after() -> Seen {
    let mut outputs = named(&["kept", "large", "new"]);
    outputs.insert("renamed.txt".to_owned(), few("moved"));
    (outputs, message(1))
}

#[test]
fn push() {
    let prepare = |ground: &Ground| {
        let store = &ground.store;
        put(store, &["kept", "moved", "old"]);
        done(ground, store, "push", &[]);
        fs::rename(store.plain("c7", "moved.txt"), store.plain("c7", "renamed.txt")).unwrap();
        fs::remove_file(store.plain("c7", "old.txt")).unwrap();
        put(store, &["large", "new"]);
        say(store, 1);
    };
    // One segment says all of it.
    let check = |ground: &Ground| {
        let seen = elsewhere(ground);
        assert!(seen == before() || seen == after(), "{:?}", seen.0.keys());
    };
    let again = |ground: &Ground, output: &Output| {
        assert_eq!(output.code, 0, "{output}");
        assert_eq!(outputs(&ground.store), after().0);
        assert!(elsewhere(ground) == after());
        nothing_is_left(ground);
    };
    Case { prepare, command: &["push"], input: Vec::new, check, again }.run_with_threads();
}

#[test]
fn pull() {
    let prepare = |ground: &Ground| {
        let other = TestStore::new();
        put(&other, &["large", "small"]);
        say(&other, 1);
        done(ground, &other, "push", &[]);
    };
    let check = |ground: &Ground| {
        let (here, there) = (outputs(&ground.store), named(&["large", "small"]));
        let mut seen = here.iter().filter(|(name, _)| !name.starts_with('.'));
        assert!(seen.all(|(name, bytes)| there.get(name) == Some(bytes)));
    };
    let again = |ground: &Ground, output: &Output| {
        assert_eq!(output.code, 0, "{output}");
        assert_eq!(outputs(&ground.store), named(&["large", "small"]));
        nothing_is_left(ground);
        let pushed = ctxfs(ground, &ground.store, "push", &[]).to_string();
        assert!(pushed.contains("everything already"), "what came is nothing new: {pushed}");
    };
    Case { prepare, command: &["pull"], input: Vec::new, check, again }.run_with_threads();
}

/// Has another host publish many segments, and an artifact that it removes. The store knows all of
/// them.
fn many_segments(ground: &Ground) {
    let host = Host::new(&ground.bucket(), 0);
    let push = || {
        eventually("all is complete", || host.is_complete());
        let sent = host.sync(|sync| sync.push(&host.conversation)).unwrap();
        assert_eq!(sent.segments.len(), 1, "{sent:?}");
    };
    put(&host.store, &["kept", "large"]);
    push();
    fs::remove_file(host.at("tool/large.txt")).unwrap();
    for number in 0..SEGMENTS - 1 {
        say(&host.store, number);
        push();
    }
    done(ground, &ground.store, "pull", &["c7"]);
}

/// What many segments say.
fn all_is_there(ground: &Ground) {
    let messages: Vec<String> = (0..SEGMENTS - 1).map(message).collect();
    assert!(elsewhere(ground) == (named(&["kept"]), messages.concat()));
}

fn segments(ground: &Ground) -> usize {
    ending(&ground.beside, ".tar.zst").len()
}

#[test]
fn merge() {
    let again = |ground: &Ground, output: &Output| {
        assert_eq!(output.code, 0, "{output}");
        assert_eq!(segments(ground), SEGMENTS + 1, "one merge, and what it covers");
        all_is_there(ground);
        nothing_is_left(ground);
    };
    let command = &["remote", "gc"];
    let (prepare, check) = (many_segments, all_is_there);
    Case { prepare, command, input: Vec::new, check, again }.run_with_threads();
}

#[test]
fn collection() {
    let prepare = |ground: &Ground| {
        many_segments(ground);
        done(ground, &ground.store, "remote", &["gc"]);
        let old = "find \"$1\" -type f -exec touch -d '10 days ago' {} +";
        Command::shell(old, &[&ground.beside.join("bucket")]).stdout();
    };
    let again = |ground: &Ground, output: &Output| {
        assert_eq!(output.code, 0, "{output}");
        assert_eq!(segments(ground), 1, "what was merged is gone");
        assert!(ending(&ground.beside, ".blocks").is_empty(), "so is what nobody names");
        all_is_there(ground);
        nothing_is_left(ground);
    };
    let command = &["remote", "gc"];
    Case { prepare, command, input: Vec::new, check: all_is_there, again }.run_with_threads();
}

/// Evicts, if it is told to: a process of `eviction` runs this alone.
#[test]
fn evict_when_told() {
    if let (Some(store), Ok(url)) = (env::var_os(EVICT), env::var("CTXFS_REMOTE_URL")) {
        let host = Sharing::new(Path::new(&store), &url, 0);
        for name in ["tool/small.txt", "tool/large.txt"] {
            if !host.is_far(name) {
                assert_eq!(host.evict(name), RemovalOutcome::Removed);
            }
        }
    }
}

fn evicting(ground: &Ground, options: &[String], trace: &Path) -> Output {
    let test = ["crash::remote::evict_when_told", "--exact", "--test-threads", "1"];
    let program = env::current_exe().unwrap();
    let run = traced_program(program, options, trace, &test.map(str::to_owned));
    ground.with_bucket(run.env(EVICT, ground.store.path())).run()
}

/// Returns a store whose outputs the bucket has.
fn published() -> Ground {
    let ground = Ground::new();
    put(&ground.store, &["large", "small"]);
    done(&ground, &ground.store, "push", &[]);
    ground
}

#[test]
fn eviction() {
    let (whole, traces) = (published(), tempfile::tempdir().unwrap());
    let trace = traces.path().join("trace");
    let output = evicting(&whole, &[], &trace);
    assert_eq!(output.code, 0, "{output}");
    assert!(outputs(&whole.store).is_empty(), "both are evicted");
    let mut stopped = 0;
    for call in chosen_of(each_once(calls_by_thread(&trace)), SAMPLE / 3) {
        println!("stopped before {call}");
        let ground = published();
        stopped += usize::from(was_killed(&evicting(&ground, &call.options(), &trace)));
        assert!(elsewhere(&ground).0 == named(&["large", "small"]), "{call}");
        let here = outputs(&ground.store);
        assert!(here.iter().all(|(name, bytes)| named(&["large", "small"])[name] == *bytes));
        let output = evicting(&ground, &[], &trace.with_extension("again"));
        assert_eq!(output.code, 0, "{call}: {output}");
        assert!(outputs(&ground.store).is_empty(), "{call}");
        nothing_is_left(&ground);
        let pushed = ctxfs(&ground, &ground.store, "push", &[]).to_string();
        assert!(pushed.contains("everything already"), "nothing was removed: {pushed}");
        assert!(elsewhere(&ground).0 == named(&["large", "small"]), "{call}");
    }
    assert!(stopped >= 5, "stopped {stopped} times");
}
