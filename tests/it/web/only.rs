//! `--only`: nothing of another conversation is seen.

use std::sync::Arc;

use super::*;
use crate::support::TestStore;

#[test]
fn another_conversation_is_as_one_that_does_not_exist() {
    let store = Arc::new(TestStore::new());
    store.put("mine", "one", b"my text\n");
    store.put("secret", "two", b"their text\n");
    let page = Served::new(&store, &["--only", "mine"]);
    for path in [
        "/",
        "/?part=table",
        "/saved",
        "/c/mine",
        "/c/mine/outputs",
        "/c/mine/o/artifacts/tool/one.txt",
    ] {
        let shown = page.get(path);
        assert!(!shown.has("secret") && !shown.has("two.txt"), "{path}: {}", shown.text());
    }
    assert!(page.get("/").has("1 conversation"));
    for (there, absent) in [
        ("/c/secret", "/c/absent"),
        ("/c/secret/outputs", "/c/absent/outputs"),
        ("/c/secret/o/artifacts/tool/two.txt", "/c/absent/o/artifacts/tool/two.txt"),
        ("/c/secret/raw/artifacts/tool/two.txt", "/c/absent/raw/artifacts/tool/two.txt"),
        ("/c/secret/image/artifacts/tool/two.txt", "/c/absent/image/artifacts/tool/two.txt"),
        ("/saved?conversation=secret", "/saved?conversation=absent"),
        ("/search/stream?conversation=secret&q=t", "/search/stream?conversation=absent&q=t"),
        ("/events?watch=c/secret", "/events?watch=c/absent"),
        (
            "/events?watch=o/secret/artifacts/tool/two.txt",
            "/events?watch=o/absent/artifacts/tool/two.txt",
        ),
    ] {
        let (one, other) = (page.try_get(there), page.try_get(absent));
        assert_eq!((one.status, other.status), (404, 404), "{there}");
        assert_eq!(one.body, other.body, "{there}");
    }
    for path in ["/c/mine/o/..%2f..%2fsecret/artifacts/tool/two.txt", "/c/mine/o/../../secret/x"] {
        assert!([400, 404].contains(&page.try_get(path).status), "{path}");
    }
    assert!(page.get("/search/stream?conversation=mine&q=text").has("my text"));
}
