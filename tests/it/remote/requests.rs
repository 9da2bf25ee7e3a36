//! How many requests each operation makes: exactly so many. `docs/REMOTE.md` and the design of the
//! remote tier promise them, and they cost money.

use std::collections::BTreeMap;

use ctxfs_core::model::FarStore as _;
use ctxfs_store::RemovalOutcome;
use ctxfs_sync::bucket::{Objects as _, RequestCounts};
use ctxfs_sync::remote::Downloads;
use serde_json::Value;

use crate::remote::host::{Host, path};
use crate::remote::proxy::{Kind, Proxy};
use crate::remote::{Pair, noise, outputs};
use crate::support::{Command, TestStore, eventually, while_none_starts};

/// The most bytes of an artifact that goes with its record.
const SMALL: usize = 256 << 10;

/// Two stores that know the bucket behind a proxy. Where one of them has begun, it has read the
/// mark of the bucket and, to push, has tried whether the store refuses to overwrite that.
struct Scene {
    proxy: Proxy,
    one: TestStore,
    other: TestStore,
}

impl Scene {
    fn new() -> Self {
        let scene = Self { proxy: Proxy::start(), one: TestStore::new(), other: TestStore::new() };
        scene.one.put("c7", "first", b"few bytes\n");
        scene.done(scene.one.ctxfs("push", &[]));
        scene.done(scene.other.ctxfs("pull", &[]));
        scene
    }

    fn done(&self, command: Command) {
        self.proxy.environment(command).stdout();
    }

    /// Waits until all outputs of the first store count as complete, and forgets all requests.
    fn settle(&self) {
        settle(&self.proxy, &self.one);
    }

    /// Asserts that since it was last asked there were these requests, and no other.
    #[track_caller]
    fn made(&self, wanted: &[(Kind, usize)]) {
        let seen = self.proxy.seen();
        let mut found = BTreeMap::new();
        for request in &seen {
            *found.entry(request.kind).or_insert(0) += 1;
        }
        let wanted: BTreeMap<Kind, usize> = wanted.iter().copied().collect();
        assert_eq!(found, wanted, "{seen:#?}");
    }
}

/// Waits until all outputs of a store count as complete, and forgets all requests.
pub(super) fn settle(proxy: &Proxy, store: &TestStore) {
    eventually("all is complete", || {
        let status = proxy.environment(store.ctxfs("remote", &["status", "--json"]));
        let status: Value = serde_json::from_slice(&status.stdout()).unwrap();
        let conversations = status["conversations"].as_array().unwrap();
        !conversations.is_empty() && conversations.iter().all(|each| each["live"] == 0)
    });
    drop(proxy.seen());
}

#[test]
fn outputs_of_four_mib_go_with_one_put() {
    let scene = Scene::new();
    for number in 0..16 {
        let name = format!("small-{number}");
        scene.one.put("c7", &name, &noise(&name, 250 << 10));
    }
    scene.settle();
    scene.done(scene.one.ctxfs("push", &[]));
    // Beginning takes a GET and a PUT.
    scene.made(&[(Kind::Get, 1), (Kind::List, 2), (Kind::Put, 1 + 1)]);
    scene.done(scene.one.ctxfs("push", &[]));
    scene.made(&[(Kind::Get, 1), (Kind::Put, 1)]);
}

#[test]
fn a_larger_output_takes_one_for_its_bytes_and_one_for_its_blocks() {
    let scene = Scene::new();
    scene.one.put("c7", "larger", &noise("larger", SMALL + 1));
    scene.settle();
    scene.done(scene.one.ctxfs("push", &[]));
    scene.made(&[(Kind::Get, 1), (Kind::List, 2), (Kind::Put, 1 + 1 + 2)]);
}

#[test]
fn a_large_output_takes_its_parts_and_two_and_one_for_its_blocks() {
    let scene = Scene::new();
    scene.one.put("c7", "large", &noise("large", 20 << 20));
    scene.settle();
    scene.done(scene.one.ctxfs("push", &[]));
    scene.made(&[
        (Kind::Get, 1),
        (Kind::List, 2),
        (Kind::Begin, 1),
        (Kind::Part, 3),
        (Kind::Complete, 1),
        (Kind::Put, 1 + 1 + 1),
    ]);
}

#[test]
fn a_look_is_a_list_and_a_get_for_each_new_segment() {
    let scene = Scene::new();
    for number in 0..3 {
        scene.one.put("c7", &number.to_string(), b"few bytes\n");
        scene.done(scene.one.ctxfs("push", &[]));
    }
    drop(scene.proxy.seen());
    scene.done(scene.other.ctxfs("pull", &["c7"]));
    scene.made(&[(Kind::Get, 1 + 3), (Kind::List, 1)]);
    assert_eq!(outputs(&scene.other).len(), 4);
    scene.done(scene.other.ctxfs("pull", &["c7"]));
    scene.made(&[(Kind::Get, 1), (Kind::List, 1)]);
}

#[test]
fn a_look_at_a_conversation_that_was_never_seen_is_one_list_too() {
    let (scene, third) = (Scene::new(), TestStore::new());
    drop(scene.proxy.seen());
    scene.done(third.ctxfs("pull", &["c7"]));
    scene.made(&[(Kind::Get, 1 + 1), (Kind::List, 1)]);
}

#[test]
fn views_of_what_came_ask_nobody() {
    let scene = Scene::new();
    scene.one.put("c7", "large", &noise("large", SMALL + 1));
    scene.done(scene.one.ctxfs("push", &[]));
    scene.done(scene.other.ctxfs("pull", &[]));
    drop(scene.proxy.seen());
    for name in ["first", "large"] {
        for view in ["summary", "tail", "head"] {
            let view = format!("c7/artifacts/tool/{name}.txt.{view}");
            scene.done(scene.other.ctxfs("view", &[&view]));
        }
    }
    scene.made(&[]);
}

#[test]
fn sixty_four_segments_are_merged_with_one_put() {
    let scene = Scene::new();
    // There is one segment already.
    for number in 1..64 {
        scene.one.put("c7", &number.to_string(), b"few bytes\n");
        if number == 63 {
            scene.settle();
        }
        let push = scene.one.ctxfs("push", &["c7"]);
        scene.done(push.env("CTXFS_REMOTE_SWEEP", "false"));
    }
    // Before the push, after it, before merging, before the merge, after it.
    scene.made(&[(Kind::Get, 1), (Kind::List, 2 + 3), (Kind::Put, 1 + 1 + 1)]);
}

/// Returns the requests of `work`: GET, PUT and LIST.
fn requests(host: &Host, work: impl FnOnce()) -> [u64; 3] {
    let count =
        |counts: RequestCounts| [counts.get.requests, counts.put.requests, counts.list.requests];
    let before = count(host.bucket.requests());
    work();
    let after = count(host.bucket.requests());
    [after[0] - before[0], after[1] - before[1], after[2] - before[2]]
}

/// Returns two hosts, of which the first one has published these outputs.
fn published(pair: &Pair, outputs: &[(&str, &[u8])]) -> [Host; 2] {
    let [one, other] = [(); 2].map(|()| Host::new(&pair.url(), 0));
    for (call, bytes) in outputs {
        one.store.put("c7", call, bytes);
    }
    eventually("all is complete", || one.is_complete());
    let sent = one.sync(|sync| sync.push(&one.conversation)).unwrap();
    assert!(sent.segments.len() == 1 && sent.left.is_empty(), "{sent:?}");
    [one, other]
}

#[test]
fn what_is_elsewhere_costs_what_is_read_of_it() {
    let (pair, small, large) = (Pair::new(), b"few bytes\n", noise("large", 8 << 20));
    let [_one, other] = published(&pair, &[("small", &small[..]), ("large", &large[..])]);
    let heard = requests(&other, || {
        other.sync(|sync| sync.pull(&other.conversation, Downloads::OnRead)).unwrap();
    });
    assert_eq!(heard, [1, 0, 1], "a list, and its segment");
    let far = other.far();
    let read = |name: &str, start: usize, length: usize| {
        let artifact = other.conversation.far(&path(name)).unwrap().unwrap();
        let file = far.open(other.conversation.id(), &artifact.record).unwrap();
        file.content.bytes(start as u64, length).unwrap()
    };
    let few = requests(&other, || assert_eq!(read("tool/small.txt", 0, 100), small));
    assert_eq!(few, [0; 3], "it came with its record");
    let middle = requests(&other, || {
        let start = large.len() / 2;
        assert!(read("tool/large.txt", start, 1000) == large[start..start + 1000]);
    });
    assert_eq!(middle, [2, 0, 0], "the table of its blocks, and a range");
}

#[test]
fn an_eviction_reads_back_an_object_and_its_table() {
    let pair = Pair::new();
    let [one, _other] = published(&pair, &[("large", &noise("large", SMALL + 1)[..])]);
    let asked = requests(&one, || {
        // A process that starts has the file open for a moment.
        let gone = while_none_starts(|| one.evict("tool/large.txt"));
        assert_eq!(gone, RemovalOutcome::Removed);
    });
    assert!(one.is_far("tool/large.txt"));
    assert_eq!(asked, [2, 0, 0], "without the table nobody could read a part of it");
}
