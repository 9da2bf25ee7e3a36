//! `ctxfs install mcp`: the servers of hosts run through `ctxfs mcp`.

use std::fs;
use std::fs::Permissions;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::install::Home;
use crate::support::Command;

/// `(arguments, file)`.
const JSON_FILES: [(&[&str], &str); 16] = [
    (&["claude-code"], ".claude.json"),
    (&["claude-code", "--project"], "project/.mcp.json"),
    (&["gemini-cli"], ".gemini/settings.json"),
    (&["gemini-cli", "--project"], "project/.gemini/settings.json"),
    (&["copilot"], ".copilot/mcp-config.json"),
    (&["copilot", "--project"], "project/.mcp.json"),
    (&["copilot", "--project"], "project/.github/mcp.json"),
    (&["cursor"], ".cursor/mcp.json"),
    (&["cursor", "--project"], "project/.cursor/mcp.json"),
    (&["claude-desktop"], ".config/Claude/claude_desktop_config.json"),
    (&["windsurf"], ".codeium/windsurf/mcp_config.json"),
    (&["junie"], ".junie/mcp/mcp.json"),
    (&["junie", "--project"], "project/.junie/mcp/mcp.json"),
    (&["agy"], ".gemini/config/mcp_config.json"),
    (&["agy"], ".gemini/antigravity-cli/mcp_config.json"),
    (&["agy", "--project"], "project/.agents/mcp_config.json"),
];
const VSCODE_FILES: [(&[&str], &str); 2] = [
    (&["vscode"], ".config/Code/User/mcp.json"),
    (&["vscode", "--project"], "project/.vscode/mcp.json"),
];
const ZED_FILES: [(&[&str], &str); 2] = [
    (&["zed"], ".config/zed/settings.json"),
    (&["zed", "--project"], "project/.zed/settings.json"),
];
const OPENCODE_FILES: [(&[&str], &str); 4] = [
    (&["opencode"], ".config/opencode/opencode.json"),
    (&["opencode"], ".config/opencode/opencode.jsonc"),
    (&["opencode", "--project"], "project/opencode.json"),
    (&["opencode", "--project"], "project/.opencode/opencode.jsonc"),
];
const CODEX_FILES: [(&[&str], &str); 2] =
    [(&["codex"], ".codex/config.toml"), (&["codex", "--project"], "project/.codex/config.toml")];

const SERVERS: &str = r#"{
  // mine
  "mcpServers": {
    "files": { "command": "npx", "args": ["-y", "server-files", "/data"], "env": { "A": "1" } },
    "plain": { "type": "stdio", "command": "./server" },
    "far": { "type": "http", "url": "https://example.org/mcp" }
  }
}
"#;

fn install(home: &Home, arguments: &[&str], more: &[&str]) -> Command {
    home.install(&[&["mcp"], arguments, more].concat())
}

/// Returns the words that are put before the command of a server.
fn line<'a>(name: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let own = ["mcp", "--name", name, "--timeout", "0", "--"];
    own.into_iter().chain(more.iter().copied()).collect()
}

fn program() -> &'static str {
    env!("CARGO_BIN_EXE_ctxfs")
}

/// Returns settings with servers, in JSON, as editors and hosts leave them.
fn json_texts() -> Vec<String> {
    let plain = SERVERS.replace("  // mine\n", "");
    let value: Value = serde_json::from_str(&plain).unwrap();
    vec![
        SERVERS.to_owned(),
        SERVERS.replace('\n', "\r\n"),
        SERVERS.replace("  ", "\t"),
        SERVERS.replace("  ", "\t").replacen('\n', "\r\n", 3),
        format!("\u{feff}{SERVERS}"),
        format!("{value}"),
        format!("{value:#}"),
        format!("{value:#}\n\n\n"),
        SERVERS.replace("[\"-y\"", "[ // first\n  \"-y\"").replace("\"/data\"", "\"/data\","),
        SERVERS.replace("\"./server\"", "\"./server\", \"args\": []"),
        SERVERS.replace("\"./server\"", "\"./server\", \"args\": [ /* none */ ]"),
        SERVERS.replace("npx", "\\u006epx \u{1f980}"),
        SERVERS
            .replace("\"mcpServers\"", "\"other\": [1, {\"command\": \"x\"}],\n  \"mcpServers\""),
    ]
}

fn toml_texts() -> Vec<String> {
    let text = "# mine\nmodel = \"x\"\n\n[mcp_servers.files] # c\ncommand = \"npx\" # d\nargs = [\n  \
                '-y', # one\n  \"server-files\",\n]\nenv = { A = \"1\" }\n\n[mcp_servers.plain]\n\
                command = \"./server\" # e\n\n[mcp_servers.far]\nurl = \"https://example.org\"\n";
    vec![
        text.to_owned(),
        text.replace('\n', "\r\n"),
        text.replace("  ", "\t"),
        format!("\u{feff}{text}"),
        text.trim_end().to_owned(),
        text.replace("# e\n", "# e\nargs = []\n"),
        "mcp_servers.files.command = \"npx\"".to_owned(),
        "mcp_servers = { files = { command = 'npx' } } # c\n".to_owned(),
    ]
}

fn opencode_texts() -> Vec<String> {
    let text = "{\n  // mine\n  \"mcp\": {\n    \"files\": {\n      \"type\": \"local\",\n      \
                \"command\": [\n        \"npx\",\n        \"-y\"\n      ],\n    },\n    \
                \"off\": { \"enabled\": false },\n    \
                \"far\": { \"type\": \"remote\", \"url\": \"https://example.org\" }\n  }\n}\n";
    vec![
        text.to_owned(),
        text.replace('\n', "\r\n"),
        text.replace("  ", "\t"),
        format!("\u{feff}{text}"),
        r#"{"mcp":{"files":{"type":"local","command":["npx"]}}}"#.to_owned(),
    ]
}

#[test]
fn they_come_back_byte_for_byte() {
    let of = |files: &'static [(&'static [&'static str], &'static str)], texts: Vec<String>| {
        let cases = move |text: String| files.iter().map(move |file| (file, text.clone()));
        texts.into_iter().flat_map(cases).collect::<Vec<_>>()
    };
    let named = |name: &str| {
        let renamed = |text: String| text.replace("\"mcpServers\"", &format!("\"{name}\""));
        json_texts().into_iter().map(renamed).collect()
    };
    let json = of(&JSON_FILES, json_texts());
    let editors =
        [of(&VSCODE_FILES, named("servers")), of(&ZED_FILES, named("context_servers"))].concat();
    let others = [of(&OPENCODE_FILES, opencode_texts()), of(&CODEX_FILES, toml_texts())].concat();
    let cases = [json, editors, others];
    for (&(arguments, file), text) in cases.concat() {
        let home = Home::new();
        home.write(file, &text);
        let before = home.tree();
        let run = |more: &[&str]| install(&home, arguments, more).text();
        let shown = run(&["--print"]);
        assert_eq!(home.tree(), before);
        let told = run(&[]);
        assert!(told.contains("+++ ") && told == shown, "{file}: {told}");
        let installed = home.tree();
        assert_eq!(home.read(&format!("{file}.ctxfs.bak")), text, "{file}");
        assert!(run(&[]).starts_with("nothing to change"), "{file}: {text}");
        assert_eq!(home.tree(), installed, "{file}: twice");
        run(&["--remove"]);
        assert_eq!(home.tree(), before, "{file}: {text}");
        assert!(run(&["--remove"]).starts_with("nothing to change"), "{file}: {text}");
        assert_eq!(home.tree(), before, "{file}: removed twice");
    }
}

#[test]
fn the_usual_object() {
    let home = Home::new();
    home.write(".claude.json", SERVERS.replace("  // mine\n", ""));
    let output = install(&home, &["claude-code"], &[]).run();
    assert!(output.to_string().contains("left alone, as reached over HTTP: `far`"), "{output}");
    assert!(output.to_string().contains("start claude-code again"), "{output}");
    let found: Value = serde_json::from_str(&home.read(".claude.json")).unwrap();
    let wanted = json!({
        "files": { "command": program(), "env": { "A": "1" },
            "args": line("files", &["npx", "-y", "server-files", "/data"]) },
        "plain": { "type": "stdio", "command": program(), "args": line("plain", &["./server"]) },
        "far": { "type": "http", "url": "https://example.org/mcp" },
    });
    assert_eq!(found["mcpServers"], wanted);
}

#[test]
fn the_list_of_opencode() {
    let home = Home::new();
    home.write("project/opencode.json", &opencode_texts()[4]);
    install(&home, &["opencode", "--project"], &[]).stdout();
    let found: Value = serde_json::from_str(&home.read("project/opencode.json")).unwrap();
    let words: Vec<_> = [program()].into_iter().chain(line("files", &["npx"])).collect();
    assert_eq!(found["mcp"]["files"]["command"], json!(words));
}

#[test]
fn the_tables_of_codex() {
    let home = Home::new();
    home.write(
        "elsewhere/config.toml",
        "[mcp_servers.files]\ncommand = \"npx\"\nargs = [\"-y\"]\n",
    );
    let elsewhere = home.path("elsewhere");
    install(&home, &["codex"], &[]).env("CODEX_HOME", elsewhere).stdout();
    let wanted = format!(
        "[mcp_servers.files]\ncommand = \"{}\"\nargs = [\"mcp\", \"--name\", \"files\", \
         \"--timeout\", \"0\", \"--\", \"npx\", \"-y\"]\n",
        program()
    );
    assert_eq!(home.read("elsewhere/config.toml"), wanted);
}

/// Zed also has the servers of its extensions there, which it starts itself.
#[test]
fn the_settings_of_zed() {
    let home = Home::new();
    let text = "{\n  // mine\n  \"theme\": \"One\",\n  \"context_servers\": {\n    \"own\": { \
                \"source\": \"custom\", \"command\": \"npx\", \"args\": [\"-y\"], },\n    \
                \"theirs\": { \"source\": \"extension\", \"settings\": {} },\n  },\n}\n";
    home.write(".config/zed/settings.json", text);
    let told = install(&home, &["zed"], &[]).run().to_string();
    assert!(told.contains("left alone, as without a command: `theirs`"), "{told}");
    let words = format!(
        "\"command\": \"{}\", \"args\": [\"mcp\", \"--name\", \"own\", \"--timeout\", \"0\", \
         \"--\", \"npx\", \"-y\"]",
        program()
    );
    let wanted = text.replace("\"command\": \"npx\", \"args\": [\"-y\"]", &words);
    assert_eq!(home.read(".config/zed/settings.json"), wanted);
}

/// Windsurf and Antigravity name the address of a server in their own way.
#[test]
fn servers_with_an_address_are_left_alone() {
    for (host, file) in [
        ("windsurf", ".codeium/windsurf/mcp_config.json"),
        ("agy", ".gemini/config/mcp_config.json"),
    ] {
        let home = Home::new();
        home.write(file, r#"{"mcpServers": {"far": {"serverUrl": "https://example.org/mcp"}}}"#);
        let before = home.tree();
        let told = install(&home, &[host], &[]).run();
        assert!(told.code == 0 && told.to_string().contains("over HTTP: `far`"), "{told}");
        assert_eq!(home.tree(), before);
    }
}

/// `claude mcp add` writes there, if it is not told otherwise.
#[test]
fn claude_code_has_servers_of_a_project_for_one_user() {
    let home = Home::new();
    let project = home.path("project").canonicalize().unwrap();
    let server = json!({ "mcpServers": { "s": { "command": "npx", "args": [] } } });
    let text = json!({ "projects": { "/other": server, (project.to_str().unwrap()): server } });
    home.write(".claude.json", format!("{text:#}"));
    let before = home.tree();
    let told = install(&home, &["claude-code"], &[]).text();
    assert!(told.contains("has no MCP servers in"), "{told}");
    install(&home, &["claude-code", "--project"], &[]).stdout();
    let found: Value = serde_json::from_str(&home.read(".claude.json")).unwrap();
    let of = |project: &str| found["projects"][project]["mcpServers"]["s"].clone();
    assert_eq!(of("/other"), server["mcpServers"]["s"]);
    let wanted = json!({ "command": program(), "args": line("s", &["npx"]) });
    assert_eq!(of(project.to_str().unwrap()), wanted);
    install(&home, &["claude-code", "--project", "--remove"], &[]).stdout();
    assert_eq!(home.tree(), before);

    let moved = home.path("moved");
    fs::create_dir(&moved).unwrap();
    home.write("moved/.claude.json", SERVERS);
    install(&home, &["claude-code"], &[]).env("CLAUDE_CONFIG_DIR", moved).stdout();
    assert!(home.read("moved/.claude.json").contains("--timeout"));
}

/// The line is one that runs.
#[test]
fn a_server_answers_through_the_line() {
    let home = Home::new();
    let script = "#!/bin/sh\nread -r line\nprintf '{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\"serverInfo\":{\"name\":\"it\",\"version\":\"%s %s\"}}}\\n' \"$1\" \"$KEY\"\ncat > /dev/null\n";
    let server = home.write("server", script);
    fs::set_permissions(&server, Permissions::from_mode(0o755)).unwrap();
    let text = json!({ "mcpServers": { "-odd name": { "command": server, "args": ["--name"] } } });
    home.write("project/.mcp.json", text.to_string());
    let store = home.path("my data");
    let named = ["--store", store.to_str().unwrap()];
    install(&home, &["claude-code", "--project"], &named).stdout();
    let found: Value = serde_json::from_str(&home.read("project/.mcp.json")).unwrap();
    let entry = &found["mcpServers"]["-odd name"];
    let words = entry["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
    let request = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"c\",\"version\":\"1\"}}}\n";
    let command = Command::new(entry["command"].as_str().unwrap()).without_settings();
    let command = home.in_home(command.args(words.collect::<Vec<_>>()).env("KEY", "secret"));
    let piped = command.with(|inner| {
        inner.stdin(Stdio::piped()).stdout(Stdio::piped());
    });
    let mut child = piped.spawn();
    child.stdin.as_mut().unwrap().write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut answer).unwrap();
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success() && answer.contains("--name secret"), "{answer}");
    assert!(!home.path(".local/share/ctxfs").exists());
}

#[test]
fn one_server_alone() {
    let home = Home::new();
    home.write(".claude.json", SERVERS);
    let before = home.tree();
    let run = |arguments: &[&str]| install(&home, &["claude-code"], arguments).text();
    run(&["plain"]);
    let one = home.read(".claude.json");
    assert!(one.contains("\"plain\", \"--timeout\"") && one.contains("\"command\": \"npx\""));
    assert!(run(&["plain"]).starts_with("nothing to change"));
    run(&["files"]);
    assert_eq!(home.read(".claude.json.ctxfs.bak"), SERVERS);
    run(&["files", "--remove"]);
    assert_eq!(home.read(".claude.json"), one);
    assert!(run(&["files", "--remove"]).starts_with("nothing to change"));
    run(&["--remove"]);
    assert_eq!(home.tree(), before);
    let far = install(&home, &["claude-code", "far"], &[]).run();
    assert!(far.code == 0 && far.to_string().contains("over HTTP: `far`"), "{far}");
    assert_eq!(home.tree(), before);
}

#[test]
fn a_server_that_is_not_there() {
    let home = Home::new();
    home.write(".claude.json", SERVERS);
    let before = home.tree();
    for more in [&[][..], &["--print"], &["--remove"]] {
        let told = install(&home, &["claude-code", "flies"], more).run();
        assert_eq!(told.code, 2, "{told}");
        assert!(told.to_string().contains("no MCP server `flies`"), "{told}");
        assert!(told.to_string().contains("`files`, `plain`, `far`"), "{told}");
    }
    let told = install(&home, &["codex", "flies"], &[]).run();
    assert!(told.code == 2 && told.to_string().contains("there are none"), "{told}");
    assert_eq!(home.tree(), before);
}

#[test]
fn hosts_without_servers() {
    let home = Home::new();
    let hosts = ["claude-code", "codex", "opencode", "gemini-cli", "copilot", "cursor", "vscode"];
    for host in hosts.into_iter().chain(["claude-desktop", "zed", "windsurf", "junie", "agy"]) {
        let is_of_users = ["claude-desktop", "windsurf"].contains(&host);
        for more in [&[][..], &["--project"], &["--remove"]] {
            let told = install(&home, &[host], more).run();
            if is_of_users && more == ["--project"] {
                assert!(told.code == 2 && told.to_string().contains("of a project"), "{told}");
            } else {
                assert!(told.code == 0, "{told}");
                assert!(told.to_string().contains("nothing to change"), "{host}: {told}");
            }
        }
    }
    let told = install(&home, &["pi"], &[]).run();
    assert!(told.code == 2 && told.to_string().contains("pi has no MCP servers"), "{told}");
    assert!(home.tree().is_empty());
    for arguments in [&["mcp"][..], &["mcp", "emacs"], &["mcp", "codex", "a", "b"]] {
        assert_eq!(home.install(arguments).run().code, 2, "{arguments:?}");
    }
}

#[test]
fn what_runs_through_the_gateway_already() {
    let home = Home::new();
    let text = r#"{"mcpServers": {"s": {"command": "ctxfs", "args": ["mcp", "--", "npx"]}}}"#;
    home.write("project/.mcp.json", text);
    let before = home.tree();
    let told = install(&home, &["claude-code", "--project"], &[]).run();
    assert!(told.to_string().contains("not ours: `s`"), "{told}");
    install(&home, &["claude-code", "--project", "--remove"], &[]).stdout();
    assert_eq!(home.tree(), before);
}

#[test]
fn unknown_shapes() {
    for (host, file, text, why) in [
        ("claude-code", ".claude.json", "[]", "it is not an object"),
        ("claude-code", ".claude.json", "{\"mcpServers\": []}", "`mcpServers` is not an object"),
        ("gemini-cli", ".gemini/settings.json", "{\"mcpServers\": {\"s\": 1}}", "is not an object"),
        ("copilot", ".copilot/mcp-config.json", "{\"mcpServers\": {", "not valid JSON"),
        (
            "opencode",
            ".config/opencode/opencode.json",
            "{\"mcp\": {\"s\": {\"command\": \"x\"}}}",
            "`mcp.s.command` is not a list",
        ),
        ("codex", ".codex/config.toml", "mcp_servers = 1\n", "`mcp_servers` is not a table"),
        ("codex", ".codex/config.toml", "a = \n", "line 1"),
    ] {
        let home = Home::new();
        home.write(file, text);
        let before = home.tree();
        let told = install(&home, &[host], &[]).run();
        assert_eq!(told.code, 1, "{told}");
        let told = told.to_string();
        assert!(told.contains(file) && told.contains(why), "{told}");
        assert!(told.contains("put this into it yourself") && told.contains("--name"), "{told}");
        assert_eq!(home.tree(), before);
    }
    let home = Home::new();
    home.write(".claude.json", b"{\"a\": \"\xff\"}");
    let told = install(&home, &["claude-code"], &[]).run();
    assert!(told.code == 1 && told.to_string().contains("UTF-8"), "{told}");
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    home.write(".claude.json", deep);
    assert_eq!(install(&home, &["claude-code"], &[]).run().code, 1);
}

#[test]
fn links_and_rights() {
    let home = Home::new();
    home.write("dotfiles/claude.json", SERVERS);
    symlink("dotfiles/claude.json", home.path(".claude.json")).unwrap();
    let before = home.tree();
    install(&home, &["claude-code"], &[]).stdout();
    assert!(home.path(".claude.json").is_symlink());
    assert!(home.read("dotfiles/claude.json").contains("--timeout"));
    install(&home, &["claude-code"], &["--remove"]).stdout();
    assert_eq!(home.tree(), before);

    let file = home.write(".codex/config.toml", "[mcp_servers.s]\ncommand = \"x\"\n");
    fs::set_permissions(&file, Permissions::from_mode(0o400)).unwrap();
    let before = home.tree();
    let told = install(&home, &["codex"], &[]).run();
    assert!(told.code == 1 && told.to_string().contains("is read-only"), "{told}");
    assert_eq!(home.tree(), before);

    symlink("nowhere", home.path("project/.mcp.json")).unwrap();
    let told = install(&home, &["copilot", "--project"], &[]).run();
    assert!(told.code == 1 || told.to_string().contains("nothing"), "{told}");
    assert!(!home.path("project/nowhere").exists());
}

#[test]
fn a_store_that_is_named_stays_until_another_is_given() {
    let home = Home::new();
    home.write(".claude.json", SERVERS);
    let before = home.tree();
    let run = |more: &[&str]| install(&home, &["claude-code"], more).text();
    run(&[]);
    let plain = home.read(".claude.json");
    let store = home.path("my data");
    run(&["--store", store.to_str().unwrap()]);
    let named = home.read(".claude.json");
    let words = format!("\"mcp\", \"--store\", \"{}\", \"--name\", \"files\"", store.display());
    assert!(named.contains(&words), "{named}");
    assert!(run(&[]).starts_with("nothing to change"));
    run(&["--store", home.path(".local/share/ctxfs").to_str().unwrap()]);
    assert_eq!(home.read(".claude.json"), plain);
    let by_variable = install(&home, &["claude-code"], &[]).env("CTXFS_STORE", &store);
    by_variable.stdout();
    assert_eq!(home.read(".claude.json"), named);
    run(&["--remove"]);
    assert_eq!(home.tree(), before);
}

/// Codex, opencode and Gemini CLI have hooks and servers in one file.
#[test]
fn hooks_and_servers_in_one_file() {
    let files = [
        ("codex", ".codex/config.toml", toml_texts()[0].clone()),
        ("opencode", ".config/opencode/opencode.json", opencode_texts()[0].clone()),
        ("gemini-cli", ".gemini/settings.json", SERVERS.to_owned()),
    ];
    for (host, file, text) in files {
        let home = Home::new();
        home.write(file, &text);
        let before = home.tree();
        let hook: &[&str] = &[host];
        let servers: &[&str] = &["mcp", host];
        for [first, second] in [[hook, servers], [servers, hook]] {
            for [third, fourth] in [[hook, servers], [servers, hook]] {
                for arguments in [first, second] {
                    home.install(arguments).stdout();
                }
                assert_eq!(home.read(&format!("{file}.ctxfs.bak")), text);
                for arguments in [third, fourth] {
                    home.install(&[arguments, &["--remove"]].concat()).stdout();
                }
                assert_eq!(home.tree(), before, "{host}: {first:?} {third:?}");
            }
        }
    }
}

/// A file that the hook has created is none from before, of which a copy would be made.
#[test]
fn servers_in_a_file_of_the_hook() {
    let home = Home::new();
    let file = ".config/opencode/opencode.json";
    home.install(&["opencode"]).stdout();
    let theirs = "\"mcp\": {\"s\": {\"type\": \"local\", \"command\": [\"x\"]}},";
    let created = home.read(file);
    home.write(file, created.replacen('{', &format!("{{{theirs}"), 1));
    let before = home.tree();
    install(&home, &["opencode"], &[]).stdout();
    assert!(!home.path(&format!("{file}.ctxfs.bak")).exists());
    install(&home, &["opencode"], &["--remove"]).stdout();
    assert_eq!(home.tree(), before);
    home.install(&["opencode", "--remove"]).stdout();
    assert!(!home.read(file).contains("external_directory"));
}

#[test]
fn changes_by_others_stay() {
    for text in json_texts() {
        let home = Home::new();
        home.write(".claude.json", &text);
        install(&home, &["claude-code"], &[]).stdout();
        let theirs = "{\"theirs\": [ 1 ],";
        let edited = home.read(".claude.json").replacen('{', theirs, 1);
        home.write(".claude.json", edited);
        install(&home, &["claude-code"], &["--remove"]).stdout();
        assert_eq!(home.read(".claude.json"), text.replacen('{', theirs, 1));
    }
}

#[test]
fn the_report_is_json_too() {
    let home = Home::new();
    home.write(".claude.json", SERVERS);
    let told = install(&home, &["claude-code"], &["--json"]).text();
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["host"], "claude-code");
    assert_eq!((&told["scope"], &told["made"]), (&json!("user"), &json!(true)));
    assert_eq!(told["files"][0]["action"], "change");
    assert_eq!(told["left"][0], "left alone, as reached over HTTP: `far`");
}

/// As `npx` has it.
#[test]
fn a_program_in_a_cache() {
    let home = Home::new();
    let copy = home.write("_npx/b4/ctxfs", "");
    fs::copy(program(), &copy).unwrap();
    fs::set_permissions(&copy, Permissions::from_mode(0o755)).unwrap();
    home.write(".claude.json", SERVERS);
    let before = home.tree();
    let run = |more: &[&str]| {
        let words = [&["install", "mcp", "claude-code"], more].concat();
        home.in_home(Command::new(&copy).without_settings().args(words)).run()
    };
    let told = run(&[]);
    assert!(told.code == 2 && told.to_string().contains("in a cache"), "{told}");
    assert_eq!(run(&["--print"]).code, 0);
    assert_eq!(home.tree(), before);
}
