//! Gateways of a store that hosts share, without a mount.

use tempfile::TempDir;

use super::*;
use crate::remote::ending;
use crate::support::eventually;

struct Bucket {
    dir: TempDir,
    url: String,
}

impl Bucket {
    fn new() -> Self {
        let dir = TempDir::with_prefix("ctxfs-bucket-").unwrap();
        let url = format!("file://{}/bucket", dir.path().display());
        Self { dir, url }
    }

    /// Starts a gateway that sends within so long.
    fn gateway(&self, store: &Arc<TestStore>, every: &str, push: &str) -> Gateway {
        let environment = [
            ("CTXFS_REMOTE_URL", &*self.url),
            ("CTXFS_REMOTE_EVERY", every),
            ("CTXFS_REMOTE_PUSH", push),
        ];
        let mut gateway = Gateway::start(store, &[], &server(), &environment);
        gateway.shake_hands("2025-11-25");
        gateway
    }

    fn has_segments(&self) -> bool {
        !ending(self.dir.path(), ".tar.zst").is_empty()
    }

    /// Returns the bytes of an output that another host finds, if it finds it.
    fn elsewhere(&self, store: &TestStore, name: &str) -> Option<Vec<u8>> {
        let path = format!("c7/artifacts/tool/{name}");
        let view = store.ctxfs("view", &[&path]).env("CTXFS_REMOTE_URL", &self.url).run();
        (view.code == 0).then_some(view.stdout)
    }
}

fn store_one(gateway: &mut Gateway, call: &str) {
    gateway.call_as(call, "text", &json!({"line": "row\n", "counts": [3000]}));
}

#[test]
fn what_a_gateway_stores_is_sent_while_it_serves() {
    let (bucket, store) = (Bucket::new(), Arc::new(TestStore::new()));
    // Both are of one store, and take turns.
    let mut gateways = [(); 2].map(|()| bucket.gateway(&store, "1s", "sealed"));
    let other = TestStore::new();
    for (number, call) in [(0, "a"), (1, "b"), (0, "c")] {
        store_one(&mut gateways[number], call);
        let name = format!("{call}.txt");
        let arrived = || bucket.elsewhere(&other, &name) == Some("row\n".repeat(3000).into());
        eventually("another host has it", arrived);
    }
    for gateway in gateways {
        assert_eq!(gateway.end(), 0);
    }
}

#[test]
fn what_a_gateway_stored_last_is_sent_before_its_end() {
    let (bucket, store) = (Bucket::new(), Arc::new(TestStore::new()));
    let mut gateway = bucket.gateway(&store, "10m", "sealed");
    store_one(&mut gateway, "a");
    assert!(!bucket.has_segments(), "it is not its time");
    assert_eq!(gateway.end(), 0);
    assert!(bucket.has_segments());
}

#[test]
fn a_gateway_sends_nothing_unasked_where_only_commands_send() {
    let (bucket, store) = (Bucket::new(), Arc::new(TestStore::new()));
    let mut gateway = bucket.gateway(&store, "1s", "asked");
    store_one(&mut gateway, "a");
    assert_eq!(gateway.end(), 0);
    assert!(!bucket.has_segments());
    store.ctxfs("push", &[]).env("CTXFS_REMOTE_URL", &bucket.url).stdout();
    assert!(bucket.elsewhere(&TestStore::new(), "a.txt").is_some());
}
