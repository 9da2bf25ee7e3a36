//! Tests.

use proptest::prelude::*;

use crate::hooks::Host;

use super::*;

const GROUPED: HookDialect =
    HookDialect { command: "command", timeout: "timeout", minute: 60, grouped: true };
const FLAT: HookDialect =
    HookDialect { command: "bash", timeout: "timeoutSec", minute: 60, grouped: false };

fn hook(event: &'static str, matcher: Option<&'static str>, program: &str) -> JsonEntry {
    let command = format!("{program} hook claude-code");
    let host = Host::ClaudeCode;
    JsonEntry::Hook(HookEntry { host, event, matcher, command, dialect: &GROUPED })
}

fn entries_of(program: &str) -> Vec<JsonEntry> {
    let read = TextEntry { path: &["permissions", "allow"], text: "Read(//ctx/**)".to_owned() };
    vec![
        hook("PostToolUse", Some("Bash|mcp__.*"), program),
        hook("SessionStart", None, program),
        JsonEntry::Text(read),
    ]
}

fn entries() -> Vec<JsonEntry> {
    entries_of("/usr/bin/ctxfs")
}

fn round(text: &str) -> String {
    let installed = with(text, &entries()).unwrap();
    assert_eq!(with(&installed, &entries()).unwrap(), installed, "twice");
    assert!(hook_words(&installed, &entries()).unwrap().is_some());
    without(&installed, &entries(), None).unwrap()
}

#[test]
fn a_new_file_is_laid_out() {
    let installed = with("{}\n", &entries()[1..]).unwrap();
    let wanted = r#"{
  "hooks": {
    "SessionStart": [
      {
        "hooks": [
          {
            "type": "command",
            "command": "/usr/bin/ctxfs hook claude-code",
            "timeout": 60
          }
        ]
      }
    ]
  },
  "permissions": {
    "allow": ["Read(//ctx/**)"]
  }
}
"#;
    assert_eq!(installed, wanted);
}

#[test]
fn all_else_stays_without_a_copy() {
    for text in [
        "{}",
        "{}\n",
        "\u{feff}{\n  \"a\": 1\n}\n",
        "// c\n{\n  // in\n}\n// d",
        "{\r\n\t\"a\": 1\r\n}\r\n",
        "{\n    \"a\": 1, // x\n    \"b\": [1,2,],\n}",
        "{\n  \"a\": 1\n  // last\n}\n",
        "{\n  \"hooks\": {\n    \"PostToolUse\": [\n      {\"matcher\": \"X\", \"hooks\": []}\n    ]\n  }\n}",
        "{\n  \"permissions\": {\"allow\": [\"A\"]}\n}",
        "{\n  \"hooks\": {\n    \"PostToolUse\": [\n      {\n        \"matcher\": \"Bash|mcp__.*\",\n        \
         \"hooks\": [\n          { \"type\": \"command\", \"command\": \"x\" }\n        ]\n      }\n    ]\n  }\n}",
    ] {
        assert_eq!(round(text), text);
    }
}

#[test]
fn empty_places_stay_if_they_were_there() {
    for text in [
        "{\"hooks\":{\"PostToolUse\":[]},\"permissions\":{\"allow\":[]}}",
        "{\n  \"hooks\": {},\n  \"permissions\": {}\n}\n",
    ] {
        let installed = with(text, &entries()).unwrap();
        let bare = without(&installed, &entries(), Some(text)).unwrap();
        assert_eq!(squeezed(&bare), squeezed(text));
    }
}

fn squeezed(text: &str) -> String {
    text.split_whitespace().collect()
}

#[test]
fn another_path_is_replaced_in_place() {
    let text = "{\n  \"hooks\": {},\n  \"z\": 1\n}\n";
    let old = with(text, &entries_of("/old/place/ctxfs")).unwrap();
    let new = with(&old, &entries_of("'/new place/ctxfs'")).unwrap();
    assert_eq!(new, old.replace("/old/place/ctxfs", "'/new place/ctxfs'"));
    assert_eq!(without(&new, &entries(), None).unwrap(), without(&old, &entries(), None).unwrap());
}

#[test]
fn what_an_older_ctxfs_had_elsewhere_goes() {
    let old = [hook("PreToolUse", Some("Bash"), "ctxfs"), hook("SessionStart", None, "ctxfs")];
    let text = with("{}", &old).unwrap();
    assert_eq!(with(&text, &entries()).unwrap(), with("{}", &entries()).unwrap());
}

#[test]
fn arguments_of_their_own_are_known() {
    let text = r#"{"hooks": {"SessionStart": [{"hooks": [
        {"type": "command", "command": "/x/ctxfs", "args": ["hook", "claude-code"]}]}]}}"#;
    assert!(hook_words(text, &entries()).unwrap().is_some());
    assert_eq!(without(text, &entries(), None).unwrap(), "{}");
}

#[test]
fn others_in_a_group_of_ours_stay() {
    let text = with("{}", &entries()[1..2]).unwrap();
    let theirs = "{ \"type\": \"command\", \"command\": \"theirs\" }";
    let both = text.replace("\"hooks\": [\n", &format!("\"hooks\": [\n            {theirs},\n"));
    assert_ne!(both, text);
    let left = without(&both, &entries(), None).unwrap();
    assert!(left.contains(theirs) && !left.contains("ctxfs"), "{left}");
}

#[test]
fn hooks_of_other_hosts_are_not_ours() {
    let text = with("{}", &entries()).unwrap().replace("claude-code", "codex");
    let text = text.replace("Read(//ctx/**)", "Read(//other/**)");
    assert!(hook_words(&text, &entries()).unwrap().is_none());
    assert_eq!(without(&text, &entries(), None).unwrap(), text);
}

#[test]
fn flat_lists_have_no_groups() {
    let JsonEntry::Hook(hook) = hook("postToolUse", None, "ctxfs") else { unreachable!() };
    let entry = JsonEntry::Hook(HookEntry { dialect: &FLAT, ..hook });
    let entries = [entry, JsonEntry::Demanded("version", 1)];
    let text = with("{}", &entries).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let wanted = serde_json::json!({ "version": 1, "hooks": { "postToolUse": [
        { "type": "command", "bash": "ctxfs hook claude-code", "timeoutSec": 60 } ] } });
    assert_eq!(value, wanted);
    assert!(text.find("version").unwrap() < text.find("hooks").unwrap());
    assert_eq!(without(&text, &entries, None).unwrap(), "{}");
    let before = "{\"version\": 1}";
    assert_eq!(squeezed(&without(&text, &entries, Some(before)).unwrap()), "{\"version\":1}");
}

#[test]
fn a_permission_may_be_general() {
    let path = &["permission", "external_directory"];
    let name = "/ctx/**".to_owned();
    let entry = MemberEntry { path, name, value: "allow", is_optional: false };
    let optional = [JsonEntry::Member(MemberEntry { is_optional: true, ..entry.clone() })];
    let entries = [JsonEntry::Member(entry)];
    let wanted = "{\n  \"permission\": {\n    \"external_directory\": {\n      \"/ctx/**\": \
                  \"allow\"\n    }\n  }\n}";
    assert_eq!(with("{}", &entries).unwrap(), wanted);
    for text in [
        "{\"permission\": \"allow\"}",
        "{\"permission\": {\"external_directory\": \"allow\"}}",
        "{\"permission\": {\"external_directory\": {\"/ctx/**\": \"allow\"}}}",
    ] {
        assert_eq!(with(text, &entries).unwrap(), text);
        assert_eq!(without(text, &entries, Some(text)).unwrap(), text);
    }
    let refused = |text| with(text, &entries).unwrap_err().to_string();
    let text = "{\"permission\": {\"external_directory\": {\"/ctx/**\": \"deny\"}}}";
    assert_eq!(refused(text), "`permission.external_directory./ctx/**` is not `allow`");
    assert_eq!(refused("{\"permission\": \"ask\"}"), "`permission` is not an object");
    let text = "{\"permission\": \"ask\"}";
    assert_eq!(with(text, &optional).unwrap(), text);
    assert_eq!(without(text, &optional, Some(text)).unwrap(), text);
}

#[test]
fn unknown_shapes_are_refused() {
    for (text, why) in [
        ("[]", "it is not an object"),
        ("1", "it is not an object"),
        ("{\"hooks\": []}", "`hooks` is not an object"),
        ("{\"hooks\": null}", "`hooks` is not an object"),
        ("{\"hooks\": {\"PostToolUse\": {}}}", "`hooks.PostToolUse` is not a list"),
        ("{\"hooks\": {\"SessionStart\": [1]}}", "`hooks.SessionStart.0` is not an object"),
        ("{\"hooks\": {\"SessionStart\": [{}]}}", "`hooks.SessionStart.0` has no list `hooks`"),
        (
            "{\"hooks\": {\"SessionStart\": [{\"hooks\": [\"x\"]}]}}",
            "`hooks.SessionStart.0` has something else than objects in its list `hooks`",
        ),
        ("{\"permissions\": {\"allow\": \"all\"}}", "`permissions.allow` is not a list"),
        ("{\"hooks\": {}, \"hooks\": {}}", "`hooks` is there more than once"),
    ] {
        assert_eq!(with(text, &entries()).unwrap_err().to_string(), why);
    }
}

#[test]
fn what_is_no_json_is_refused_with_its_place() {
    for text in ["{", "{\n  \"a\" 1\n}", "{a: 1}", "{'a': 1}", "{\"a\": 1} x", "{\"a\": 0x1}"] {
        let why = with(text, &entries()).unwrap_err().to_string();
        assert!(why.contains("not valid JSON") && why.contains("line"), "{text}: {why}");
    }
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    assert!(with(&deep, &entries()).unwrap_err().to_string().contains("nesting"));
}

fn space() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just(" ".to_owned()),
        Just("\n  ".to_owned()),
        Just("\r\n\t".to_owned()),
        Just(" // c\n".to_owned()),
        Just("/* { */".to_owned()),
    ]
}

fn spaced(inner: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    (space(), inner, space()).prop_map(|(a, inner, b)| a + &inner + &b)
}

/// Generates files that contain some of the members that `install` examines.
fn file() -> impl Strategy<Value = String> {
    let call = "\\{\"command\": \"(x|ctxfs hook codex)\"\\}";
    let list = |inner| prop::collection::vec(spaced(inner), 0..3).prop_map(|all| all.join(","));
    let group = list(call.prop_map(String::from).boxed())
        .prop_map(|calls| format!("{{\"matcher\": \"Bash\", \"hooks\": [{calls}]}}"));
    let event = list(group.boxed());
    let name = prop::sample::select(vec!["SessionStart", "PreToolUse"]);
    let hooks = (name, event).prop_map(|(name, groups)| format!("\"{name}\": [{groups}]"));
    let text = prop::sample::select(vec!["\"A\"", "\"Read(//ctx/**)\"", "\"\u{e9}\\n\""]);
    let rules = list(text.prop_map(str::to_owned).boxed());
    let rules =
        rules.prop_map(|rules| format!("\"permissions\": {{\"allow\": [{rules}]}}")).boxed();
    let hooks = spaced(hooks).prop_map(|hooks| format!("\"hooks\": {{{hooks}}}")).boxed();
    let members = prop_oneof![
        Just(String::new()),
        spaced(hooks.clone()),
        spaced(rules.clone()),
        (spaced(hooks), spaced(rules)).prop_map(|(hooks, rules)| format!("{rules},{hooks}")),
    ];
    spaced(members.prop_map(|members| format!("{{{members}}}")))
}

proptest! {
    #[test]
    fn any_file_keeps_its_own(text in file()) {
        let options = jsonc_parser::ParseOptions::default();
        let value = |text| jsonc_parser::parse_to_value(text, &options).unwrap();
        let installed = with(&text, &entries()).unwrap();
        prop_assert_eq!(&with(&installed, &entries()).unwrap(), &installed);
        let bare = without(&text, &entries(), Some(&text)).unwrap();
        let back = without(&installed, &entries(), Some(&text)).unwrap();
        prop_assert_eq!(value(&back), value(&bare), "{}", installed);
    }
}
