//! What changes is told to those who follow it.

use std::fs;
use std::sync::Arc;

use super::served::{Lines, append_slowly};
use super::*;
use crate::support::{TestStore, eventually};

#[test]
fn a_growing_output_is_told_and_shown() {
    let store = Arc::new(TestStore::new());
    store.put("c7", "one", b"first\n");
    let path = store.plain("c7", "one.txt");
    let page = Served::new(&store, &[]);
    let mut events = page.lines("/events?watch=o/c7/artifacts/tool/one.txt");
    let now = events.event("changed").unwrap();
    assert_eq!((&now["topic"], &now["size"]), (&"o/c7/artifacts/tool/one.txt".into(), &6.into()));
    let writer = append_slowly(path.clone(), 10);
    let mut told = size_of(&mut events);
    assert!(told > 6, "{told}");
    writer.join().unwrap();
    let size = fs::metadata(&path).unwrap().len();
    while told < size {
        told = size_of(&mut events);
    }
    assert_eq!(told, size);
    let window = page.get("/c/c7/o/artifacts/tool/one.txt?part=lines&from=6");
    assert!(window.has("later 0") && window.has("later 9"), "{}", window.text());
}

#[test]
fn a_conversation_tells_of_messages_and_outputs() {
    let store = Arc::new(TestStore::new());
    store.put("c7", "one", b"first\n");
    let page = Served::new(&store, &[]);
    let mut events = page.lines("/events?watch=c/absent&watch=c/c7&watch=/");
    let topics = [events.event("changed").unwrap(), events.event("changed").unwrap()];
    let topics = topics.map(|event| event["topic"].as_str().unwrap().to_owned());
    assert!(topics.contains(&"c/c7".to_owned()) && topics.contains(&"/".to_owned()), "{topics:?}");
    store
        .ctxfs("log", &["append", "c7"])
        .stdin("{\"role\":\"user\",\"content\":\"hello\"}\n")
        .stdout();
    eventually("the message is told", || events.event("changed").unwrap()["topic"] == "c/c7");
    assert!(page.get("/c/c7?part=messages&after=0").has("hello"));
    store.put("c7", "two", b"second\n");
    eventually("the output is told", || events.event("changed").unwrap()["topic"] == "c/c7");
    assert!(page.get("/c/c7?part=outputs").has("two.txt"));
}

#[test]
fn fifty_who_follow_hear_of_each_change_while_pages_are_made() {
    let store = Arc::new(TestStore::new());
    for number in 0..50 {
        store.put("c7", &format!("log{number}"), b"first\n");
    }
    let page = Served::new(&store, &[]);
    let mut following: Vec<_> = (0..50)
        .map(|number| page.lines(&format!("/events?watch=o/c7/artifacts/tool/log{number}.txt")))
        .collect();
    let path = |number: usize| store.plain("c7", &format!("log{number}.txt"));
    let writers: Vec<_> = (0..50).map(|number| append_slowly(path(number), 20)).collect();
    page.get("/c/c7/o/artifacts/tool/log0.txt");
    for writer in writers {
        writer.join().unwrap();
    }
    for (number, events) in following.iter_mut().enumerate() {
        let size = fs::metadata(path(number)).unwrap().len();
        while size_of(events) < size {}
    }
}

/// Returns the size that the next event tells.
fn size_of(events: &mut Lines) -> u64 {
    events.event("changed").unwrap()["size"].as_u64().unwrap()
}
