//! Tests.

use super::*;

const PROGRAM: &str = "/usr/bin/ctxfs";

fn servers(path: &str, form: ServersForm) -> WrappedServers {
    let dialect = ServersDialect { path: vec![path.to_owned()], form };
    WrappedServers { dialect, program: PROGRAM.to_owned(), store: NamedStore::Former, only: None }
}

fn usual() -> WrappedServers {
    servers("mcpServers", ServersForm::Json)
}

/// Asserts that the words are added only once, and that they can be removed without a copy of the
/// file.
fn round(servers: &WrappedServers, text: &str) -> String {
    let wrapped = servers.with(text).unwrap();
    assert_ne!(wrapped, text);
    assert!(servers.line_in(&wrapped).unwrap().is_some(), "{wrapped}");
    assert_eq!(servers.with(&wrapped).unwrap(), wrapped);
    assert_eq!(servers.without(&wrapped, None).unwrap(), text, "{wrapped}");
    assert_eq!(servers.without(text, None).unwrap(), text);
    wrapped
}

#[test]
fn json_on_one_line() {
    let text = r#"{"mcpServers": {"a b": {"command": "n\u0070x", "args": ["-y", "x"]}}}"#;
    let wanted = r#"{"mcpServers": {"a b": {"command": "/usr/bin/ctxfs", "args": ["mcp", "--name", "a b", "--timeout", "0", "--", "n\u0070x", "-y", "x"]}}}"#;
    assert_eq!(round(&usual(), text), wanted);
}

#[test]
fn json_without_arguments() {
    let text = "{\r\n\t\"mcpServers\": {\r\n\t\t\"s\": {\r\n\t\t\t\"command\": \"./s\", // c\r\n\t\t\t\"env\": {}\r\n\t\t}\r\n\t}\r\n}";
    let wrapped = round(&usual(), text);
    let wanted = "\"command\": \"/usr/bin/ctxfs\",\r\n\t\t\t\"args\": [\"mcp\", \"--name\", \"s\", \"--timeout\", \"0\", \"--\", \"./s\"], // c\r\n";
    assert!(wrapped.contains(wanted), "{wrapped}");
}

#[test]
fn json_of_all_kinds() {
    for server in [
        r#"{"command": "x"}"#,
        r#"{"command":"x","args":["a",]}"#,
        r#"{"args": ["a"], "command": "x"}"#,
        "{\"command\": \"x\", \"args\": [\n  \"a\",\n  \"b\"\n]}",
        "{\"command\": \"x\", \"args\": [ // c\n  /* d */ \"a\" // e\n]}",
        "{\n  // c\n  \"type\": \"stdio\",\n  \"command\": \"x\", // d\n}",
        "{\"command\": \"x\", \"url\": null, \"type\": \"local\", \"args\": [\"\", 1, null]}",
        "{\"args\": [], \"command\": \"x\"}",
        "{\"command\": \"x\", \"args\":[ /* none */ ]}",
        "{\"command\": \"x\", \"args\": [\n]}",
    ] {
        for mark in ["", "\u{feff}"] {
            let text = format!("{mark}{{\"mcpServers\": {{\"s\": {server}, \"t\": {server}}}}}\n");
            round(&usual(), &text);
            round(&usual(), &text.replace('\n', "\r\n"));
        }
    }
}

#[test]
fn an_empty_list_of_before_stays() {
    let text = r#"{"mcpServers": {"s": {"command": "x", "args": []}}}"#;
    let wrapped = usual().with(text).unwrap();
    let changed = wrapped.replacen('{', "{\"theirs\": 1, ", 1);
    let left = usual().without(&changed, Some(text)).unwrap();
    assert_eq!(left, text.replacen('{', "{\"theirs\": 1, ", 1));
    // Without a copy, an empty list is not restored.
    assert!(!usual().without(&wrapped, None).unwrap().contains("args"));
}

#[test]
fn a_printer_may_have_been_at_it() {
    let text = r#"{"mcpServers":{"s":{"command":"x","args":["a"]},"t":{"command":"y"}}}"#;
    let wrapped: serde_json::Value = serde_json::from_str(&usual().with(text).unwrap()).unwrap();
    let left = usual().without(&format!("{wrapped:#}"), Some(text)).unwrap();
    let left: serde_json::Value = serde_json::from_str(&left).unwrap();
    assert_eq!(
        left,
        serde_json::json!({ "mcpServers": {
        "s": { "command": "x", "args": ["a"] }, "t": { "command": "y", "args": [] } } })
    );
}

#[test]
fn lists_of_opencode() {
    let opencode = servers("mcp", ServersForm::JsonList);
    let text = "{\"mcp\": {\"s\": {\"type\": \"local\", \"command\": [\n  \"npx\",\n  \"x\"\n]}}}";
    let wrapped = round(&opencode, text);
    let wanted = "[\n  \"/usr/bin/ctxfs\", \"mcp\", \"--name\", \"s\", \"--timeout\", \"0\", \"--\",\n  \"npx\",\n";
    assert!(wrapped.contains(wanted), "{wrapped}");
    round(&opencode, r#"{"mcp": {"s": {"command": ["x",],}}}"#);
}

#[test]
fn toml_of_all_kinds() {
    let codex = servers("mcp_servers", ServersForm::Toml);
    for text in [
        "[mcp_servers.s]\ncommand = \"npx\" # c\nargs = [\"-y\", \"x\"] # d\n",
        "[mcp_servers.s]\n  command = 'npx' # c",
        "[mcp_servers.s]\ncommand = \"npx\"\n\n[mcp_servers.s.env]\nA = \"1\"\n",
        "[mcp_servers.\"a.b\"]\nargs = []\ncommand = \"\"\"npx\"\"\"\n",
        "[mcp_servers.s]\ncommand = \"x\"\nargs = [\n  \"-y\", # one\n  # two\n  'z',\n]\n",
        "mcp_servers.s.command = \"npx\" # c\n[other]\n",
        "mcp_servers = { s = { command = \"npx\" }, t = { command = 'a', args = ['b'] } }\n",
        "[mcp_servers]\ns = { command = \"npx\", env = { A = \"1\" } }\nt.command = \"x\"\n",
    ] {
        for mark in ["", "\u{feff}"] {
            let text = format!("{mark}{text}");
            let wrapped = round(&codex, &text);
            let found = codex.found(&wrapped).unwrap();
            assert!(found.iter().all(|server| server.state == ServerState::Wrapped), "{found:?}");
            round(&codex, &text.replace('\n', "\r\n"));
        }
    }
    let wrapped = codex.with("a = 1\n[mcp_servers.s]\ncommand = \"npx\" # c\n").unwrap();
    let wanted = "a = 1\n[mcp_servers.s]\ncommand = \"/usr/bin/ctxfs\" # c\nargs = [\"mcp\", \"--name\", \"s\", \"--timeout\", \"0\", \"--\", \"npx\"]\n";
    assert_eq!(wrapped, wanted);
}

#[test]
fn a_line_that_differs_is_renewed() {
    let text = r#"{"mcpServers": {"s": {"command": "x"}, "t": {"command": "y", "args": ["z"]}}}"#;
    let given = |store: NamedStore| WrappedServers { store, ..usual() };
    let named = given(NamedStore::Given("/my data".to_owned())).with(text).unwrap();
    assert!(named.contains(r#"["mcp", "--store", "/my data", "--name", "t","#), "{named}");
    assert_eq!(usual().with(&named).unwrap(), named);
    let moved = WrappedServers { program: "/new/ctxfs".to_owned(), ..usual() };
    assert_eq!(moved.with(&named).unwrap(), named.replace(PROGRAM, "/new/ctxfs"));
    assert_eq!(given(NamedStore::Found).with(&named).unwrap(), usual().with(text).unwrap());
    assert_eq!(usual().without(&named, None).unwrap(), text);
}

#[test]
fn others_stay_as_they_are() {
    let text = r#"{"mcpServers": {"a": {"url": "http://x"}, "b": {"type": "sse", "command": "x"},
        "c": {"httpUrl": "http://x"}, "d": {}, "e": {"command": "ctxfs", "args": ["mcp", "--", "x"]},
        "f": {"command": "npx", "args": ["ctxfs", "mcp"]}}}"#;
    assert_eq!(usual().with(text).unwrap(), text);
    assert_eq!(usual().without(text, None).unwrap(), text);
    let states: Vec<_> = usual().found(text).unwrap().iter().map(|server| server.state).collect();
    let [far, none] = [ServerState::Remote, ServerState::NoCommand];
    let others = ServerState::WrappedByOthers;
    let wanted = [far, far, far, none, others, others];
    assert_eq!(states, wanted);
    for none in ["", "{}", "{\"mcpServers\": {}}"] {
        assert_eq!(usual().with(none).unwrap(), none);
    }
}

#[test]
fn one_server_alone() {
    let text = r#"{"mcpServers": {"s": {"command": "x"}, "t": {"command": 1}}}"#;
    let one = WrappedServers { only: Some("s".to_owned()), ..usual() };
    let wrapped = round(&one, text);
    assert!(wrapped.ends_with(r#""t": {"command": 1}}}"#), "{wrapped}");
    assert!(usual().with(text).is_err());
}

#[test]
fn unknown_shapes_are_refused() {
    let json = |servers: &str| {
        usual().with(&format!("{{\"mcpServers\": {servers}}}")).unwrap_err().to_string()
    };
    for (text, why) in [
        ("[]", "`mcpServers` is not an object"),
        ("{}, \"mcpServers\": {}", "`mcpServers` is there more than once"),
        ("{\"s\": []}", "`mcpServers.s` is not an object"),
        ("{\"s\": {}, \"s\": {}}", "`mcpServers.s` is there more than once"),
        ("{\"s\": {\"command\": [\"x\"]}}", "`mcpServers.s.command` is not a text"),
        ("{\"s\": {\"command\": \"x\", \"args\": \"y\"}}", "`mcpServers.s.args` is not a list"),
        ("{\"s\": {\"command\": \"x\", \"command\": \"y\"}}", "command` is there more than once"),
        ("{\"s\": }", "it is not valid JSON"),
    ] {
        assert!(json(text).contains(why), "{text}: {}", json(text));
    }
    let opencode = servers("mcp", ServersForm::JsonList);
    for text in ["\"x\"", "[]", "[1]"] {
        let text = format!("{{\"mcp\": {{\"s\": {{\"command\": {text}}}}}}}");
        opencode.with(&text).unwrap_err();
    }
    let codex = servers("mcp_servers", ServersForm::Toml);
    for (text, why) in [
        ("mcp_servers = 1", "`mcp_servers` is not a table"),
        ("mcp_servers.s = 1", "`mcp_servers.s` is not a table"),
        ("[[mcp_servers.s]]\ncommand = \"x\"", "`mcp_servers.s` is not a table"),
        ("[mcp_servers.s]\ncommand = 1", "`mcp_servers.s.command` is not a text"),
        ("[mcp_servers.s]\ncommand = \"x\"\nargs = 1", "`mcp_servers.s.args` is not a list"),
        ("mcp_servers = { s.command = \"x\" }", "is written in an unknown way"),
        ("[mcp_servers.s", "it is not valid TOML"),
    ] {
        let error = codex.with(text).unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[test]
fn examples_are_what_would_be_written() {
    for form in [ServersForm::Json, ServersForm::JsonList, ServersForm::Toml] {
        let servers = servers("a.b", form);
        let example = servers.example();
        assert_eq!(servers.with(&example).unwrap(), example);
        assert!(servers.line_in(&example).unwrap().is_some(), "{example}");
    }
}

fn split(line: &str) -> Vec<Option<&str>> {
    line.split(' ').map(Some).collect()
}

#[test]
fn words_are_known_again() {
    for (name, store) in [("s", None), ("s", Some("/my data")), ("-s", None), ("", Some("/d"))] {
        let mut words = gateway_words("/opt/ctxfs", name, store);
        let count = words.len();
        words.push("npx".to_owned());
        let words: Vec<_> = words.iter().map(|word| Some(word.as_str())).collect();
        assert_eq!(former_line(&words), Some(FormerLine { count, store }));
        assert_eq!(former_line(&words[..count]), None);
    }
}

#[test]
fn other_options_are_of_others() {
    for line in [
        "ctxfs mcp -- npx",
        "ctxfs mcp --name s -- npx",
        "ctxfs mcp -c c7 --name s --timeout 0 -- npx",
        "/opt/ctxfs mcp --name s --timeout 5 -- npx",
        "ctxfs mcp",
        "npx -y ctxfs mcp -- npx",
        "npx ctxfs@1.0 mcp",
    ] {
        assert_eq!(former_line(&split(line)), None, "{line}");
        assert!(is_gateway(&split(line)), "{line}");
    }
    for line in ["npx mcp", "ctxfs hook mcp", "myctxfs mcp", "mcp ctxfs"] {
        assert!(!is_gateway(&split(line)), "{line}");
    }
}
