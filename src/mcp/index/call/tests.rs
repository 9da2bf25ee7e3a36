use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::index::tests::fixture;

fn read(call: &Value) -> Result<(String, Value), String> {
    let index = fixture::index();
    let call = Call::read(&index, call).map_err(|error| error.to_string())?;
    Ok((call.tool.name.clone(), Value::Object(call.arguments)))
}

fn check(call: &Value) -> Result<(), String> {
    let index = fixture::index();
    Call::read(&index, call).unwrap().check().map_err(|error| error.to_string())
}

#[test]
fn arguments_are_found_in_every_form() {
    let expected = json!({"q": "x", "page": 2});
    let forms = [
        json!({"name": "search_issues", "arguments": {"q": "x", "page": 2}}),
        json!({"name": "search_issues", "arguments": "{\"q\": \"x\", \"page\": 2}"}),
        json!({"name": "search_issues", "q": "x", "page": 2}),
        json!({"name": "search_issues", "arguments": {"q": "x"}, "page": 2}),
        json!({"name": "search_issues", "arguments": {"q": "x", "page": 2}, "why": "because", "q": "y"}),
        json!({"name": "search_issues", "arguments": null, "q": "x", "page": 2}),
        json!(r#"{"name": " search_issues ", "arguments": {"q": "x", "page": 2}}"#),
    ];
    for form in forms {
        assert_eq!(
            read(&form),
            Ok(("github__search_issues".to_owned(), expected.clone())),
            "{form}"
        );
    }
    for form in
        [json!({"name": "github__list_all"}), json!({"name": "github__list_all", "arguments": ""})]
    {
        assert_eq!(read(&form), Ok(("github__list_all".to_owned(), json!({}))));
    }
    // The tool has an argument `name`. The call's own `name` must not fill it.
    let form = json!({"name": "read_file", "path": "/x"});
    assert_eq!(read(&form), Ok(("fs__read_file".to_owned(), json!({"path": "/x"}))));
    let form = json!({"name": "read_file", "arguments": {"path": "/x", "name": "n"}});
    assert_eq!(read(&form).unwrap().1["name"], "n");
}

#[test]
fn what_is_no_call_says_what_would_be() {
    let table = [
        (json!(3), "a call must be {\"name\": ..., \"arguments\": {...}}"),
        (json!({"arguments": {}}), "a call must be {\"name\": ..., \"arguments\": {...}}"),
        (json!("search"), "a call must be {\"name\": ..., \"arguments\": {...}}"),
        (
            json!({"name": "searchissues"}),
            "there is no tool `searchissues`; did you mean `github__search_issues`?",
        ),
        (
            json!({"name": "list_all"}),
            "there is no tool `list_all`; did you mean one of `fs__list_all`, `github__list_all`?",
        ),
        (
            json!({"name": "q\u{202e}"}),
            "there is no tool `q\\u{202e}`; `get_tool_details` without names lists all",
        ),
        (
            json!({"name": "search_issues", "arguments": [1]}),
            "`arguments` of `github__search_issues` must be an object; it takes: q: string, \
             page?: integer",
        ),
        (
            json!({"name": "search_issues", "arguments": "x y"}),
            "`arguments` of `github__search_issues` must be an object; it takes: q: string, \
             page?: integer",
        ),
    ];
    for (call, expected) in table {
        assert_eq!(read(&call), Err(expected.to_owned()), "{call}");
    }
}

#[test]
fn arguments_that_do_not_fit_say_what_would() {
    let call = json!({"name": "search_issues", "arguments": {"Q": "x", "page": 0}});
    let error = check(&call).unwrap_err();
    assert!(error.starts_with("the call of `github__search_issues` was not made: "), "{error}");
    assert!(error.contains("the call cannot have `Q`; did you mean `q`?"), "{error}");
    assert!(error.contains("`page` must be at least 1, not 0"), "{error}");
    assert!(error.contains("the call lacks `q`"), "{error}");
    assert!(error.ends_with("it takes: q: string, page?: integer"), "{error}");
    assert_eq!(check(&json!({"name": "search_issues", "q": "x"})), Ok(()));
    assert_eq!(check(&json!({"name": "fs__list_all", "anything": [1]})), Ok(()));
}

#[test]
fn calls_come_as_a_list_one_or_json() {
    let one = json!({"name": "x"});
    let all = Some(vec![one.clone()]);
    for form in
        [json!([one]), one.clone(), json!("[{\"name\": \"x\"}]"), json!("{\"name\": \"x\"}")]
    {
        assert_eq!(calls_of(&form), all, "{form}");
    }
    for form in [json!(null), json!(3), json!("x"), json!("3")] {
        assert_eq!(calls_of(&form), None, "{form}");
    }
}

proptest! {
    #[test]
    fn any_call_is_read(name in any::<String>(), text in any::<String>()) {
        let _read = read(&json!({"name": name, "arguments": text}));
        let _read = read(&Value::String(text));
    }
}
