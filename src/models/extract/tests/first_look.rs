//! Tests the first look of the reading agent.

use super::{NEEDLE, log, text};
use crate::extract::fixture::{Scripted, TextDocument, extract, last_text, says};
use crate::extract::{
    ExtractSettings, Extraction, Mode, ModelFailure, ModelReply, ModelRequest, ToolUse, Turn,
};

/// If the words of the question lead to the line, the answer takes only one turn.
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

/// Only unchanged lines are ranked; in other forms, the rarest word is searched for.
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

const GREP: &str =
    r#"{"found": false, "look": "grep", "pattern": "request 7 in", "ignore_case": false}"#;

/// Lines that the model has passed over are shown again only when it must choose from all lines.
#[test]
fn lines_without_the_answer_are_not_sent_again() {
    let model = Scripted::new("a", |request| match &request.turns[..] {
        [_, _, Turn::User(first)] => {
            assert!(first.contains(NEEDLE), "{first}");
            // Find was just used, so it is not offered.
            assert_eq!(forms(request).len(), 3);
            says(GREP)
        }
        [_, _, Turn::User(first), _, _] => {
            assert_eq!(first, "(lines none of which holds the answer)");
            let lines = &forms(request)[0]["properties"]["lines"]["items"]["enum"];
            assert!(!lines.to_string().contains("1001"), "{lines}");
            assert_eq!(forms(request).len(), 4);
            says(GREP)
        }
        [Turn::User(last)] => {
            let has_both =
                last.contains(&format!("1001: {NEEDLE}")) && last.contains("request 7 in");
            assert!(has_both && forms(request).len() == 1, "{last}");
            says(r#"{"found": true, "lines": [1001], "text": "spool.db"}"#)
        }
        turns => panic!("{turns:?}"),
    });
    let model = model.with(|profile| profile.tools = ToolUse::None);
    let document = TextDocument::new(&log(2000));
    let asked = ("cannot open spool.db", Mode::ReadGrep);
    let found = extract(&ExtractSettings::default(), &[&model], &document, asked);
    assert_eq!(text(&found), format!("spool.db\n\nLines: 1001\n1001: {NEEDLE}"));
    assert_eq!(found.calls.len(), 3);
}

/// A model without any lines would invent an answer.
#[test]
fn looks_that_show_nothing_end_without_an_answer() {
    for content in [String::new(), log(2000)] {
        let model = Scripted::new("a", |request| {
            let looks =
                forms(request).iter().all(|form| form["properties"]["found"]["const"] == false);
            assert!(looks, "{:?}", request.schema);
            says(r#"{"found": false, "look": "find", "words": "xyzzy"}"#)
        });
        let model = model.with(|profile| profile.tools = ToolUse::None);
        let (document, asked) = (TextDocument::new(&content), ("Xyzzy?", Mode::ReadGrep));
        let found = extract(&ExtractSettings::default(), &[&model], &document, asked);
        assert!(text(&found).starts_with("NO RELEVANT DATA FOUND"), "{}", text(&found));
        assert_eq!(found.answer.unwrap().found, Some(false));
        assert_eq!(found.calls.len(), 3);
    }
}

/// Asks a model without tools about a log. The model follows a script, and its context has
/// `context` tokens.
fn asked(
    context: u64,
    question: &str,
    script: impl Fn(&ModelRequest) -> Result<ModelReply, ModelFailure> + Send + Sync + 'static,
) -> Extraction {
    let model = Scripted::new("a", script).with(|profile| {
        (profile.tools, profile.context_tokens) = (ToolUse::None, context);
    });
    let long = log(2000).replace("handled", &"handled ".repeat(50));
    let (document, asked) = (TextDocument::new(&long), (question, Mode::ReadGrep));
    extract(&ExtractSettings::default(), &[&model], &document, asked)
}

/// Some endpoints do not enforce the schema.
#[test]
fn what_a_model_says_that_has_seen_no_line_is_no_answer() {
    let made_up = r#"{"found": true, "text": "spool.db", "lines": [7]}"#;
    let found = asked(4000, "Xyzzy?", move |_| says(made_up));
    let told = text(&found);
    assert!(told.starts_with("NO RELEVANT DATA FOUND. No look has shown a line."), "{told}");
    assert_eq!((found.answer.unwrap().found, found.calls.len()), (Some(false), 1));
}

#[test]
fn an_answer_that_says_that_nothing_is_found_is_none() {
    for (reply, begin) in [
        (r#"{"found": false, "text": "It is a log."}"#, "NO RELEVANT DATA FOUND. It is a log."),
        (r#"{"found": false, "text": "NO RELEVANT DATA FOUND"}"#, "NO RELEVANT DATA FOUND\n"),
    ] {
        let found = asked(4000, "handled request", move |_| says(reply));
        assert!(text(&found).starts_with(begin), "{}", text(&found));
        assert_eq!(found.answer.unwrap().found, Some(false));
    }
}

/// A schema without forms would permit no reply.
#[test]
fn the_last_turn_has_an_answer_to_give_however_small_the_context() {
    for context in [1, 500, 700, 900, 1200, 2000, 4000] {
        let found = asked(context, "handled request", |request| {
            assert!(!forms(request).is_empty(), "{:?}", request.schema);
            says(r#"{"found": false, "look": "find", "words": "xyzzy"}"#)
        });
        assert!(found.answer.is_err(), "{found:?}");
    }
}

/// Returns the forms that the next reply may have.
fn forms(request: &ModelRequest) -> &[serde_json::Value] {
    request.schema.as_ref().unwrap()["oneOf"].as_array().unwrap()
}
