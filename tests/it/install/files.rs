//! Settings files of all kinds: they come back byte for byte, and changes by others stay.

use std::fs;

use crate::install::Home;

/// A hook of somebody else, for the same tools as ours.
const OTHER: &str =
    r#"{ "matcher": "Bash|mcp__.*", "hooks": [{ "type": "command", "command": "other" }] }"#;

/// Settings in JSON, as editors and hosts leave them.
fn json() -> Vec<(&'static str, String)> {
    let pretty = "{\n  \"model\": \"opus\",\n  \"env\": {\n    \"A\": \"1\"\n  }\n}\n";
    let other =
        format!("{{\n  \"hooks\": {{\n    \"PostToolUse\": [\n      {OTHER}\n    ]\n  }}\n}}\n");
    let wide =
        (0..60).fold("{\n".to_owned(), |text, i| text + &format!("  \"k{i}\": [{i}, null],\n"));
    vec![
        ("empty", String::new()),
        ("a newline", "\n".into()),
        ("spaces", "  \n\n".into()),
        ("an object", "{}".into()),
        ("an object and a newline", "{}\n".into()),
        ("an object with a space", "{ }\n".into()),
        ("an object on two lines", "{\n}\n".into()),
        ("two spaces", pretty.into()),
        ("four spaces", pretty.replace("  ", "    ")),
        ("tabs", pretty.replace("  ", "\t")),
        ("CRLF", pretty.replace('\n', "\r\n")),
        ("CRLF and tabs", pretty.replace("  ", "\t").replace('\n', "\r\n")),
        ("mixed line ends", pretty.replacen('\n', "\r\n", 2)),
        ("a byte order mark", format!("\u{feff}{pretty}")),
        ("a byte order mark and CRLF", format!("\u{feff}{}", pretty.replace('\n', "\r\n"))),
        ("a byte order mark alone", "\u{feff}".into()),
        ("no final newline", pretty.trim_end().into()),
        ("many final newlines", format!("{pretty}\n\n\n")),
        ("minified", r#"{"model":"opus","env":{"A":"1"},"list":[1,2,3]}"#.into()),
        ("one line", "{ \"model\": \"opus\", \"list\": [ 1, 2 ] }\n".into()),
        ("odd spaces", "{\"a\" :1 ,\n\n\n      \"b\":[ ]  }  \n".into()),
        ("line comments", "// top\n{\n  // in\n  \"a\": 1, // beside\n  // last\n}\n// end\n".into()),
        ("block comments", "/* top */ {/* in */\"a\"/* k */:/* v */1/* end */} /* out */".into()),
        ("comments alone", "// nothing yet\n".into()),
        ("comments in an object", "{\n  // nothing yet\n}\n".into()),
        ("trailing commas", "{\n  \"a\": [1, 2,],\n  \"b\": {\"c\": 1,},\n}\n".into()),
        ("no hooks", "{\n  \"hooks\": {}\n}\n".into()),
        ("no hooks at an event", "{\"hooks\": {\"PostToolUse\": [], \"SessionStart\": []}}\n".into()),
        ("no rules", "{\"permissions\": {\"allow\": []}, \"context\": {\"includeDirectories\": []}}".into()),
        ("rules", "{\n  \"permissions\": {\n    \"allow\": [\n      \"Bash(ls)\"\n    ],\n    \"deny\": [\"Read(./.env)\"]\n  }\n}\n".into()),
        ("our rule of before", "{\"permissions\": {\"allow\": [\"Read(//ctx/**)\", \"Bash(ls)\"]}}\n".into()),
        ("a hook for the same tools", other.clone()),
        ("hooks at other events", other.replace("PostToolUse", "Stop")),
        ("hooks with comments", other.replace("[\n      {", "[ // mine\n      // first\n      {")),
        ("a minified hook", format!("{{\"hooks\":{{\"PostToolUse\":[{}]}}}}", OTHER.replace(' ', ""))),
        ("hooks with tabs and CRLF", other.replace("  ", "\t").replace('\n', "\r\n")),
        ("a hook of a like name", other.replace("\"other\"", "\"/x/notctxfs hook claude-code\"")),
        ("unicode", "{\n  \"\u{4f60}\u{597d}\": \"\u{1f980} e\u{301} \\u00e9 \\ud83d\\ude00\"\n}\n".into()),
        ("escapes", r#"{"a\\\"b": "\n\t\/", "c": "// no comment", "d": "{[,"}"#.into()),
        ("numbers", "{\"a\": -1.50e+10, \"b\": 123456789012345678901234567890, \"c\": 1.0}\n".into()),
        ("deep", format!("{{\"a\": {}{}}}\n", "[".repeat(400), "]".repeat(400))),
        ("wide", wide + "  \"end\": true\n}\n"),
        ("the same name twice, elsewhere", "{\"a\": 1, \"a\": 2}\n".into()),
        ("a very long line", format!("{{\"a\": \"{}\"}}\n", "x".repeat(100_000))),
    ]
}

/// Settings in TOML.
fn toml() -> Vec<(&'static str, String)> {
    let tables = "model = \"x\" # why\n\n[[p]]\nx = 1 # one\n\n[[p]]\nx = 2\n\n# end\n";
    let table = "[sandbox_workspace_write]\nnetwork_access = true # why\n\n[other]\na = 1\n";
    let list = "[sandbox_workspace_write]\nwritable_roots = [\n  \"/a\", # one\n  \"/b\",\n]\n";
    vec![
        ("empty", String::new()),
        ("a newline", "\n".into()),
        ("comments alone", "# nothing\n".into()),
        ("a value", "a = 1\n".into()),
        ("no final newline", "a = 1".into()),
        ("CRLF", "a = 1\r\n\r\n[b]\r\nc = 2\r\n".into()),
        ("mixed line ends", "a = 1\r\nb = 2\n".into()),
        ("a byte order mark", "\u{feff}a = 1\n".into()),
        ("arrays of tables", tables.into()),
        ("arrays of tables and CRLF", tables.replace('\n', "\r\n")),
        ("the table", table.into()),
        ("the table with CRLF", table.replace('\n', "\r\n")),
        ("the table alone", "[sandbox_workspace_write]\n".into()),
        ("the table, no final newline", "[sandbox_workspace_write]".into()),
        ("the list", list.into()),
        ("the list with tabs and CRLF", list.replace("  ", "\t").replace('\n', "\r\n")),
        ("the list, empty", "[sandbox_workspace_write]\nwritable_roots = []\n".into()),
        ("the list on one line", "[sandbox_workspace_write]\nwritable_roots = [ '/a' ]\n".into()),
        ("an inline table", "sandbox_workspace_write = { network_access = true }\n".into()),
        ("dotted keys", "sandbox_workspace_write.network_access = true\n[x]\n".into()),
        ("odd spaces", "  a=1\n\n\n [ b ] \n\tc   =  'x'\n".into()),
        ("unicode", "\"\u{4f60}\" = '''\n\u{1f980}\n'''\n".into()),
        ("hooks and their trust", "[hooks.state.\"/f:Stop:0:0\"]\ntrusted_hash = \"x\"\n".into()),
    ]
}

/// `(host, the file in the home that is there before)`.
const JSON_FILES: [(&str, &str); 5] = [
    ("claude-code", ".claude/settings.json"),
    ("codex", ".codex/hooks.json"),
    ("opencode", ".config/opencode/opencode.json"),
    ("gemini-cli", ".gemini/settings.json"),
    ("copilot", ".copilot/hooks/ctxfs.json"),
];

fn cases() -> Vec<(&'static str, &'static str, &'static str, String)> {
    let json = JSON_FILES.iter().flat_map(|&(host, file)| {
        // Each host gets each kind of layout, and one host all of them.
        let step = if host == "claude-code" { 1 } else { 3 };
        json().into_iter().step_by(step).map(move |(name, text)| (host, file, name, text))
    });
    let toml = toml().into_iter().map(|(name, text)| ("codex", ".codex/config.toml", name, text));
    let with_hooks = |host: &str, text: &str| host == "claude-code" || !text.contains("\"hooks\"");
    json.chain(toml).filter(|(host, _, _, text)| with_hooks(host, text)).collect()
}

#[test]
fn they_come_back_byte_for_byte() {
    let cases = cases();
    assert!(cases.len() > 80, "{}", cases.len());
    for (host, file, name, text) in cases {
        let home = Home::new();
        home.write(file, &text);
        let before = home.tree();
        let told = home.install(&[host]).text();
        assert!(told.contains("ctxfs") && told.contains("+++ "), "{host}, {name}: {told}");
        let installed = home.tree();
        let copy = home.path(file).with_file_name(format!(
            "{}.ctxfs.bak",
            home.path(file).file_name().unwrap().to_str().unwrap()
        ));
        assert_eq!(fs::read_to_string(copy).unwrap(), text, "{host}, {name}");

        let again = home.install(&[host]).text();
        assert!(again.starts_with("nothing to change"), "{host}, {name}: {again}");
        assert_eq!(home.tree(), installed, "{host}, {name}: twice");

        home.install(&[host, "--remove"]).text();
        assert_eq!(home.tree(), before, "{host}, {name}");
        let again = home.install(&[host, "--remove"]).text();
        assert!(again.starts_with("nothing to change"), "{host}, {name}: {again}");
        assert_eq!(home.tree(), before, "{host}, {name}: removed twice");
    }
}

#[test]
fn changes_by_others_stay() {
    for (name, text) in json() {
        let home = Home::new();
        let file = ".claude/settings.json";
        home.write(file, &text);
        home.install(&["claude-code"]).stdout();
        let theirs = "\"theirs\": {\"x\": 1}";
        let installed = home.read(file);
        let edited = installed.replacen('{', &format!("{{{theirs},"), 1);
        home.write(file, &edited);
        home.install(&["claude-code", "--remove"]).stdout();
        let left = home.read(file);
        assert!(left.contains(theirs), "{name}: {left}");
        let left = squeezed(&left).replacen(&squeezed(theirs), "", 1);
        let was = if text.contains('{') { squeezed(&text) } else { squeezed(&(text + "{}")) };
        assert_eq!(left, was, "{name}");
    }
    for (name, text) in toml() {
        let home = Home::new();
        let file = ".codex/config.toml";
        home.write(file, &text);
        home.install(&["codex"]).stdout();
        let theirs = "\n[theirs]\nx = 1\n";
        let installed = home.read(file);
        home.write(file, installed + theirs);
        home.install(&["codex", "--remove"]).stdout();
        let left = home.read(file);
        assert_eq!(squeezed(&left), squeezed(&(text + theirs)), "{name}");
    }
}

/// Returns the text without what a printer may choose.
fn squeezed(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace() && *c != ',' && *c != '\u{feff}').collect()
}

#[test]
fn a_hook_that_another_adds_to_our_group_stays() {
    let home = Home::new();
    home.install(&["claude-code"]).stdout();
    let file = ".claude/settings.json";
    let theirs = r#"{"type": "command", "command": "theirs"},"#;
    let text = home.read(file);
    home.write(file, text.replacen("\"hooks\": [\n", &format!("\"hooks\": [{theirs}\n"), 1));
    home.install(&["claude-code", "--remove"]).stdout();
    let left: serde_json::Value = serde_json::from_str(&home.read(file)).unwrap();
    let group = &left["hooks"]["PostToolUse"][0];
    assert_eq!(group["hooks"], serde_json::json!([{ "type": "command", "command": "theirs" }]));
    assert!(group["matcher"].as_str().unwrap().starts_with("Bash|"), "{left}");
    assert_eq!(left["hooks"].as_object().unwrap().len(), 1, "{left}");
}

#[test]
fn a_huge_file() {
    let home = Home::new();
    let member = |i| format!("  \"key {i}\": [\"{}\", {{\"x\": {i}}}],\n", "v".repeat(200));
    let members: String = (0..22_000).map(member).collect();
    let text = format!("{{\n{members}  \"end\": 1\n}}\n");
    assert!(text.len() > 5_000_000);
    let file = home.write(".claude/settings.json", &text);
    let before = home.tree();
    let told = home.install(&["claude-code"]).text();
    assert!(told.len() < 5000, "{} bytes", told.len());
    assert!(fs::read_to_string(file).unwrap().contains("hook claude-code"));
    home.install(&["claude-code", "--remove"]).stdout();
    assert_eq!(home.tree(), before);
}

#[test]
fn one_copy_is_made() {
    let home = Home::new();
    let file = ".claude/settings.json";
    home.write(file, "{\"a\": 1}\n");
    home.install(&["claude-code"]).stdout();
    let theirs = home.read(file).replace("\"a\": 1", "\"a\": 2");
    home.write(file, &theirs);
    home.install(&["claude-code", "--remove"]).stdout();
    let copy = ".claude/settings.json.ctxfs.bak";
    assert_eq!(home.read(copy), "{\"a\": 1}\n");
    home.install(&["claude-code"]).stdout();
    assert_eq!(home.read(copy), "{\"a\": 1}\n");
}

#[test]
fn print_changes_nothing() {
    let home = Home::new();
    home.write(".codex/config.toml", "a = 1\n");
    let before = home.tree();
    let told = home.install(&["codex", "--print"]).text();
    assert!(
        told.contains("+writable_roots = [")
            && told.contains("hook codex")
            && told.contains("+BASH_ENV"),
        "{told}"
    );
    assert_eq!(home.tree(), before);
    assert!(!home.path(".codex/hooks.json").exists());
}
