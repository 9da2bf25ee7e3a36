//! Settings that are not what a host has: nothing is changed, and the text to paste is printed.

use crate::install::Home;
use crate::support::Command;

const FILE: &str = ".claude/settings.json";

fn refused(host: &str, file: &str, text: impl AsRef<[u8]>) -> String {
    let home = Home::new();
    home.write(file, text);
    let before = home.tree();
    let output = home.install(&[host]).run();
    assert_eq!(output.code, 1, "{output}");
    assert!(output.stdout.is_empty(), "{output}");
    assert_eq!(home.tree(), before);
    assert!(output.to_string().contains(file), "{output}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn unknown_shapes() {
    for (text, why) in [
        ("[]", "it is not an object"),
        ("{\"hooks\": []}", "`hooks` is not an object"),
        ("{\"hooks\": {\"PostToolUse\": 1}}", "`hooks.PostToolUse` is not a list"),
        ("{\"hooks\": {\"PostToolUse\": [[]]}}", "`hooks.PostToolUse.0` is not an object"),
        ("{\"permissions\": []}", "`permissions` is not an object"),
        ("{\"a\": 1,, }", "line 1"),
        ("{\n  \"a\": 1\n", "line"),
    ] {
        let told = refused("claude-code", FILE, text);
        assert!(told.contains(why), "{told}");
        assert!(told.contains("put this into it yourself"), "{told}");
        assert!(told.contains("hook claude-code\"") && told.contains("Read(//ctx/**)"), "{told}");
    }
}

#[test]
fn unknown_shapes_of_other_hosts() {
    let told = refused("codex", ".codex/config.toml", "sandbox_workspace_write = 1\n");
    assert!(told.contains("is not a table") && told.contains("writable_roots = ["), "{told}");
    let told = refused("codex", ".codex/config.toml", "a = \n");
    assert!(told.contains("line 1"), "{told}");
    let told = refused("opencode", ".config/opencode/opencode.json", "{\"permission\": \"ask\"}");
    assert!(told.contains("`permission` is not an object"), "{told}");
    let told = refused("opencode", ".config/opencode/plugins/ctxfs.js", "// mine\n");
    assert!(told.contains("not of ctxfs") && told.contains("move the file away"), "{told}");
}

/// The first file could be changed, the second not.
#[test]
fn nothing_or_all() {
    let home = Home::new();
    home.write(".codex/config.toml", "a = 1\n");
    home.write(".codex/hooks.json", "{\"hooks\": []}");
    let before = home.tree();
    assert_eq!(home.install(&["codex"]).run().code, 1);
    assert_eq!(home.tree(), before);
}

#[test]
fn what_is_no_text() {
    let told = refused("claude-code", FILE, b"{\"a\": \"\xff\"}");
    assert!(told.contains("UTF-8"), "{told}");
    let deep = "[".repeat(100_000) + &"]".repeat(100_000);
    assert!(refused("claude-code", FILE, deep).contains("nesting"));
}

#[test]
fn what_is_no_file() {
    let home = Home::new();
    let path = home.path(FILE);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).unwrap();
    let told = home.install(&["claude-code"]).run();
    assert_eq!(told.code, 1, "{told}");
    assert!(told.to_string().contains("no regular file"), "{told}");
    assert!(home.install(&[]).text().contains("unreadable"));
}

#[test]
fn what_is_not_ours_is_not_removed() {
    let home = Home::new();
    home.write(".config/opencode/plugins/ctxfs.js", "// mine\n");
    home.write(FILE, "{\"permissions\": {\"allow\": [\"Read(//ctx/**)\"]}}\n");
    let before = home.tree();
    for host in ["claude-code", "opencode", "codex"] {
        let told = home.install(&[host, "--remove"]).text();
        assert!(told.starts_with("nothing to change"), "{told}");
        assert_eq!(home.tree(), before);
    }
}

#[test]
fn usage() {
    let home = Home::new();
    for arguments in [&["emacs"][..], &["--print"], &["--remove"], &["--project"]] {
        assert_eq!(home.install(arguments).run().code, 2, "{arguments:?}");
    }
}

/// As `npx` has it.
#[test]
fn a_program_in_a_cache() {
    let home = Home::new();
    let program = home.write("_npx/b4/ctxfs", "");
    std::fs::copy(env!("CARGO_BIN_EXE_ctxfs"), &program).unwrap();
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&program, permissions).unwrap();
    let before = home.tree();
    let run = |arguments: &[&str]| {
        home.in_home(Command::new(&program).without_settings().arg("install").args(arguments)).run()
    };
    let told = run(&["claude-code"]);
    assert_eq!(told.code, 2, "{told}");
    assert!(told.to_string().contains("npm install --global ctxfs"), "{told}");
    assert_eq!(home.tree(), before);
    for harmless in [&["claude-code", "--print"][..], &["claude-code", "--remove"], &[]] {
        assert_eq!(run(harmless).code, 0);
    }
}
