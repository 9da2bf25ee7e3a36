//! What the reading agent begins with.

use super::NEEDLE;
use super::log;
use super::text;
use crate::extract::ExtractSettings;
use crate::extract::Mode;
use crate::extract::ToolUse;
use crate::extract::Turn;
use crate::extract::fixture::Scripted;
use crate::extract::fixture::TextDocument;
use crate::extract::fixture::extract;
use crate::extract::fixture::last_text;
use crate::extract::fixture::says;

/// It costs one turn where the words of the question lead to the line.
#[test]
fn the_first_look_is_for_the_words_of_the_question() {
    let model = Scripted::new("a", |request| {
        let [_, Turn::Model { text: look, .. }, Turn::User(seen)] = &request.turns[..] else {
            panic!("{:?}", request.turns)
        };
        let look: serde_json::Value = serde_json::from_str(look).unwrap();
        assert_eq!(look["words"].as_str().unwrap().chars().count(), 80);
        assert!(seen.contains(&format!("1001: {NEEDLE}")), "{seen}");
        says(r#"{"found": true, "lines": [1001], "text": "spool.db"}"#)
    });
    let model = model.with(|profile| profile.tools = ToolUse::None);
    let document = TextDocument::new(&log(2000));
    let question = format!("cannot open spool.db: {}", "please ".repeat(20));
    let settings = ExtractSettings::default();
    let found = extract(&settings, &[&model], &document, (&question, Mode::ReadGrep));
    assert_eq!(text(&found), format!("spool.db\n\nLines: 1001\n1001: {NEEDLE}"));
    assert_eq!(found.calls.len(), 1);
}

/// Lines of other forms are not ranked.
#[test]
fn in_json_on_one_line_the_rarest_word_leads() {
    let mut items: Vec<_> = (0..500).map(|n| format!("\"an item is in shop {n}\"")).collect();
    items.insert(300, "\"sold out since the flood\"".to_owned());
    let document = TextDocument::new(&format!("[{}]", items.join(", ")));
    let model = Scripted::new("a", |request| {
        let seen = last_text(request);
        assert!(seen.contains("302:   \"sold out since the flood\""), "{seen}");
        says(r#"{"found": true, "lines": [302], "text": "the flood"}"#)
    });
    let model = model.with(|profile| profile.tools = ToolUse::None);
    let asked = ("Since when is an item sold in a shop?", Mode::ReadGrep);
    let found = extract(&ExtractSettings::default(), &[&model], &document, asked);
    assert_eq!(found.answer.unwrap().found, Some(true));
    assert_eq!(found.calls.len(), 1);
}
