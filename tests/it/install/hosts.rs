//! What each host gets, for a user and in a project, and the list of the hosts.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::install::Home;
use crate::support::Command;

const HOSTS: [&str; 7] =
    ["claude-code", "codex", "opencode", "gemini-cli", "copilot", "pi", "cursor"];

/// Returns the command line of the hook.
fn line(host: &str) -> String {
    format!("{} hook {host}", env!("CARGO_BIN_EXE_ctxfs"))
}

/// Returns the commands of stand-ins where nothing is mounted. The program is not on `PATH`.
fn views() -> [String; 2] {
    ["ctxfs view".to_owned(), format!("{} view", env!("CARGO_BIN_EXE_ctxfs"))]
}

fn parsed(home: &Home, file: &str) -> Value {
    serde_json::from_str(&home.read(file)).unwrap()
}

fn group(host: &str, matcher: Option<&str>, timeout: u32) -> Value {
    let call = json!([{ "type": "command", "command": line(host), "timeout": timeout }]);
    match matcher {
        Some(matcher) => json!([{ "matcher": matcher, "hooks": call }]),
        None => json!([{ "hooks": call }]),
    }
}

#[test]
fn claude_code() {
    for (arguments, file, files) in [
        (&["claude-code"][..], ".claude/settings.json", 2),
        (&["claude-code", "--project"], "project/.claude/settings.json", 3),
    ] {
        let home = Home::new();
        home.install(arguments).stdout();
        let of = |matcher| group("claude-code", matcher, 60);
        let [bare, own] = views().map(|view| format!("Bash({view}:*)"));
        let mut wanted = json!({
            "permissions": { "allow": ["Read(//ctx/**)", bare, own] },
            "hooks": {
                "PostToolUse": of(Some(
                    "Bash|Agent|Glob|Grep|LSP|Skill|Task|WebFetch|WebSearch|mcp__.*",
                )),
                "PostToolUseFailure": of(Some("Bash")),
                "PreCompact": of(None),
                "SessionStart": of(None),
                "SubagentStop": of(None),
                "UserPromptSubmit": of(None),
            },
        });
        if arguments.len() == 1 {
            let program = home.path(".claude/ctxfs-shell");
            wanted["env"] = json!({ "CLAUDE_CODE_SHELL_PREFIX": program });
        }
        assert_eq!(parsed(&home, file), wanted);
        assert_eq!(home.tree().len(), files);
    }
}

#[test]
fn codex() {
    let home = Home::new();
    let output = home.install(&["codex"]).run();
    assert!(output.to_string().contains("/hooks"), "{output}");
    let of = |matcher| group("codex", matcher, 60);
    let wanted = json!({ "hooks": { "PostToolUse": of(Some("mcp__.*")), "PreCompact": of(None),
        "SessionStart": of(None) } });
    assert_eq!(parsed(&home, ".codex/hooks.json"), wanted);
    let settings = |program: &str| {
        let (store, program) = (home.path(".local/share/ctxfs"), home.path(program));
        format!(
            "[sandbox_workspace_write]\nwritable_roots = [\"{}/context\"]\n\n\
             [shell_environment_policy.set]\nBASH_ENV = \"{}\"\nSHLVL = \"1\"\n",
            store.display(),
            program.display()
        )
    };
    assert_eq!(home.read(".codex/config.toml"), settings(".codex/ctxfs-shell.bash"));

    let elsewhere = home.path("codex of mine");
    home.install(&["codex"]).env("CODEX_HOME", &elsewhere).stdout();
    assert_eq!(parsed(&home, "codex of mine/hooks.json"), wanted);
    let program = "codex of mine/ctxfs-shell.bash";
    assert_eq!(home.read("codex of mine/config.toml"), settings(program));
}

#[test]
fn gemini_cli() {
    let home = Home::new();
    let output = home.install(&["gemini-cli"]).run();
    assert!(output.to_string().contains("--include-directories /ctx"), "{output}");
    let of = |matcher| group("gemini-cli", matcher, 60_000);
    let wanted = json!({
        "hooks": {
            "AfterTool": of(Some("run_shell_command|mcp_.*")),
            "SessionStart": of(None),
        },
    });
    assert_eq!(parsed(&home, ".gemini/settings.json"), wanted);
    let policy: toml::Table = home.read(".gemini/policies/ctxfs.toml").parse().unwrap();
    let mut rule = toml::toml! {
        toolName = "run_shell_command"
        decision = "allow"
        priority = 1
    };
    rule.insert("commandPrefix".to_owned(), views().to_vec().into());
    assert_eq!(policy["rule"], toml::Value::Array(vec![rule.into()]));
}

#[test]
fn copilot() {
    for (arguments, file) in [
        (&["copilot"][..], ".copilot/hooks/ctxfs.json"),
        (&["copilot", "--project"], "project/.github/hooks/ctxfs.json"),
    ] {
        let home = Home::new();
        let output = home.install(arguments).run();
        assert!(output.to_string().contains("--add-dir /ctx"), "{output}");
        let call = json!({ "type": "command", "bash": line("copilot"), "timeoutSec": 60 });
        let hooks = json!({ "postToolUse": [call], "sessionStart": [call] });
        assert_eq!(parsed(&home, file), json!({ "version": 1, "hooks": hooks }));
    }
}

#[test]
fn cursor() {
    for (arguments, file) in [
        (&["cursor"][..], ".cursor/hooks.json"),
        (&["cursor", "--project"], "project/.cursor/hooks.json"),
    ] {
        let home = Home::new();
        home.install(arguments).stdout();
        let call = |matcher: &str| json!([{ "matcher": matcher, "type": "command", "command": line("cursor"), "timeout": 60 }]);
        let hooks = json!({
            "postToolUse": call("^(Shell$|MCP:)"), "postToolUseFailure": call("^Shell$"),
        });
        assert_eq!(parsed(&home, file), json!({ "version": 1, "hooks": hooks }));
    }
}

#[test]
fn opencode() {
    let home = Home::new();
    home.install(&["opencode"]).stdout();
    let mut wanted = json!({ "permission": { "external_directory": { "/ctx/**": "allow" } } });
    for view in views() {
        wanted["permission"]["bash"][format!("{view} *")] = "allow".into();
        wanted["permission"]["bash"][format!("{view} *>*")] = "ask".into();
    }
    assert_eq!(parsed(&home, ".config/opencode/opencode.json"), wanted);
    let plugin = home.read(".config/opencode/plugins/ctxfs.js");
    let program = format!("const PROGRAM = \"{}\"\n", env!("CARGO_BIN_EXE_ctxfs"));
    assert!(plugin.contains(&program), "{plugin}");
}

#[test]
fn opencode_with_comments() {
    let home = Home::new();
    let file = home.write("project/.opencode/opencode.jsonc", "{\n  // mine\n}\n");
    home.install(&["opencode", "--project"]).stdout();
    assert!(fs::read_to_string(file).unwrap().contains("external_directory"));
    assert!(!home.path("project/.opencode/opencode.json").exists());
    assert!(home.path("project/.opencode/plugins/ctxfs.js").exists());
}

#[test]
fn pi() {
    let home = Home::new();
    home.install(&["pi"]).stdout();
    let extension = home.read(".pi/agent/extensions/ctxfs.ts");
    assert!(extension.contains(&format!("PROGRAM = \"{}\";\n", env!("CARGO_BIN_EXE_ctxfs"))));
    home.install(&["pi", "--project"]).stdout();
    assert!(home.path("project/.pi/extensions/ctxfs.ts").exists());
}

#[test]
fn what_was_created_is_removed() {
    for host in HOSTS {
        for project in [&[][..], &["--project"]] {
            let home = Home::new();
            let run = |more: &[&str]| home.install(&[&[host], project, more].concat()).text();
            let told = run(&[]);
            assert!(told.contains("--- /dev/null\n"), "{told}");
            let installed = home.tree();
            assert!(run(&[]).starts_with("nothing to change"), "{host}");
            assert_eq!(home.tree(), installed, "{host}");
            run(&["--remove"]);
            assert!(home.tree().is_empty(), "{host}: {:?}", home.tree().keys());
            // Directories too.
            let left = |dir: &str| fs::read_dir(home.path(dir)).unwrap().count();
            assert_eq!((left(""), left("project")), (1, 0), "{host}");
        }
    }
}

/// The plug-ins are programs of their own. Node runs the one of opencode as it is, and knows
/// enough of TypeScript from 22.6 on.
#[test]
fn plug_ins_ask_the_hook_and_fail_open() {
    let home = Home::new();
    home.install(&["opencode"]).stdout();
    let plugin = home.read(".config/opencode/plugins/ctxfs.js");
    let fake =
        home.write("fake", "#!/bin/sh\ncat > \"$0.in\"\nprintf '{\"text\": \"stand-in\"}'\n");
    fs::set_permissions(&fake, fs::Permissions::from_mode(0o755)).unwrap();
    let script = r#"
        const { Ctxfs } = await import(process.argv[2])
        const plugin = await Ctxfs()
        const call = { tool: "bash", sessionID: "s1", callID: "c1", args: { command: "x" } }
        const shell = { output: "long", metadata: { outputPath: "/spill", exit: 3 } }
        await plugin["tool.execute.after"](call, shell)
        const image = { type: "image", data: "x" }
        const mcp = { content: [{ type: "text", text: "a" }, image, { type: "text", text: "b" }] }
        await plugin["tool.execute.after"]({ ...call, tool: "probe_big" }, mcp)
        const read = { output: "long" }
        await plugin["tool.execute.after"]({ ...call, tool: "read" }, read)
        await plugin["tool.execute.after"]({ ...call }, null)
        const summary = { context: [] }
        await plugin["experimental.session.compacting"]({ sessionID: "s1" }, summary)
        const env = { env: {} }
        await plugin["shell.env"]({ sessionID: "s1" }, env)
        console.log(JSON.stringify({ shell, mcp, read, summary, env }))
    "#;
    let script = home.write("script.mjs", script);
    let run = |program: &str| {
        let name = format!("{program}.mjs").replace('/', "-");
        let own = serde_json::Value::from(env!("CARGO_BIN_EXE_ctxfs")).to_string();
        let text = plugin.replace(&own, &serde_json::Value::from(program).to_string());
        let file = home.write(&name, text);
        let out = Command::new("node").arg(&script).arg(file).stdout();
        serde_json::from_slice::<Value>(&out).unwrap()
    };
    crate::support::need("node", "nodejs");
    let told = run(fake.to_str().unwrap());
    assert_eq!(told["shell"]["output"], "stand-in");
    let image = json!({ "type": "image", "data": "x" });
    let wanted = json!([{ "type": "text", "text": "stand-in" }, image]);
    assert_eq!(told["mcp"]["content"], wanted);
    assert_eq!(told["read"]["output"], "long");
    assert_eq!(told["summary"]["context"], json!(["stand-in"]));
    assert_eq!(told["env"]["env"]["CTXFS_CONVERSATION"], "s1");
    let last: Value = serde_json::from_str(&home.read("fake.in")).unwrap();
    assert_eq!(last, json!({ "conv": "s1", "event": "compact" }));

    let told = run("/nonexistent/ctxfs");
    assert_eq!(told["shell"]["output"], "long");
    assert_eq!(told["mcp"]["content"].as_array().unwrap().len(), 3);
    assert_eq!(told["summary"]["context"], json!([]));
}

#[test]
fn the_hosts_are_listed() {
    let home = Home::new();
    let program = home.write("bin/claude", "");
    home.write(".gemini/settings.json", "{");
    home.install(&["codex", "--project"]).stdout();
    home.install(&["pi"]).stdout();
    let extension = home.read(".pi/agent/extensions/ctxfs.ts");
    home.write(".pi/agent/extensions/ctxfs.ts", extension + "// mine\n");
    let list = |arguments: &[&str]| home.install(arguments).env("PATH", home.path("bin")).text();
    let wanted = "\
HOST         FOUND  USER       PROJECT
claude-code  yes    -          -
codex        yes    -          yes
opencode     -      -          -
gemini-cli   yes    unreadable -
copilot      -      -          -
pi           yes    differs    -
cursor       -      -          -
";
    assert_eq!(list(&[]), wanted);
    let listed: Value = serde_json::from_str(&list(&["--json"])).unwrap();
    let claude = json!({ "host": "claude-code", "found": true, "program": program,
        "user": "no", "project": "no" });
    assert_eq!(listed[0], claude);
    assert_eq!(listed[1]["project"], "yes");
    assert_eq!(listed.as_array().unwrap().len(), 7);
}

#[test]
fn the_report_is_json_too() {
    let home = Home::new();
    let told: Value = serde_json::from_str(&home.install(&["copilot", "--json"]).text()).unwrap();
    assert_eq!(told["host"], "copilot");
    assert_eq!(told["scope"], "user");
    assert_eq!(told["made"], true);
    assert_eq!(told["files"][0]["action"], "create");
    assert!(told["files"][0]["path"].as_str().unwrap().ends_with(".copilot/hooks/ctxfs.json"));
    assert!(told["files"][0]["diff"].as_str().unwrap().contains("+++ "));
    let told: Value = serde_json::from_str(&home.install(&["copilot", "--json"]).text()).unwrap();
    assert_eq!(told["files"][0]["action"], "none");
}

#[test]
fn the_program_is_named_as_the_path_has_it() {
    let home = Home::new();
    let link = home.path("bin/ctxfs");
    fs::create_dir(home.path("bin")).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_ctxfs"), &link).unwrap();
    home.install(&["claude-code"]).env("PATH", home.path("bin")).stdout();
    let named = format!("\"{} hook claude-code\"", link.display());
    assert!(home.read(".claude/settings.json").contains(&named));
    // The path alone changes, where it is. Stand-ins name the program by this path.
    let before = home.read(".claude/settings.json");
    home.install(&["claude-code"]).env("PATH", "/nonexistent").stdout();
    let after = before.replace(&*link.to_string_lossy(), env!("CARGO_BIN_EXE_ctxfs"));
    let mut after: Value = serde_json::from_str(&after).unwrap();
    let own = format!("Bash({}:*)", views()[1]);
    after["permissions"]["allow"].as_array_mut().unwrap().push(own.into());
    assert_eq!(parsed(&home, ".claude/settings.json"), after);
}

#[test]
fn a_unit_mounts_at_login() {
    let home = Home::new();
    let runtime = home.path("runtime");
    home.write("runtime/systemd/private", "");
    let before = home.tree();
    let run = |arguments: &[&str]| {
        let output = home.install(arguments).env("XDG_RUNTIME_DIR", &runtime).run();
        assert_eq!(output.code, 0, "{output}");
        output.to_string()
    };
    let unit = ".config/systemd/user/ctxfs.service";
    assert!(!run(&["claude-code", "--project"]).contains("systemctl"));
    assert!(!home.path(unit).exists());
    run(&["claude-code", "--project", "--remove"]);

    assert!(run(&["claude-code"]).contains("systemctl --user enable --now ctxfs"));
    let start = format!("ExecStart={} mount --foreground /ctx\n", env!("CARGO_BIN_EXE_ctxfs"));
    assert!(home.read(unit).contains(&start), "{}", home.read(unit));
    run(&["pi"]);
    run(&["claude-code", "--remove"]);
    assert!(home.path(unit).exists());
    assert!(run(&["pi", "--remove"]).contains("systemctl --user disable --now ctxfs"));
    assert_eq!(home.tree(), before);

    home.write(unit, "# mine\n");
    run(&["pi"]);
    run(&["pi", "--remove"]);
    assert_eq!(home.read(unit), "# mine\n");
}
