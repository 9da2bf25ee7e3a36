//! Whoever may connect cannot keep the owner of a page out of it.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Instant;

use super::*;
use crate::support::{CROWD, TestStore, answered_crowd, crowd, eventually, is_open};

fn page() -> Served {
    let store = Arc::new(TestStore::new());
    store.put("c7", "one", b"text\n");
    Served::new(&store, &[])
}

#[test]
fn connections_that_show_nothing_give_way() {
    let page = page();
    let head = format!("GET / HTTP/1.1\r\nhost: {}\r\n", page.address);
    let (half, without) = (&head[..10], format!("{head}\r\n"));
    let (style, wrong) =
        (without.replace("/ ", "/static/page.css "), format!("{head}cookie: x=y\r\n\r\n"));
    for sent in ["", half, &head, &without, &style, &wrong] {
        let crowd = crowd(&page.address, sent);
        assert!(page.get("/").has("c7"));
        assert!(is_open(&crowd[CROWD / 2]), "they have not just ended: {sent:?}");
        eventually("the first has given way", || !is_open(&crowd[0]));
    }
}

#[test]
fn a_connection_without_a_request_ends_soon() {
    let page = page();
    let silent = TcpStream::connect(&page.address).unwrap();
    let mut half = TcpStream::connect(&page.address).unwrap();
    half.write_all(b"GET / HTTP/1.1\r\nhost: ").unwrap();
    let began = Instant::now();
    for stream in [&silent, &half] {
        eventually("it has ended", || !is_open(stream));
    }
    assert!((4..10).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
}

#[test]
fn connections_that_are_opened_again_and_again_give_way() {
    let page = page();
    let is_over = AtomicBool::new(false);
    let most = 1_000_000_u32;
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut held = VecDeque::new();
            for _ in (0..most).take_while(|_| !is_over.load(Relaxed)) {
                held.extend(TcpStream::connect(&page.address));
                if held.len() > CROWD {
                    held.pop_front();
                }
            }
        });
        for _ in 0..20 {
            assert!(page.get("/").has("c7"));
        }
        is_over.store(true, Relaxed);
    });
}

#[test]
fn the_owners_own_idle_connections_give_way() {
    let page = page();
    let cookie = &page.cookie;
    let sent =
        format!("GET /favicon.ico HTTP/1.1\r\nhost: {}\r\ncookie: {cookie}\r\n\r\n", page.address);
    // A connection without an answer yet would give way before any of these.
    let crowd = answered_crowd(&page.address, &sent);
    assert!(page.get("/").has("c7"));
    eventually("the longest idle has given way", || !is_open(&crowd[0]));
    assert!(is_open(&crowd[CROWD - 1]));
}

#[test]
fn strangers_do_not_end_what_the_owner_has_open() {
    let page = page();
    let mut events = page.lines("/events?watch=%2F");
    assert!(events.next().is_some());
    let crowd = crowd(&page.address, "");
    eventually("the first has given way", || !is_open(&crowd[0]));
    page.get("/");
    while events.next().expect("the stream goes on") != ":" {}
}

#[test]
fn streams_of_events_are_bounded() {
    let page = page();
    let cookie = [("cookie", &*page.cookie)];
    let open = || page.send("GET", "/events?watch=%2F", &cookie);
    let status = |mut stream: &TcpStream| {
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        String::from_utf8_lossy(&head[9..]).into_owned()
    };
    let streams: Vec<TcpStream> = (0..140).map(|_| open()).collect();
    let statuses: Vec<String> = streams.iter().map(status).collect();
    let count = |wanted: &str| statuses.iter().filter(|status| *status == wanted).count();
    assert_eq!((count("200"), count("503")), (128, 12));
    assert!(page.get("/").has("c7"));
    drop(streams);
    eventually("there is room again", || status(&open()) == "200");
}
