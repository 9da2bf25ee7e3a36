//! Tests replies that end before their answer because the model has no tokens left.

use super::*;
use crate::extract::fixture::wrapped;

const NOT_COMPLETE: &str = "(Not complete: the model had no tokens left to answer about ";

/// Returns a reply that is cut before the closing tag of its answer.
fn cut(request: &ModelRequest, text: &str) -> Result<ModelReply, ModelFailure> {
    let whole = wrapped(request, text);
    let (until, _) = whole.rsplit_once("</").unwrap();
    Ok(ModelReply { end: ReplyEnd::Length, ..says(until)? })
}

/// Returns a reply that is cut inside an object, if the request requires an object.
fn half_action(request: &ModelRequest) -> Option<Result<ModelReply, ModelFailure>> {
    request.schema.as_ref()?;
    let half = says(r#"{"found":true,"lines":[1001],"text":"spool.db {x} and"#);
    Some(half.map(|reply| ModelReply { end: ReplyEnd::Length, ..reply }))
}

/// Asks a model about a log, which it reads in full or by looks, depending on `mode`.
fn asked(model: Scripted, lines: usize, mode: Mode) -> Extraction {
    let model = model.with(|_| {});
    let document = TextDocument::new(&log(lines));
    extract(&ExtractSettings::default(), &[&model], &document, (QUESTION, mode))
}

fn assert_says_so(found: &Extraction, parts: &str) {
    let answer = found.answer.as_ref().unwrap();
    assert!(answer.is_cut);
    assert!(answer.text.contains(&format!("{NOT_COMPLETE}{parts}.)")), "{}", answer.text);
    let [warning] = &found.warnings[..] else { panic!("{:?}", found.warnings) };
    assert!(warning.contains("`test/a` was cut at 500 tokens"), "{warning}");
    assert!(warning.contains("`max_output_tokens`"), "{warning}");
}

#[test]
fn an_answer_that_was_cut_says_so() {
    let found = asked(Scripted::new("a", |request| cut(request, "spool.db and")), 50, Mode::Auto);
    assert!(text(&found).starts_with("spool.db and"), "{}", text(&found));
    assert_says_so(&found, "all of it");
    assert_eq!(found.calls[0].ended, "length");
}

#[test]
fn an_answer_that_ended_before_the_reply_was_cut_is_whole() {
    let model = Scripted::new("a", |request| {
        let whole = answers(request, "spool.db")?;
        Ok(ModelReply { end: ReplyEnd::Length, text: whole.text + "\nand more", ..whole })
    });
    let found = asked(model, 50, Mode::Auto);
    assert!(!found.answer.unwrap().is_cut && found.warnings.is_empty());
}

#[test]
fn parts_about_which_a_reply_was_cut_are_named() {
    let model = Scripted::new("a", |request| {
        let text = last_text(request);
        if text.contains("<findings-") {
            answers(request, "spool.db: quota")
        } else if text.contains("part 2 of") {
            cut(request, "spool.db and")
        } else {
            answers(request, "worker-3 cannot open spool.db")
        }
    });
    let found = asked(model, 2000, Mode::FullChunked);
    let maps = found.calls.iter().filter(|call| call.kind == CallKind::Map).count();
    // The halves of the part, and their halves, were asked about, too.
    assert_says_so(&found, &format!("part 2 of {}", maps - 6));
}

#[test]
fn findings_stand_as_they_are_if_the_reply_that_puts_them_together_is_cut() {
    let model = Scripted::new("a", |request| {
        if last_text(request).contains("<findings-") {
            cut(request, "spool.db and")
        } else {
            answers(request, "worker-3 cannot open spool.db")
        }
    });
    let found = asked(model, 2000, Mode::FullChunked);
    let maps = found.calls.iter().filter(|call| call.kind == CallKind::Map).count();
    let answer = found.answer.as_ref().unwrap();
    assert_eq!(answer.text.matches("worker-3 cannot open spool.db\n").count(), maps - 1);
    assert!(!answer.is_cut, "{}", answer.text);
}

#[test]
fn a_part_about_which_the_reply_was_cut_is_asked_about_in_halves() {
    let model = Scripted::new("a", |request| {
        let text = last_text(request);
        if text.contains("<findings-") {
            answers(request, "all")
        } else if text.contains("a piece of part 1 of 1") {
            answers(request, "spool.db")
        } else {
            cut(request, "spool.db and")
        }
    });
    let found = asked(model, 50, Mode::FullChunked);
    assert_eq!(found.calls.len(), 4);
    assert!(!found.answer.as_ref().unwrap().is_cut && found.warnings.is_empty());
}

#[test]
fn the_answer_of_an_agent_that_was_cut_says_so() {
    let model = Scripted::new("a", |request| match request.turns.len() {
        1 => calls(&[("Find", r#"{"file":"9f3k.txt","words":"cannot open quota"}"#)]),
        _ => cut(request, "spool.db and"),
    });
    assert_says_so(&asked(model, 2000, Mode::ReadGrep), "all of it");
}

#[test]
fn an_agent_whose_answer_was_cut_is_asked_about_the_lines_in_parts() {
    let model = |cut_parts: usize| {
        let parts = std::sync::atomic::AtomicUsize::new(0);
        Scripted::new("a", move |request| {
            if !last_text(request).contains("some lines, with their numbers") {
                return match request.turns.len() {
                    1 => calls(&[("Read", r#"{"file":"9f3k.txt","from":1,"to":8}"#)]),
                    _ => cut(request, "spool.db and"),
                };
            }
            match parts.fetch_add(1, std::sync::atomic::Ordering::Relaxed) {
                part if part < cut_parts => cut(request, "spool.db and"),
                part => answers(request, &format!("spool.db is meant by part {part}")),
            }
        })
    };
    let found = asked(model(1), 2000, Mode::ReadGrep);
    let answer = found.answer.as_ref().unwrap();
    let told =
        "spool.db is meant by part 1\nspool.db is meant by part 2\nspool.db is meant by part 3";
    assert!(answer.text.starts_with(told), "{}", answer.text);
    assert!(!answer.is_cut && found.warnings.is_empty(), "{:?}", found.warnings);
    assert_says_so(&asked(model(2), 2000, Mode::ReadGrep), "all of it");
}

#[test]
fn an_agent_without_tools_whose_answer_was_cut_is_asked_about_the_lines_in_parts() {
    let model = Scripted::new("a", |request| {
        half_action(request).unwrap_or_else(|| answers(request, "spool.db"))
    });
    let model = model.with(|profile| profile.tools = ToolUse::None);
    let document = TextDocument::new(&log(2000));
    let settings = ExtractSettings::default();
    let found = extract(&settings, &[&model], &document, (QUESTION, Mode::ReadGrep));
    let answer = found.answer.as_ref().unwrap();
    assert!(answer.text.starts_with("spool.db"), "{}", answer.text);
    assert!(!answer.is_cut && found.warnings.is_empty(), "{:?}", found.warnings);
}

#[test]
fn all_parts_of_a_long_line_that_an_agent_has_seen_are_asked_about() {
    let model = Scripted::new("a", |request| match request.turns.len() {
        1 if last_text(request).contains("some lines, with their numbers") => {
            answers(request, "spool.db")
        }
        1 => calls(&[
            ("Grep", r#"{"file":"9f3k.txt","pattern":"alpha"}"#),
            ("Grep", r#"{"file":"9f3k.txt","pattern":"omega"}"#),
        ]),
        _ => cut(request, "spool.db and"),
    });
    let model = model.with(|_| {});
    let rest = "and so on ".repeat(1000);
    let long = format!("alpha {rest}omega {rest}\n");
    let document = TextDocument::new(&(long + &log(2000)));
    let settings = ExtractSettings::default();
    let found = extract(&settings, &[&model], &document, (QUESTION, Mode::ReadGrep));
    assert!(!found.answer.unwrap().is_cut);
    let asked: Vec<String> = model.asked().iter().map(last_text).collect();
    let about_lines = |text: &&String| text.contains("some lines, with their numbers");
    for seen in ["\n1: alpha ", "omega and"] {
        assert!(asked.iter().filter(about_lines).any(|text| text.contains(seen)), "{seen}");
    }
}

#[test]
fn a_model_whose_replies_end_before_an_answer_gives_none() {
    type Script = fn(&ModelRequest) -> Result<ModelReply, ModelFailure>;
    let scripts: [(Script, usize, Mode); 4] = [
        // Only thoughts, only an opening tag, and half of an object.
        (|_| Ok(ModelReply { end: ReplyEnd::Length, ..says("I think")? }), 50, Mode::FullChunked),
        (|request| cut(request, ""), 2000, Mode::FullChunked),
        (|request| half_action(request).unwrap_or_else(|| cut(request, "")), 2000, Mode::ReadGrep),
        (|request| half_action(request).unwrap_or_else(|| says("no tools")), 2000, Mode::ReadGrep),
    ];
    for (number, (script, lines, mode)) in scripts.into_iter().enumerate() {
        let document = TextDocument::new(&log(lines));
        // The second question has no words in common with the log, so the first look shows no
        // lines.
        for question in [QUESTION, "zzz"] {
            let model = Scripted::new("a", script).with(|profile| profile.tools = ToolUse::Auto);
            let asked = (question, mode);
            let found = extract(&ExtractSettings::default(), &[&model], &document, asked);
            let error = found.answer.unwrap_err();
            assert!(matches!(error, ModeError::Cut { most: 500, .. }), "{number}: {error}");
        }
    }
}
