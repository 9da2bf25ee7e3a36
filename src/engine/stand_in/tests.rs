//! Tests that no view and no stand-in shows a secret, in any form in which it may be written.

use std::ffi::OsStr;

use proptest::prelude::*;

use super::*;
use ctxfs_core::model::Provenance;
use ctxfs_core::redact::samples::{Sample, WrittenForm, rules, samples, written_form};
use ctxfs_view::fixture::{InProcess, every_view};
use ctxfs_view::{Derived, ViewDir};

/// The kind of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Log,
    Json,
}

fn secrets() -> Secrets {
    Secrets(Some(Redaction { rules: Arc::new(rules()), stored: false }))
}

/// Returns an output with a secret at a given place in it.
fn output(sample: &Sample, form: &WrittenForm, kind: Kind, lines: (usize, usize)) -> Vec<u8> {
    let text = form.of(&format!("it is an error:\n{}\nafter it", sample.text()));
    let filler = |lines| "a line of \"words\" with \\n and C:\\temp\n".repeat(lines);
    let (before, after) = (filler(lines.0), filler(lines.1));
    if kind != Kind::Json {
        return format!("{before}{text}\n{after}").into_bytes();
    }
    // Adds another level of escapes, in a value and in the name of a member.
    let string = |text: &str| serde_json::Value::from(text).to_string();
    let name: String = text.chars().take(2000).collect();
    let (value, name) = (string(&(before + &text + &after)), string(&name));
    format!("{{\"value\": {value}, {name}: [1, {name}]}}\n").into_bytes()
}

fn shown(secrets: &Secrets, bytes: Vec<u8>, kind: Kind, said: &Sample) -> ShownFile<'static> {
    let path = RelPath::new("artifacts/tool/9f3k.txt").unwrap();
    let said = said.text().replace(['\n', '\r'], " ");
    let provenance = Provenance {
        call: Some(said.clone()),
        agent: Some(said.clone()),
        agent_type: Some(said.clone()),
        tool: Some(said.clone()),
        server: Some(said.clone()),
        args: Some(serde_json::json!({ "said": said }).to_string()),
        exit_code: Some(1),
        mime: Some(said),
        ..Provenance::default()
    };
    let size = bytes.len() as u64;
    let record = Record { path: path.to_text(), provenance, size, ..Record::default() };
    let place = Place::new("/ctx", "c7", &path);
    let (limits, same_name) = (Limits::default(), Vec::new());
    let facts = FileFacts { record, place, limits, same_name };
    let analysis = if kind == Kind::Log { analyze_log(&bytes) } else { analyze(&bytes) }.unwrap();
    if analysis.plain.is_none() {
        return ShownFile::new(secrets, Box::new(bytes), Arc::new(analysis), facts);
    }
    let analysis = Arc::new(analysis.of_text());
    let text = PlainText::whole(bytes, analysis.reading).unwrap();
    ShownFile::new(secrets, Box::new(text), analysis, facts)
}

/// Asserts that no view and no stand-in of `subject` shows the secret.
fn assert_hidden(sample: &Sample, subject: &Subject<'_>) {
    for view in every_view() {
        let mut text = Vec::new();
        let Ok(rendered) = ctxfs_view::render(&view, subject, &|| false, &mut text) else {
            continue;
        };
        text.extend(rendered.notice.unwrap_or_default().into_bytes());
        sample.assert_hidden(&text, &view.to_string());
    }
    for form in [Form::Summary, Form::Envelope, Form::Handle, Form::Preview] {
        let audience = Audience { tools: &[], is_stored: &|_| false, above: b"" };
        let answer = ctxfs_view::stand_in_always(form, subject, &audience).unwrap();
        if let StandIn::Replaced(text) = answer {
            sample.assert_hidden(text.as_bytes(), &format!("{form:?}"));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn no_view_shows_a_secret(
        sample in prop::sample::select(samples()),
        form in written_form(),
        kind in prop::sample::select(vec![Kind::Text, Kind::Log, Kind::Json]),
        lines in (prop_oneof![Just(0_usize), 0..9_usize, 90..400_usize], 0..300_usize),
    ) {
        let secrets = secrets();
        let bytes = output(&sample, &form, kind, lines);
        let file = shown(&secrets, bytes, kind, &sample);
        file.with_subject(&secrets, &InProcess, |subject| assert_hidden(&sample, subject));
    }
}

fn view_in(dir: ViewDir, name: &str) -> View {
    let Derived::File(view) = dir.child(OsStr::new(name)).unwrap().derived else {
        panic!("{name} is a directory")
    };
    view
}

/// A filter may assemble a secret from parts, and may decode a text in which no rule finds it.
#[test]
fn a_filter_makes_no_secret() {
    let sample = Sample {
        before: String::new(),
        secret: concat!("AKI", "AQYLPMN5HHHFPZAM2").to_owned(),
        after: String::new(),
    };
    let secrets = secrets();
    let (first, rest) = sample.secret.split_at(9);
    let text = format!(
        "{{\"parts\": [\"{first}\", \"{rest}\"], \"base64\": \"QUtJQVFZTFBNTjVISEhGUFpBTTI=\", \
         \"escaped\": \"\\u0041{}\"}}\n",
        &sample.secret[1..]
    );
    let other = Sample { secret: "x".to_owned(), ..sample.clone() };
    let file = shown(&secrets, text.into_bytes(), Kind::Json, &other);
    for filter in ["-r .parts|add", "-r .base64|@base64d", ".parts|add|error", "-m0 .escaped"] {
        let view = view_in(ViewDir::Jq, filter);
        let mut text = Vec::new();
        let rendered = file.with_subject(&secrets, &InProcess, |subject| {
            ctxfs_view::render(&view, subject, &|| false, &mut text).unwrap()
        });
        text.extend(rendered.notice.unwrap_or_default().into_bytes());
        sample.assert_hidden(&text, filter);
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("[redacted:aws-key]"), "{filter}: {text}");
    }
}

/// Searches and measurements work on the masked text.
#[test]
fn no_question_tells_a_secret() {
    let secret = concat!("AKI", "AQYLPMN5HHHFPZAM2");
    let text = |secret: &str| format!("{{\"id\": \"x\\u0020{secret}\", \"n\": 1}}\n").into_bytes();
    let said = samples().remove(1);
    let views = ["id.*AKIA", "-c [A-Z0-9]{20}", "-o AKIA.*", "-m0 -v AKIA"]
        .map(|query| view_in(ViewDir::Grep, query));
    let finds = ["id n", "AKIA", "x 20"].map(|words| view_in(ViewDir::Find, words));
    let filters =
        [".id|length", ".id|test(\"AKIA\")", ".id[2:6]", ".id|explode", "[.id,.]|tostring"]
            .map(|filter| view_in(ViewDir::Jq, filter));
    for view in views.iter().chain(&finds).chain(&filters) {
        let answer = |secret: &str| {
            let secrets = secrets();
            let file = shown(&secrets, text(secret), Kind::Json, &said);
            let mut text = Vec::new();
            let rendered = file.with_subject(&secrets, &InProcess, |subject| {
                ctxfs_view::render(view, subject, &|| false, &mut text).unwrap()
            });
            (String::from_utf8(text).unwrap(), rendered)
        };
        let other = concat!("AKI", "A2222222222222222");
        assert_eq!(answer(secret), answer(other), "{view} tells one from another");
    }
}
