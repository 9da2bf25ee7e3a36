//! Bad weather between host and store: slow, cut and lost answers, refusals, wrong bytes, lists
//! without an end.

use std::process::Stdio;
use std::time::Duration;

use crate::remote::proxy::{Kind, Proxy, Seen, Weather};
use crate::remote::{assert_told, large, noise, outputs};
use crate::support::{Output, TestStore, eventually};

/// All requests that a test makes.
const ALWAYS: usize = usize::MAX;

/// Two stores, and a bucket behind the proxy.
struct Scene {
    proxy: Proxy,
    one: TestStore,
    other: TestStore,
}

impl Scene {
    fn new() -> Self {
        Self { proxy: Proxy::start(), one: TestStore::new(), other: TestStore::new() }
    }

    fn run(&self, store: &TestStore, command: &str, arguments: &[&str]) -> Output {
        self.proxy.environment(store.ctxfs(command, arguments)).run()
    }

    #[track_caller]
    fn done(&self, store: &TestStore, command: &str, arguments: &[&str]) {
        let output = self.run(store, command, arguments);
        assert_eq!(output.code, 0, "{command}: {output}");
    }

    /// What the other store has is of the first one, whole and with the same bytes.
    #[track_caller]
    fn nothing_is_wrong(&self) {
        let here = outputs(&self.one);
        let there = outputs(&self.other).into_iter();
        for (name, bytes) in there.filter(|(name, _)| !name.starts_with('.')) {
            assert!(here.get(&name) == Some(&bytes), "{name}: {} bytes", bytes.len());
        }
    }

    /// Both stores come to the same state, and the bucket is whole.
    #[track_caller]
    fn goes_on(&self) {
        self.done(&self.one, "push", &[]);
        self.done(&self.other, "pull", &[]);
        assert_eq!(outputs(&self.other), outputs(&self.one));
        self.done(&self.other, "remote", &["check", "--read"]);
    }
}

/// Returns true for requests of this kind whose key ends so.
fn of(kind: Kind, end: &'static str) -> impl Fn(&Seen) -> bool + Send {
    move |seen| seen.kind == kind && seen.key.ends_with(end)
}

#[test]
fn what_time_mends_is_asked_for_again() {
    let scene = Scene::new();
    scene.one.put("c7", "first", b"few bytes\n");
    scene.goes_on();
    let weathers = [
        Weather::Status(503),
        Weather::Late(Duration::from_millis(200)),
        Weather::CutRequest(200),
        Weather::CutRequest(20_000),
        Weather::CutAnswer(0),
        Weather::CutAnswer(40),
        Weather::HalfBody,
    ];
    for (number, weather) in weathers.into_iter().enumerate() {
        scene.one.put("c7", &format!("small-{number}"), format!("{weather:?}\n").as_bytes());
        scene.one.put("c7", &format!("large-{number}"), &large(&number.to_string()));
        for kind in [Kind::Put, Kind::Get] {
            // The key of an object ends like that of a segment: the first that fits counts.
            for end in [".tar.zst", ".zst", ".blocks"] {
                scene.proxy.make(1, of(kind, end), weather);
            }
        }
        scene.proxy.make(1, of(Kind::List, "/log/"), weather);
        scene.done(&scene.one, "push", &[]);
        scene.done(&scene.other, "pull", &[]);
        assert_eq!(scene.proxy.clear(), 0, "{weather:?} was not met");
        assert_eq!(outputs(&scene.other), outputs(&scene.one), "{weather:?}");
    }
    scene.done(&scene.other, "remote", &["check", "--read"]);
}

#[test]
fn parts_that_are_lost_are_sent_again() {
    let scene = Scene::new();
    let weathers = [Weather::Status(503), Weather::CutRequest(200), Weather::CutAnswer(0)];
    for (number, weather) in weathers.into_iter().enumerate() {
        let name = format!("parts-{number}");
        scene.one.put("c7", &name, &noise(&name, 9 << 20));
        for kind in [Kind::Begin, Kind::Part, Kind::Complete] {
            scene.proxy.make(1, of(kind, ".zst"), weather);
        }
        scene.done(&scene.one, "push", &[]);
        assert_eq!(scene.proxy.clear(), 0, "{weather:?} was not met");
    }
    scene.goes_on();
}

#[test]
fn wrong_bytes_of_an_object_are_never_shown() {
    let scene = Scene::new();
    scene.one.put("c7", "large", &noise("large", 600_000));
    scene.done(&scene.one, "push", &[]);
    for end in [".zst", ".blocks"] {
        let is_it = move |seen: &Seen| seen.key.contains("/objects/") && of(Kind::Get, end)(seen);
        scene.proxy.make(ALWAYS, is_it, Weather::WrongByte);
        let pulled = scene.run(&scene.other, "pull", &[]);
        assert_eq!(pulled.code, 1, "{end}: {pulled}");
        scene.nothing_is_wrong();
        assert!(!outputs(&scene.other).contains_key("large.txt"), "{end}");
        let checked = scene.run(&scene.other, "remote", &["check", "--read"]);
        assert_told(&checked, 1, "c7/artifacts/tool/large.txt");
        scene.proxy.clear();
    }
    scene.goes_on();
}

#[test]
fn half_an_object_is_asked_for_again() {
    let scene = Scene::new();
    scene.one.put("c7", "large", &noise("large", 600_000));
    scene.done(&scene.one, "push", &[]);
    for end in [".zst", ".blocks"] {
        let is_it = move |seen: &Seen| seen.key.contains("/objects/") && of(Kind::Get, end)(seen);
        scene.proxy.make(1, is_it, Weather::Short);
    }
    scene.done(&scene.other, "pull", &[]);
    assert_eq!(scene.proxy.clear(), 0);
    scene.goes_on();
}

#[test]
fn a_segment_that_came_wrong_is_asked_for_again() {
    for weather in [Weather::WrongByte, Weather::Short] {
        let scene = Scene::new();
        // Most of the segment is bytes of this one.
        scene.one.put("c7", "small", &noise("small", 100_000));
        scene.done(&scene.one, "push", &[]);
        scene.proxy.make(1, of(Kind::Get, ".tar.zst"), weather);
        let pulled = scene.run(&scene.other, "pull", &[]);
        assert!(matches!(pulled.code, 0 | 1), "{weather:?}: {pulled}");
        scene.nothing_is_wrong();
        assert_eq!(scene.proxy.clear(), 0);
        scene.goes_on();
    }
}

#[test]
fn a_store_that_says_slow_down_holds_up_no_local_work() {
    let scene = Scene::new();
    scene.one.put("c7", "x", b"text\n");
    scene.proxy.make(ALWAYS, |_| true, Weather::Status(503));
    let push = scene.proxy.environment(scene.one.ctxfs("push", &["--quiet"]));
    let mut pushing = push
        .with(|inner| {
            inner.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        })
        .spawn();
    let mut asked = 0;
    eventually("it asks again", || {
        asked += scene.proxy.seen().len();
        asked > 1
    });
    scene.one.put("c7", "y", b"more\n");
    assert_eq!(scene.one.view("c7/artifacts/tool/y.txt"), b"more\n");
    scene.one.ctxfs("ls", &["c7"]).stdout();
    assert!(pushing.try_wait().unwrap().is_none(), "it waits for the store");
    scene.proxy.clear();
    pushing.wait().unwrap();
    scene.goes_on();
}

#[test]
fn a_bucket_that_is_not_there_is_told() {
    let scene = Scene::new();
    scene.one.put("c7", "x", b"text\n");
    scene.proxy.make(ALWAYS, |_| true, Weather::Status(404));
    for command in ["push", "pull"] {
        assert_told(&scene.run(&scene.one, command, &[]), 1, "there is no such bucket");
    }
    let put = scene.one.ctxfs("put", &["-c", "c7", "--call", "y", "--durable"]).stdin("more\n");
    assert_told(&scene.proxy.environment(put).run(), 1, "safe here only");
    assert_eq!(outputs(&scene.one)["y.txt"], b"more\n");
    scene.proxy.clear();
    scene.goes_on();
}

#[test]
fn keys_for_one_conversation_work_for_that_one() {
    let scene = Scene::new();
    scene.one.put("c7", "x", b"text\n");
    scene.one.put("c8", "x", b"text\n");
    let is_beyond =
        |seen: &Seen| seen.key != "ctxfs.json" && !seen.key.starts_with("conversations/c7/");
    scene.proxy.make(ALWAYS, is_beyond, Weather::Status(403));
    let pushed = scene.run(&scene.one, "push", &[]);
    assert_told(&pushed, 1, "c7: sent");
    let told = pushed.to_string().matches("refuses").count();
    assert_eq!(told, 1, "it is told once: {pushed}");
    scene.one.put("c7", "y", b"more\n");
    scene.done(&scene.one, "push", &["c7"]);
    assert_told(&scene.run(&scene.other, "pull", &[]), 1, "refuses");
    scene.done(&scene.other, "pull", &["c7"]);
    assert_eq!(outputs(&scene.other), outputs(&scene.one));
    scene.proxy.clear();
    scene.done(&scene.one, "push", &[]);
    scene.goes_on();
}

#[test]
fn a_list_without_an_end_is_ended() {
    let scene = Scene::new();
    scene.one.put("c7", "x", b"text\n");
    scene.proxy.make(ALWAYS, of(Kind::List, "/log/"), Weather::Endless(100_000));
    assert_told(&scene.run(&scene.one, "push", &[]), 1, "more than 1000000 objects");
    assert_eq!(outputs(&scene.one).len(), 1);
    scene.proxy.clear();
    scene.goes_on();
}

#[test]
fn a_store_that_refuses_checksums_is_used_without() {
    let scene = Scene::new();
    scene.one.put("c7", "x", b"text\n");
    scene.proxy.make(ALWAYS, |seen| seen.has_checksum, Weather::Status(400));
    scene.goes_on();
    scene.one.put("c7", "y", &noise("y", 9 << 20));
    scene.goes_on();
    scene.done(&scene.one, "remote", &["gc"]);
}

#[test]
fn the_page_of_a_captive_portal_is_told() {
    let scene = Scene::new();
    scene.one.put("c7", "x", b"text\n");
    scene.proxy.make(ALWAYS, |_| true, Weather::Page);
    for command in ["push", "pull"] {
        assert_told(&scene.run(&scene.one, command, &[]), 1, "captive portal");
    }
    scene.proxy.clear();
    scene.goes_on();
}
