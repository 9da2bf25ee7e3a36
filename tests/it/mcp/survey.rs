//! What servers offer: `ctxfs mcp list` and `ctxfs doctor --servers`.

use super::*;

/// A file with servers.
struct ServerFile {
    store: TestStore,
    path: std::path::PathBuf,
}

impl ServerFile {
    /// Writes a file with these servers, each a scripted one with more members.
    fn new(servers: &[(&str, Value)]) -> Self {
        let servers = servers.iter().map(|(name, members)| {
            let [program, script] = server();
            let mut server = json!({"command": program, "args": [script]});
            server.as_object_mut().unwrap().extend(members.as_object().cloned().unwrap());
            ((*name).to_owned(), server)
        });
        let servers: serde_json::Map<String, Value> = servers.collect();
        Self::of(&json!({"mcpServers": servers}).to_string())
    }

    fn of(text: &str) -> Self {
        let store = TestStore::new();
        let path = store.scratch("servers").join("mcp.json");
        std::fs::write(&path, text).unwrap();
        Self { store, path }
    }

    fn command(&self, command: &str, options: &[&str]) -> Command {
        need("python3", "python3");
        let list: &[&str] = if command == "mcp" { &["list"] } else { &[] };
        let file = ["--servers", self.path.to_str().unwrap()];
        self.store.ctxfs(command, &[list, &file, options].concat())
    }

    fn list(&self, options: &[&str]) -> crate::support::Output {
        self.command("mcp", options).run()
    }
}

/// Returns the environment of a scripted server with these lists.
fn listing(lists: &Value) -> Value {
    let capabilities = json!({"tools": {}, "prompts": {}, "resources": {}});
    json!({"env": {
        "SERVER_LISTS": lists.to_string(), "SERVER_CAPABILITIES": capabilities.to_string(),
    }})
}

/// Returns a server of many tools with long descriptions, and others lists.
fn large() -> Value {
    let schema = json!({"type": "object", "properties": {"path": {
        "type": "string", "description": "The path of the file, below the root of the project",
    }}});
    let tool = |n: usize| {
        json!({
            "name": format!("tool_{n}"), "inputSchema": schema,
            "description": "Does what its name says. ".repeat(10),
            "annotations": {"readOnlyHint": n.is_multiple_of(2)},
        })
    };
    let tools: Vec<Value> = (0..60).map(tool).collect();
    let mut server = listing(&json!({
        "tools/list": {"tools": tools},
        "prompts/list": {"prompts": [{"name": "a"}, {"name": "b"}]},
        "resources/list": {"resources": [{"uri": "mem://a", "name": "a"}]},
        "resources/templates/list": {"resourceTemplates": [
            {"uriTemplate": "mem://{x}", "name": "x"}, {"uriTemplate": "db://{x}", "name": "y"},
            {"uriTemplate": "fs://{x}", "name": "z"},
        ]},
    }));
    server["trust"] = true.into();
    server["tools"] = json!(["!tool_1*"]);
    server
}

/// Returns a server that never answers. Its processes have `mark` among their arguments.
fn hanging(mark: &str) -> Value {
    let [_, script] = server();
    json!({"args": [script, mark], "env": {"SERVER_DELAY": "600"}, "timeout": 1})
}

/// Returns the processes that have `mark` among their arguments.
fn processes_with(mark: &str) -> Vec<String> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let line = |dir: std::fs::DirEntry| std::fs::read_to_string(dir.path().join("cmdline")).ok();
    all.filter_map(line).filter(|line| line.contains(mark)).collect()
}

#[test]
fn what_servers_offer_is_counted_and_weighed() {
    let file = ServerFile::new(&[("big", large()), ("small", json!({}))]);
    let told = file.list(&["--json"]);
    assert_eq!(told.code, 0, "{told}");
    let value: Value = serde_json::from_slice(&told.stdout).unwrap();
    let big = &value["servers"][0];
    let counts = ["prompts", "resources", "templates"].map(|kind| big[kind].as_u64().unwrap());
    assert_eq!((big["server"].as_str(), counts), (Some("big"), [2, 1, 3]));
    // The filter hides 11 of the 60.
    assert_eq!(big["tools"].as_array().unwrap().len(), 49);
    assert_eq!(big["tools"][0], json!({"name": "big__tool_0", "tool": "tool_0", "risk": "read"}));
    assert_eq!(value["servers"][1]["tools"][0]["risk"], "unknown");
    let number = |value: &Value, key: &str| value[key].as_i64().unwrap();
    let schemas = number(&value, "schemaTokens");
    assert!((49 * 60..49 * 200).contains(&schemas), "{value}");
    assert!(number(big, "schemaTokens") > 5 * number(big, "indexTokens"), "{value}");
    assert_eq!(number(&value, "savedTokens"), schemas - number(&value, "indexTokens"));
    assert!(number(&value, "savedTokens") > 2000, "{value}");
    let text = String::from_utf8(file.list(&[]).stdout).unwrap();
    assert!(text.contains("  server\n      49        2         1         3 "), "{text}");
    assert!(text.contains("\nread     big/tool_0\n"), "{text}");
    assert!(text.contains("\nunknown  small/echo\n"), "{text}");
    assert!(!file.store.path().join("context").exists(), "nothing is stored");
}

#[test]
fn one_server_is_named_by_its_command() {
    need("python3", "python3");
    let store = TestStore::new();
    let [program, script] = server();
    let arguments = ["list", "--name", "mine", "--json", "--", program, script];
    let value: Value = serde_json::from_slice(&store.ctxfs("mcp", &arguments).stdout()).unwrap();
    assert_eq!(value["servers"][0]["server"], "mine");
    assert_eq!(value["servers"][0]["tools"][1]["name"], "echo", "{value}");
    assert_eq!(store.ctxfs("mcp", &["list"]).run().code, 2);
}

#[test]
fn servers_that_fail_are_named_and_the_others_shown() {
    let mark = format!("mark-of-list-{}", std::process::id());
    let unlisted = listing(&json!({
        "tools/list": {"tools": [{"name": "only", "inputSchema": {}}]}, "prompts/list": {"prompts": []},
        "resources/list": {"resources": []}, "resources/templates/list": null,
    }));
    let mut unlisted = unlisted;
    unlisted["timeout"] = 2.into();
    let file = ServerFile::new(&[
        ("gone", json!({"command": "/nonexistent/x", "args": []})),
        ("hangs", hanging(&mark)),
        ("half", unlisted),
        ("good", json!({})),
    ]);
    let told = file.list(&["--json"]);
    assert_eq!(told.code, 1, "{told}");
    let value: Value = serde_json::from_slice(&told.stdout).unwrap();
    let of = |name: &str| {
        let servers = value["servers"].as_array().unwrap();
        servers.iter().find(|server| server["server"] == name).unwrap()
    };
    let flaw = |name: &str| of(name)["flaws"][0].as_str().unwrap_or_default();
    assert!(flaw("gone").starts_with("cannot be started: `/nonexistent/x`"), "{value}");
    assert_eq!(flaw("hangs"), "did not answer within 1 s", "{value}");
    assert!(flaw("half").starts_with("did not answer"), "{value}");
    assert!(of("gone").get("tools").is_none());
    assert_eq!(of("good")["tools"].as_array().unwrap().len(), 3);
    assert_eq!(processes_with(&mark), Vec::<String>::new());
    let text = String::from_utf8(file.list(&[]).stdout).unwrap();
    assert!(text.contains("  gone\n") && text.contains(" it cannot be started: "), "{text}");
    assert!(text.contains("good/echo\n"), "{text}");
}

#[test]
fn a_server_that_is_wrong_in_its_file_is_named_with_its_line() {
    let [program, script] = server();
    let text = format!(
        "{{\"mcpServers\": {{\n\"bad\": {{\"command\": 7}},\n\
         \"good\": {{\"command\": \"{program}\", \"args\": [\"{script}\"]}}}}}}"
    );
    let file = ServerFile::of(&text);
    let told = file.list(&[]);
    assert_eq!(told.code, 1, "{told}");
    assert!(String::from_utf8_lossy(&told.stderr).contains("mcp.json:2: `mcpServers.bad.command`"));
    assert!(String::from_utf8_lossy(&told.stdout).contains("good/echo\n"));
    let value: Value = serde_json::from_slice(&file.list(&["--json"]).stdout).unwrap();
    assert!(value["flaws"][0].as_str().unwrap().contains("mcp.json:2: "), "{value}");
}

#[test]
fn the_doctor_tries_each_server() {
    let mark = format!("mark-of-doctor-{}", std::process::id());
    let file = ServerFile::new(&[
        ("good", json!({})),
        ("gone", json!({"command": "/nonexistent/x", "args": []})),
        ("hangs", hanging(&mark)),
    ]);
    let told = file.command("doctor", &[]).run();
    let said = String::from_utf8(told.stdout).unwrap();
    assert_eq!(told.code, 1, "{said}");
    let line = |of: &str| {
        let found = said.lines().find(|line| line.contains(of));
        found.unwrap_or_else(|| panic!("{of}: {said}")).to_owned()
    };
    assert!(line("good: ").starts_with("ok   server       good: 3 tools, 0 prompts"), "{said}");
    assert!(line("gone: ").starts_with("WARN server       gone: cannot be started"), "{said}");
    assert!(line("hangs: ").ends_with("did not answer within 1 s"), "{said}");
    assert!(said.contains("ctxfs --log info mcp list --servers"), "{said}");
    assert_eq!(processes_with(&mark), Vec::<String>::new());
    let good = ServerFile::new(&[("good", json!({}))]);
    let told = good.command("doctor", &["--json"]).run();
    let report: Value = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!(report["can_use_servers"], true, "{report}");
}

#[test]
fn the_doctor_names_what_is_wrong_in_the_file() {
    let file = ServerFile::of("{\"mcpServers\": {\n\n\"bad\": {\"command\": 7, \"x\": 1}}}");
    let told = file.command("doctor", &[]).run();
    let said = String::from_utf8(told.stdout).unwrap();
    assert_eq!(told.code, 1, "{said}");
    assert!(said.contains("mcp.json:3: `mcpServers.bad.command` must be a text"), "{said}");
    let file = ServerFile::of("");
    std::fs::remove_file(&file.path).unwrap();
    let told = file.command("doctor", &[]).run();
    let said = String::from_utf8(told.stdout).unwrap();
    assert!(told.code == 1 && said.contains("cannot read the servers in"), "{said}");
}
