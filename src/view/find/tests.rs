use std::ffi::OsStr;

use proptest::prelude::*;

use crate::find::passages::Passages;
use crate::find::question::FindQuestion;
use crate::find::{Words, choose};
use crate::fixture::Fixture;
use crate::{View, ViewDir};
use ctxfs_core::model::Limits;

fn view(words: &str) -> View {
    ViewDir::Find.view(OsStr::new(words)).unwrap()
}

fn find(text: &str, words: &str) -> String {
    Fixture::new(text).text(&view(words))
}

/// Returns the text after the introductory lines.
fn body(text: &str, words: &str) -> String {
    let all = find(text, words);
    let lines = all
        .split_inclusive('\n')
        .skip_while(|line| line.starts_with("# ") && !line.starts_with("# ."));
    lines.collect()
}

/// Calls `text` with each number and joins the results.
fn joined(numbers: std::ops::Range<usize>, text: impl Fn(usize) -> String) -> String {
    numbers.map(text).collect()
}

/// Returns a log of `count` lines.
fn log(count: usize) -> String {
    joined(0..count, |n| format!("12:{:02}:00 kubelet: pod web-{n} is fine\n", n % 60))
}

#[test]
fn the_first_line_says_what_was_found() {
    let evicted =
        "Evicted pod web-7f9c: The node was low on resource: memory\n  usage 7.9Gi, limit 8Gi\n";
    let text = log(300) + evicted + &log(20);
    let want = "\
# evicted pod web-7: 3 of 3 words; the best 2 of 321 passages follow, lines as in X.grep/. All lines: /ctx/c7/artifacts/tool/9f3k.txt.grep/-i evict|web-7
301:Evicted pod web-7f9c: The node was low on resource: memory
302-  usage 7.9Gi, limit 8Gi
--
8:12:07:00 kubelet: pod web-7 is fine
";
    assert_eq!(find(&text, "evicted pod web-7"), want);
}

#[test]
fn one_passage_and_all_passages() {
    let first = |text: &str| find(text, "disk").lines().next().unwrap().to_owned();
    assert!(first("disk full\n").contains("1 of 1 word; the only passage follows"));
    let many = format!("disk full\n{}\ndisks\n", "x\n".repeat(50));
    assert!(first(&many).contains("; all 2 passages follow"), "{}", first(&many));
}

#[test]
fn words_that_do_not_occur_are_said() {
    let text = log(100) + "connection timeout after 30s\n";
    let found = find(&text, "timout of frobnicators");
    assert!(found.starts_with(
        "# timout frobnicators: 1 of 2 words, timout searched as timeout (not there: frobnicators); "
    ), "{found}");
    assert!(found.contains("\n101:connection timeout after 30s\n"), "{found}");
}

#[test]
fn nothing_found_says_so() {
    let text = "ERROR of com.shop.Cart\n".repeat(9);
    let want = "# kernel panics: none of the words occurs in /ctx/c7/artifacts/tool/9f3k.txt. \
                The most telling words there are: com.shop.Cart, ERROR. \
                More: /ctx/c7/artifacts/tool/9f3k.txt.terms\n";
    assert_eq!(find(&text, "kernel panics"), want);
    assert_eq!(find("", "x"), "# /ctx/c7/artifacts/tool/9f3k.txt is empty\n");
    assert_eq!(find("text", "..."), "# no words to look for: a word has letters or digits\n");
    assert_eq!(find("text", &"x".repeat(300)), "# a word is too long: at most 256 bytes\n");
    assert!(find("a\x01\0b", "a").starts_with("# not text ("));
    assert_eq!(find("text and why\n", "why").lines().nth(1), Some("1:text and why"));
}

#[test]
fn a_paragraph_is_a_passage() {
    let text = format!(
        "{}\n\nThe quick brown\nfox jumps over\nthe lazy dog.\n\nOther text\n",
        "line\n".repeat(30)
    );
    assert_eq!(body(&text, "fox dog"), "33-The quick brown\n34:fox jumps over\n35:the lazy dog.\n");
}

#[test]
fn details_and_their_heads_belong_together() {
    let text =
        log(40) + "server:\n  port: 80\n  tls:\n    cert: x.pem\nclient:\n  port: 81\n" + &log(40);
    let found = body(&text, "cert");
    assert_eq!(found, "41-server:\n42-  port: 80\n43-  tls:\n44:    cert: x.pem\n");
}

#[test]
fn a_trace_is_shown_to_its_innermost_cause() {
    let frames = "\tat com.shop.Cart.add(Cart.java:7)\n".repeat(20);
    let text = format!(
        "{}ERROR checkout failed: java.lang.IllegalStateException\n{frames}Caused by: java.io.IOException: broken pipe\n{frames}{}",
        log(40),
        log(40)
    );
    let found = body(&text, "checkout failed");
    assert!(found.starts_with("41:ERROR checkout failed"), "{found}");
    assert!(found.contains("\n62-Caused by: java.io.IOException: broken pipe\n63-"), "{found}");
    assert!(found.split("--\n").next().unwrap().lines().count() <= 7);
}

#[test]
fn each_line_of_a_trace_leads_to_its_head_and_innermost_cause() {
    let trace = "12:00:07 ERROR billing stopped\ncom.shop.QuotaException: tenant rejected\n\
                 \tat com.shop.Cart.add(Cart.java:7)\nCaused by: java.lang.Error: splitting bills\n\
                 \tat com.shop.Bill.split(Bill.java:9)\nCaused by: java.io.IOException: disk gone\n\
                 \t... 5 more\n";
    let text = log(40) + trace + &log(40);
    for words in ["billing", "tenant rejected", "splitting", "disk gone"] {
        let found = body(&text, words);
        let first = found.split("--\n").next().unwrap();
        assert!(first.starts_with("41") && first.contains("disk gone"), "{words}: {found}");
        assert!(!first.contains("kubelet"), "{words}: {found}");
    }
    let python = "Traceback (most recent call last):\n  File \"x.py\", line 3, in frobnicate\n    \
                  f()\nKeyError: 'shelf'\n";
    let found = body(&(log(40) + python + &log(40)), "frobnicate");
    assert!(found.starts_with("41-Traceback") && found.contains("44-KeyError"), "{found}");
}

#[test]
fn a_heading_stands_for_its_section() {
    let lines = "    value = next(it)\n".repeat(20);
    let section = |name: &str, why: &str| {
        format!("_____ {name} _____\n\nself = <{name}>\n\n{lines}E   AssertionError: {why}\n\n")
    };
    let text = section("test_sieve", "169 != 168") + &section("test_sort", "1 != 2");
    let found = body(&text, "sieve");
    let want = "1:_____ test_sieve _____\n3:self = <test_sieve>\n";
    assert!(found.starts_with(want), "{found}");
    assert!(found.contains("\n25-E   AssertionError: 169 != 168\n"), "{found}");
    assert!(!found.contains("1 != 2"), "{found}");
}

#[test]
fn lines_of_a_listing_stand_for_themselves() {
    let line = |n: usize| format!("src/a{n}.rs:{n}:    let gateway = {n};\n");
    let text = joined(0..40, line) + "src/b.rs:7:    timeout\nsrc/c.rs:8:    gateway timeout\n";
    assert!(body(&text, "timeout gateway").starts_with("42:src/c.rs:8:    gateway timeout\n--\n"));
}

/// A header that is not the first line is no row either.
#[test]
fn a_header_below_other_lines_is_no_passage() {
    let rows = joined(10..30, |n| format!("ii  lib{n}    1.{n}     a library\n"));
    let text = format!("Desired=Unknown/Install\n||/ Name     Version  Library\n{rows}");
    let found = body(&text, "library");
    assert!(found.starts_with("2-||/ Name     Version  Library\n"), "{found}");
    assert!(!found.contains("2:||/"), "{found}");
}

#[test]
fn small_words_tell_passages_apart() {
    let line = |n: usize| format!("12:00:{n:02} the name of shop {n}\n");
    let text = joined(0..30, line) + "12:01:00 name is too long\n" + &joined(30..50, line);
    assert!(body(&text, "name too long").starts_with("31:12:01:00 name is too long\n"));
}

#[test]
fn a_row_is_shown_under_its_header() {
    let rows = joined(1..50, |n| format!("{n},town{n},{}\n", n * 7));
    let found = body(&format!("id,name,count\n{rows}"), "town17");
    assert_eq!(found, "1-id,name,count\n18:17,town17,119\n");
}

#[test]
fn an_object_is_shown_with_its_path() {
    let item = |n: usize| {
        format!(
            r#"{{"id":"usr_{n}","mail":"user{n}@example.com","bio":"{}","tags":["a","b"]}}"#,
            "word ".repeat(200)
        )
    };
    let items: Vec<String> = (0..40).map(item).collect();
    let text = format!(r#"{{"total":40,"items":[{}]}}"#, items.join(","));
    let found = body(&text, "mail of usr_17");
    let at = text.find(r#""usr_17""#).unwrap();
    let want = format!(
        "# .items[17]\n1@{}:...\"id\":\"usr_17\",\"mail\":\"user17@example.com\"...\n",
        at + 2
    );
    assert!(found.starts_with(&want), "{found}\n{want}");
}

#[test]
fn pretty_objects_are_shown_as_lines() {
    let item = |n: usize| {
        format!(
            "  {{\n    \"id\": {n},\n    \"name\": \"item {n}\",\n    \"text\": \"{}\"\n  }}",
            "long ".repeat(200)
        )
    };
    let items: Vec<String> = (100..140).map(item).collect();
    let text = format!("[\n{}\n]\n", items.join(",\n"));
    let found = body(&text, "name of 117");
    assert!(
        found.starts_with("# .[17]\n88:    \"id\": 117,\n89:    \"name\": \"item 117\",\n"),
        "{found}"
    );
}

#[test]
fn json_lines_are_objects_each() {
    let lines = joined(0..500, |n| format!("{{\"n\": {n}, \"event\": \"tick\", \"ok\": true}}\n"));
    let text = format!(
        "{lines}{{\"n\": 500, \"event\": \"disk \\u00fcber quota\", \"ok\": false}}\n{lines}"
    );
    assert_eq!(
        body(&text, "uber quotas"),
        "501:{\"n\": 500, \"event\": \"disk \\u00fcber quota\", \"ok\": false}\n"
    );
}

#[test]
fn what_only_begins_like_json_is_text() {
    let text = "[INFO] start\n".repeat(40) + "[WARN] disk full\n" + &"[INFO] more\n".repeat(40);
    assert!(body(&text, "disk full").starts_with("41:[WARN] disk full\n"));
    let cut = r#"{"a": [{"name": "disk", "state": "fu"#;
    assert!(body(cut, "disk").contains(r#""name": "disk""#));
}

#[test]
fn a_long_line_is_a_window() {
    let text = format!("x\n{} needle {}\n", "hay ".repeat(9_000), "hay ".repeat(9_000));
    let found = find(&text, "needles");
    assert!(
        found.contains(
            "\n# some lines are long: 2@36002 is line 2 at byte column 36002\n2@36002:..."
        ),
        "{found}"
    );
    let line = found.lines().last().unwrap();
    assert!(line.contains(" needle ") && line.chars().count() < 520, "{line}");
    let string = format!(
        r#"{{"a": {{"text": "{} needle {}"}}}}"#,
        "hay ".repeat(9_000),
        "hay ".repeat(9_000)
    );
    let found = find(&string, "needles");
    assert!(found.contains("\n# .a.text\n1@") && found.contains(" needle "), "{found}");
}

#[test]
fn the_odd_one_comes_first_among_equals() {
    let text = log(200) + "13:00:00 kubelet: pod db-1 is not ready\n" + &log(200);
    assert!(
        body(&text, "pod").starts_with("201:13:00:00 kubelet: pod db-1"),
        "{}",
        body(&text, "pod")
    );
}

#[test]
fn time_can_run_out() {
    let fixture = Fixture::new(log(30_000));
    for most in 0..12 {
        let calls = std::cell::Cell::new(0);
        let expired = || {
            calls.set(calls.get() + 1);
            calls.get() > most
        };
        let (text, rendered) = fixture.render_until(&view("web-9"), &expired).unwrap();
        let notice = rendered.notice.unwrap();
        assert_eq!(notice.contains("# out of time after "), !rendered.whole, "{most} {notice}");
        assert!(rendered.whole || text.len() < 6000);
    }
}

#[test]
fn many_distinct_words_stay_bounded() {
    let words = joined(0..200_000, |n| format!("w{:x}q{n}\n", n * 7919));
    let found = find(&words, "nothing like it wordz");
    assert!(found.contains("none of the words occurs"), "{found}");
}

/// Generates texts of several kinds.
fn texts() -> impl Strategy<Value = Vec<u8>> {
    let word = || {
        prop::sample::select(vec![
            "disk",
            "full",
            "Disks",
            "web-7",
            "paymentGateway",
            "x",
            "\u{fc}ber",
            "500",
        ])
    };
    let words = |most| prop::collection::vec(word(), 0..most).prop_map(|words| words.join(" "));
    let lines =
        prop::collection::vec((prop::sample::select(vec!["", "  ", "\t"]), words(7)), 0..40)
            .prop_map(|lines| {
                lines
                    .iter()
                    .flat_map(|(indent, text)| [indent, text.as_str(), "\n"])
                    .collect::<String>()
            });
    let long = words(9000);
    let json = prop::collection::vec((word(), words(300), 0u8..3), 0..30).prop_map(|members| {
        let item = |(key, text, kind): &(&str, String, u8)| match kind {
            0 => format!("{{\"{key}\": \"{text}\"}}"),
            1 => format!("{{\"{key}\": {{\"{key}\": [\"{text}\", 500, null]}}}}"),
            _ => format!("{{\n \"{key}\": true,\n \"text\": \"{text}\\n{text}\"}}"),
        };
        format!("[{}]", members.iter().map(item).collect::<Vec<_>>().join(","))
    });
    prop_oneof![
        lines.prop_map(String::into_bytes),
        long.prop_map(String::into_bytes),
        json.prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..400),
        prop::collection::vec(prop::sample::select(b"{}[]\",:\\ disk\n".to_vec()), 0..400),
    ]
}

fn questions() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "disk full",
        "web-7 payment gateway",
        "dsik uber",
        "500",
        "d",
        "text is why",
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_reply_is_short_and_true(bytes in texts(), words in questions()) {
        let fixture = Fixture::new(bytes.clone());
        let found = fixture.bytes(&view(words));
        prop_assert_eq!(&found, &fixture.bytes(&view(words)));
        prop_assert!(found.len() <= Limits::STAND_IN_BYTES, "{} bytes", found.len());
        let text = String::from_utf8_lossy(&found).into_owned();
        prop_assert!(text.starts_with("# "));
        let mut shown = Vec::new();
        for line in found.split(|byte| *byte == b'\n').filter(|line| !line.starts_with(b"# ") && !line.is_empty() && line != b"--") {
            prop_assert!(String::from_utf8_lossy(line).chars().count() <= Limits::LINE_CHARS + 40);
            let digits = line.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let number: usize = std::str::from_utf8(&line[..digits]).unwrap().parse().unwrap();
            let source = bytes.split(|byte| *byte == b'\n').nth(number - 1).unwrap();
            if line[digits] == b'@' {
                let start = line.iter().position(|byte| b":-".contains(byte)).unwrap() + 1;
                let window = line[start..].strip_prefix(b"...").unwrap_or(&line[start..]);
                let window = window.strip_suffix(b"...").unwrap_or(window);
                prop_assert!(bstr::ByteSlice::find(source, window).is_some(), "{}", text);
            } else {
                prop_assert_eq!(&line[digits + 1..], source, "{}", text);
            }
            shown.push(line.to_vec());
        }
        let count = shown.len();
        shown.sort();
        shown.dedup();
        prop_assert_eq!(shown.len(), count, "{}", text);
    }

    #[test]
    fn any_question_to_any_bytes_has_one_short_reply(
        bytes in texts(),
        words in prop_oneof![
            prop::collection::vec(any::<u8>(), 1..200),
            "\\PC{1,60}".prop_map(String::into_bytes),
            "([a-z0-9_./-]{1,9} ){1,90}".prop_map(String::into_bytes),
        ],
    ) {
        let name = std::os::unix::ffi::OsStrExt::from_bytes(words.as_slice());
        if let Some(view) = ViewDir::Find.view(name) {
            let fixture = Fixture::new(bytes);
            let found = fixture.bytes(&view);
            prop_assert_eq!(&found, &fixture.bytes(&view));
            prop_assert!(found.len() <= Limits::STAND_IN_BYTES, "{} bytes", found.len());
        }
    }

    #[test]
    fn blocks_do_not_matter(bytes in texts(), words in questions(), block in 1usize..3000) {
        let name = Words::parse(OsStr::new(words)).unwrap();
        let question = FindQuestion::read(&name.text()).unwrap();
        if let Some(chosen) = choose(&question, &bytes, &|| false).unwrap() {
            let read = |block| Passages::read(&bytes, &chosen, &|| false, block).unwrap();
            let (one, other) = (read(1 << 20), read(block));
            prop_assert_eq!(one.best, other.best);
            prop_assert_eq!(one.count, other.count);
        }
    }
}
