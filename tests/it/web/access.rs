//! Who may come in, and the headers of every answer.

use std::sync::Arc;

use rustix::process::Signal;

use super::*;
use crate::support::TestStore;

fn served() -> Served {
    let store = Arc::new(TestStore::new());
    store.put("c7", "one", b"text\n");
    Served::new(&store, &[])
}

#[test]
fn the_token_or_its_cookie_is_needed_everywhere() {
    let page = served();
    for path in [
        "/",
        "/saved",
        "/c/c7",
        "/c/none",
        "/c/c7/outputs",
        "/c/c7/o/artifacts/tool/one.txt",
        "/c/c7/raw/artifacts/tool/one.txt",
        "/c/c7/image/artifacts/tool/one.txt",
        "/search/stream?conversation=c7&q=x",
        "/events?watch=c/c7",
        "/favicon.ico",
        "/anything",
    ] {
        for headers in [&[][..], &[("cookie", "ctxfs=x")], &[("authorization", "Bearer x")]] {
            let answer = page.ask("GET", path, headers);
            assert_eq!(answer.status, 401, "{path}");
            assert!(!answer.has("c7") && !answer.has("one.txt"), "{path}: {}", answer.text());
        }
        let old =
            format!("{path}{}token=0123456789abcdef", if path.contains('?') { "&" } else { "?" });
        assert_eq!(page.ask("GET", &old, &[]).status, 401, "{old}");
    }
    assert!(!page.cookie.contains(&page.token));
    for asset in ["/static/page.css", "/static/page.js"] {
        let answer = page.ask("GET", asset, &[]);
        assert_eq!(answer.status, 200);
        let tag = answer.header("etag").unwrap();
        assert_eq!(page.ask("GET", asset, &[("if-none-match", tag)]).status, 304);
    }
}

#[test]
fn the_token_leads_to_the_same_page_without_it() {
    let page = served();
    let path = format!("/c/c7?token={}&sort=size", page.token);
    let answer = page.ask("GET", &path, &[]);
    assert_eq!((answer.status, answer.header("location")), (303, Some("/c/c7?sort=size")));
    let cookie = answer.header("set-cookie").unwrap();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(part), "{cookie}");
    }
    // A browser sends no strict cookie where another site led to, unless the page itself leads on.
    let from_elsewhere = [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "navigate"),
        ("sec-fetch-dest", "document"),
    ];
    let answer = page.ask("GET", &path, &from_elsewhere);
    assert_eq!(answer.status, 200);
    assert!(answer.has("http-equiv=\"refresh\"") && answer.header("set-cookie").is_some());
    assert!(!answer.has(&page.token));
}

#[test]
fn every_answer_has_the_headers() {
    let page = served();
    let cookie = [("cookie", &*page.cookie)];
    let answers = [
        page.get("/"),
        page.get("/c/c7/o/artifacts/tool/one.txt"),
        page.get("/c/c7/raw/artifacts/tool/one.txt"),
        page.get("/static/page.js"),
        page.try_get("/c/none"),
        page.ask("GET", "/", &[]),
        page.ask("POST", "/", &cookie),
        page.ask("GET", "/", &[("host", "evil.example")]),
    ];
    for answer in &answers {
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'self'") && !policy.contains("unsafe"), "{policy}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("x-frame-options", "DENY"),
            ("cross-origin-resource-policy", "same-origin"),
            ("cross-origin-opener-policy", "same-origin"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{name}");
        }
        assert!(answer.header("cache-control").is_some_and(|value| value.starts_with("no-")));
        assert!(answer.header("access-control-allow-origin").is_none());
    }
    let page_text = page.get("/c/c7").text();
    for inline in ["<script>", "style=\"", "onclick", "javascript:"] {
        assert!(!page_text.contains(inline), "{inline}");
    }
}

#[test]
fn pages_of_other_origins_and_names_are_refused() {
    let page = served();
    let with = |headers: &[(&str, &str)]| {
        let headers = [headers, &[("cookie", &*page.cookie)]].concat();
        page.ask("GET", "/c/c7", &headers).status
    };
    assert_eq!(with(&[("host", "localhost:1")]), 200);
    for host in ["evil.example", "127.0.0.1.evil.example", "[::1"] {
        assert_eq!(with(&[("host", host)]), 403, "{host}");
    }
    let own = format!("http://{}", page.address);
    assert_eq!(with(&[("origin", &own)]), 200);
    for origin in ["null", "http://evil.example", "http://127.0.0.1:1", "https://localhost"] {
        assert_eq!(with(&[("origin", origin)]), 403, "{origin}");
    }
    assert_eq!(with(&[("sec-fetch-site", "cross-site")]), 403);
    let framed = [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "navigate"),
        ("sec-fetch-dest", "iframe"),
    ];
    assert_eq!(with(&framed), 403);
    // The token lets no other origin in.
    let path = format!("/?token={}", page.token);
    assert_eq!(page.ask("GET", &path, &[("origin", "http://evil.example")]).status, 403);
    assert_eq!(page.ask("GET", &path, &[("host", "evil.example")]).status, 403);
}

#[test]
fn nothing_but_reading_is_answered() {
    let page = served();
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        let answer = page.ask(method, "/c/c7", &[("cookie", &page.cookie)]);
        assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, HEAD")), "{method}");
    }
    let head = page.ask("HEAD", "/", &[("cookie", &page.cookie)]);
    assert_eq!((head.status, head.body.len()), (200, 0));
}

#[test]
fn a_head_without_end_is_refused_and_others_are_served() {
    use std::io::Write as _;
    let page = served();
    let mut slow = page.send("GET", "/", &[]);
    slow.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n").ok();
    let mut endless = std::net::TcpStream::connect(&page.address).unwrap();
    endless.write_all(b"GET / HTTP/1.1\r\n").unwrap();
    let line = format!("x: {}\r\n", "y".repeat(8000));
    let refused = (0..100).any(|_| endless.write_all(line.as_bytes()).is_err());
    let mut answer = Vec::new();
    std::io::Read::read_to_end(&mut endless, &mut answer).ok();
    assert!(refused || answer.starts_with(b"HTTP/1.1 431"), "{}", answer.len());
    assert!(page.get("/").has("c7"));
}

#[test]
fn it_ends_when_it_is_asked_to() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut page = served();
        let mut following = page.lines("/events?watch=c/c7");
        assert!(following.event("changed").is_some());
        assert_eq!(page.end(signal), 0);
        assert_eq!(following.event("changed"), None);
    }
}
