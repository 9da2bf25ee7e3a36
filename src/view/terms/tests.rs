use std::cell::Cell;
use std::collections::HashMap;

use proptest::prelude::*;

use crate::View;
use crate::fixture::Fixture;
use crate::terms::{CountedTerm, WordCounts, best_terms};
use ctxfs_core::model::{Json, Limits};

fn terms(text: impl Into<Vec<u8>>) -> String {
    Fixture::new(text).text(&View::Terms)
}

fn numbered(lines: usize, line: impl Fn(usize) -> String) -> String {
    (0..lines).map(line).collect::<Vec<_>>().join("\n") + "\n"
}

/// Parses all lines except the first. Returns the count and first line of each term.
fn told(printed: &str) -> HashMap<&str, (u64, &str)> {
    let mut told = HashMap::new();
    for line in printed.lines().skip(1) {
        let [times, term, first] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        told.insert(term, (times.parse().unwrap(), first));
    }
    told
}

#[test]
fn terms_come_with_their_count_and_first_line() {
    let text = "The start of it\n\nINFO start ok\ngetTotal of the cart failed: start, 17\n";
    let want = "\
# 7 words in 4 lines; the 5 most telling follow: count, word, first line. \
Search: /ctx/c7/artifacts/tool/9f3k.txt.grep/getTotal
1\tgetTotal\t4
1\tfailed\t4
3\tstart\t1
1\tINFO\t3
1\tcart\t4
";
    assert_eq!(terms(text), want);
}

#[test]
fn what_has_no_words_is_empty() {
    assert_eq!(terms(""), "");
    assert_eq!(terms("1 2 3\n--\n2026-11-21T10:00:02Z\n of the\n"), "");
}

#[test]
fn escapes_of_json_are_no_part_of_words() {
    let mut fixture = Fixture::new("{\"text\": \"first\\nsecond\\ttable\"}");
    assert!(told(&fixture.text(&View::Terms)).contains_key("nsecond"));
    fixture.analysis.json = Json::Document { shape: String::new(), example: None, pretty_lines: 0 };
    let printed = fixture.text(&View::Terms);
    let mut words: Vec<&str> = told(&printed).into_keys().collect();
    words.sort_unstable();
    assert_eq!(words, ["first", "second", "table", "text"]);
}

#[test]
fn the_best_of_many_follow() {
    let printed = terms(numbered(9000, |n| format!("word{} x{n}y", n % 900)));
    let first = printed.lines().next().unwrap();
    assert!(first.starts_with("# 9,900 words in 9,000 lines; the 200 most telling follow: "));
    assert_eq!(told(&printed)["word7"], (10, "8"));
    assert_eq!(told(&printed).len(), 200);
    assert!(printed.len() < Limits::VIEW_BYTES);
}

#[test]
fn more_words_than_there_is_room_for_are_not_counted() {
    let printed = terms(numbered(200_000, |n| format!("common a{n}z")));
    assert!(printed.starts_with("# more than 65,536 words in 200,000 lines; "), "{printed:.100}");
    assert_eq!(told(&printed)["common"], (200_000, "1"));
}

#[test]
fn of_a_large_artifact_stretches_are_looked_at() {
    let early = format!("early light {}\n", "=".repeat(487));
    let text = early.repeat(24_000) + &early.replace("early", "later").repeat(72_000);
    let printed = terms(text);
    let first = printed.lines().next().unwrap();
    let among =
        "# 3 words in 33.5 of 48.0 MB, in stretches all over it; the 3 most telling follow: ";
    assert!(first.starts_with(among), "{first}");
    let told = told(&printed);
    let (early, later) = (told["early"].0, told["later"].0);
    assert_eq!((told["early"].1, told["later"].1), ("1", "-"));
    assert!(later.abs_diff(3 * early) < later / 50, "{early} {later}");
}

#[test]
fn time_can_run_out() {
    let fixture = Fixture::new("many words\n".repeat(100_000));
    let calls = Cell::new(0);
    let expired = || {
        calls.set(calls.get() + 1);
        calls.get() > 2
    };
    let (body, rendered) = fixture.render_until(&View::Terms, &expired).unwrap();
    assert!(!rendered.whole);
    let notice = rendered.notice.unwrap();
    assert!(notice.starts_with("# 2 words in 0.5 of 1.1 MB (out of time); "), "{notice}");
    assert_eq!(String::from_utf8(body).unwrap().lines().count(), 2);
    let (body, rendered) = fixture.render_until(&View::Terms, &|| true).unwrap();
    let notice = "# out of time before a word was counted\n";
    assert_eq!((body.len(), rendered.notice.as_deref()), (0, Some(notice)));
}

#[test]
fn what_is_not_text_is_not_printed() {
    let printed = terms(b"some words\x01\0".to_vec());
    assert!(printed.starts_with("# not text ("), "{printed}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn words_are_counted(
        words in prop::collection::vec("[a-z]{3,7}|[A-Z]?[a-z]{2,4}_x|\u{fc}ber|[0-9]{1,5}", 1..90),
        width in 1usize..9,
        times in 1usize..200,
    ) {
        let lines: Vec<String> = words.chunks(width).map(|line| line.join(" ")).collect();
        let text = (lines.join("\n") + "\n").repeat(times);
        let printed = terms(text.clone());
        prop_assert!(printed.len() <= Limits::VIEW_BYTES);
        for (term, (count, first)) in told(&printed) {
            let found = words.iter().filter(|word| *word == term).count() * times;
            prop_assert_eq!(count, found as u64, "{}", term);
            let line = lines.iter().position(|line| line.split(' ').any(|word| word == term));
            prop_assert_eq!(first, (line.unwrap() + 1).to_string());
        }
    }

    #[test]
    fn any_bytes_have_terms(bytes in prop::collection::vec(1u8.., 0..9000)) {
        let printed = Fixture::new(bytes).bytes(&View::Terms);
        prop_assert!(printed.len() <= Limits::VIEW_BYTES);
    }
}

fn ranked(text: &str) -> Vec<String> {
    let content: Vec<u8> = text.into();
    let counts = WordCounts::take(&content, false, &|| false).unwrap();
    let text = |term: &CountedTerm<'_>| String::from_utf8(term.text.to_vec()).unwrap();
    best_terms(&counts, 100).iter().map(text).collect()
}

#[test]
fn what_tells_most_comes_first() {
    let line = |n: usize| match n {
        40 | 700 => "INFO request refused\n",
        n if n.is_multiple_of(40) => "INFO request by com.shop.Cart\n",
        n if n.is_multiple_of(30) => "INFO request by getTotal\n",
        n if n.is_multiple_of(31) => "INFO request by basket\n",
        _ => "INFO request\n",
    };
    let text: String = (0..1000).map(line).collect();
    let want = ["getTotal", "com.shop.Cart", "basket", "refused", "INFO", "request"];
    assert_eq!(ranked(&text), want);
}

#[test]
fn parts_of_one_name_are_left_out() {
    let text = "com.shop.Cart\ncom.shop.Order\ncom.shop.Cart\n";
    assert_eq!(ranked(text), ["com.shop.Cart", "com.shop.Order", "com", "shop"]);
}
