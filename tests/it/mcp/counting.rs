//! Calls are counted, for `ctxfs stats`.

use super::*;
use crate::support::eventually;

fn stats(store: &TestStore) -> Value {
    serde_json::from_slice(&store.ctxfs("stats", &["--json"]).stdout()).unwrap()
}

fn two(store: &Arc<TestStore>, options: &[&str]) -> Gateway {
    let servers = [("one", json!({})), ("two", json!({}))];
    let mut gateway = Gateway::of_servers(store, options, &servers);
    gateway.shake_hands("2025-11-25");
    gateway
}

#[test]
fn calls_are_counted_by_server_and_tool() {
    let store = Arc::new(TestStore::new());
    let mut gateway = two(&store, &[]);
    for _ in 0..3 {
        gateway.call("one__echo", &json!({}));
    }
    gateway.call("two__fail", &json!({"line": "a\n", "count": 1}));
    gateway.call("two__die", &json!({}));
    gateway.call("one__text", &json!({"line": "a line\n", "counts": [20_000]}));
    gateway.call("one__sleep", &json!({"seconds": 0.3}));
    assert_eq!(gateway.end(), 0);
    let tools = &stats(&store)["tools"];
    let of = |tool: &str| tools[tool]["calls"].clone();
    let number =
        |tool: &str, key: &str| of(tool)[key].as_u64().unwrap_or_else(|| panic!("{tools}"));
    assert_eq!((number("one/echo", "times"), number("one/echo", "errors")), (3, 0));
    assert_eq!(number("one/echo", "received"), number("one/echo", "given"));
    assert_eq!((number("two/fail", "times"), number("two/fail", "errors")), (1, 1));
    assert_eq!((number("two/die", "errors"), number("two/die", "received")), (1, 0));
    assert!((300..60_000).contains(&number("one/sleep", "millis")), "{tools}");
    assert!(number("one/text", "received") > 140_000, "{tools}");
    assert!(number("one/text", "given") < 6000, "{tools}");
    assert_eq!(tools["one/text"]["stored"]["bytes"], 140_000);
    let text = store.ctxfs("stats", &[]).text();
    let line = text.lines().find(|line| line.ends_with("  one/echo")).unwrap();
    assert!(line.starts_with("       3         0 "), "{text}");
    assert_eq!(text.matches("one/echo").count(), 1, "no output of it was stored: {text}");
}

#[test]
fn calls_of_batches_and_the_index_are_counted() {
    let store = Arc::new(TestStore::new());
    let rules = "[permissions]\n\"*\" = \"allow\"\n";
    store.user_settings(rules);
    let mut gateway = two(&store, &["--tools", "index"]);
    let long = json!({"name": "one__text", "arguments": {"line": "a line\n", "counts": [20_000]}});
    let calls = json!([long, {"name": "two__echo"}, {"name": "nothing"}]);
    gateway.call("run_tool_batch", &json!({"calls": calls}));
    assert_eq!(gateway.end(), 0);
    let counted = stats(&store);
    let calls = &counted["tools"]["one/text"]["calls"];
    assert_eq!((&calls["times"], &calls["errors"]), (&1.into(), &0.into()), "{counted}");
    assert!(calls["received"].as_u64().unwrap() > 140_000, "{counted}");
    assert!((100..16_384).contains(&calls["given"].as_u64().unwrap()), "{counted}");
    assert_eq!(counted["total"]["calls"]["times"], 2, "what was not made is no call: {counted}");
    let index = &counted["total"]["index"];
    assert_eq!(index["times"], 1, "{counted}");
    assert!(index["schemas"].as_u64().unwrap() > 200, "{counted}");
    assert!(index["tokens"].as_u64().unwrap() > 200, "{counted}");
    let text = store.ctxfs("stats", &[]).text();
    assert!(text.contains("\nsessions with a light index: 1, "), "{text}");
}

#[test]
fn several_gateways_add_up_and_one_that_is_killed_loses_little() {
    let store = Arc::new(TestStore::new());
    let times = |store: &TestStore| {
        let counted = stats(store);
        counted["tools"]["one/echo"]["calls"]["times"].as_u64().unwrap_or(0)
    };
    let (mut first, mut second) = (two(&store, &[]), two(&store, &[]));
    for _ in 0..10 {
        first.call("one__echo", &json!({}));
        second.call("one__echo", &json!({}));
    }
    // They are saved while the gateways run.
    eventually("all are counted", || times(&store) == 20);
    rustix::process::kill_process(first.pid(), Signal::KILL).unwrap();
    second.call("one__echo", &json!({}));
    assert_eq!(second.end(), 0);
    assert_eq!(times(&store), 21);
}

#[test]
fn any_number_of_names_takes_little_room() {
    let store = Arc::new(TestStore::new());
    let mut gateway = Gateway::start(&store, &[], &server(), &[]);
    gateway.shake_hands("2025-11-25");
    for hundred in 0..30 {
        let call = |n: usize| json!({"name": format!("no_such_tool_{hundred}_{n}")});
        let ids: Vec<u64> = (0..100).map(|n| gateway.ask("tools/call", &call(n))).collect();
        for id in ids {
            assert_eq!(gateway.answer(id)["error"]["code"], -32602);
        }
    }
    gateway.call("echo", &json!({}));
    assert_eq!(gateway.end(), 0);
    let counted = stats(&store);
    let tools = counted["tools"].as_object().unwrap();
    assert!((2..=501).contains(&tools.len()), "{}", tools.len());
    assert_eq!(counted["total"]["calls"]["times"], 3001);
    assert_eq!(counted["total"]["calls"]["errors"], 3000);
    let file = store.path().join("context/c7/.ctxfs-counts.jsonl");
    assert!(std::fs::metadata(file).unwrap().len() < 1 << 20);
}
