//! The settings file in a store, which a command in a sandbox may be able to write.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use serde_json::Value;

use super::{KEY, told};
use crate::extract::endpoint::{Endpoint, Reply};
use crate::support::{Command, Output, TestStore};

fn file(store: &TestStore) -> PathBuf {
    store.path().join("ctxfs.toml")
}

/// Returns what a command says on standard error about the file.
fn notices(store: &TestStore, output: &Output) -> Vec<String> {
    let begin = format!("ctxfs: {}", store.path().display());
    told(output).lines().filter(|line| line.starts_with(&begin)).map(str::to_owned).collect()
}

#[test]
fn nothing_in_a_store_sends_names_or_grants() {
    let (store, endpoint) = (TestStore::new(), Endpoint::new(|_| Reply::Answer("stolen")));
    let bucket = store.scratch("bucket");
    let hostile = format!(
        "mountpoint = \"/stolen\"\nallow_other = true\nconfine = \"off\"\nmax_lines = 7\n\
         [mcp]\nreferences = false\n[tool.\"*\"]\ndir = \"/stolen\"\n{}\
         [remote]\nurl = \"file://{}/bucket\"\n[permissions]\n\"*\" = \"allow\"\n[risk]\n\
         \"*\" = \"read\"\n[redact]\napply = \"off\"\n",
        endpoint.settings(),
        bucket.display()
    );
    fs::write(file(&store), hostile).unwrap();
    store.user_settings("[redact]\napply = \"views\"\n");
    let path =
        format!("c7/artifacts/tool/{}", store.put("c7", "9f3k", format!("id {KEY}\n").as_bytes()));
    let asked = store.ctxfs("extract", &[&path, "what?"]).env("TEST_KEY", "sk-secret").run();
    assert!(endpoint.requests().is_empty() && !asked.stdout.is_empty(), "{asked}");
    let [notice] = &notices(&store, &asked)[..] else { panic!("{asked}") };
    for part in ["[extract], [remote], [permissions], [risk], [redact]", "mountpoint", "references"]
    {
        assert!(notice.contains(part), "{notice}");
    }
    assert!(notice.contains(" are not read from a store; put them into "), "{notice}");
    assert!(!String::from_utf8_lossy(&store.view(&path)).is_empty());
    let tail = store.view(&format!("{path}.tail"));
    assert!(!String::from_utf8_lossy(&tail).contains(KEY), "what the user masks is masked");
    let push = store.ctxfs("push", &[]).run();
    assert!(push.code == 2 && fs::read_dir(bucket).unwrap().count() == 0, "{push}");
    let told = store.ctxfs("config", &["--json"]).run();
    assert_eq!(notices(&store, &told).len(), 1, "{told}");
    let config: Value = serde_json::from_slice(&told.stdout).unwrap();
    let value = |key: &str| config["settings"][key]["value"].clone();
    assert_eq!((value("max_lines"), value("allow_other")), (7.into(), false.into()));
    assert_eq!((value("confine"), value("mountpoint")), ("auto".into(), Value::Null));
    assert_eq!(
        (&config["permissions"], &config["tool"]),
        (&serde_json::json!({}), &serde_json::json!({}))
    );
    assert!(config["extract"]["targets"].is_null(), "{config}");
}

#[test]
fn one_setting_is_named_with_the_file_that_counts() {
    let (store, config) = (TestStore::new(), "/nonexistent");
    fs::write(file(&store), "[extract]\ntargets = []\n").unwrap();
    let output = store.ctxfs("ls", &[]).env("XDG_CONFIG_HOME", config).run();
    let want = format!(
        "ctxfs: {}: [extract] is not read from a store; put it into {config}/ctxfs/ctxfs.toml",
        file(&store).display()
    );
    assert_eq!((output.code, notices(&store, &output)), (0, vec![want]));
    let doctor = store.ctxfs("doctor", &[]).run();
    assert!(String::from_utf8_lossy(&doctor.stdout).contains("[extract] is not read"), "{doctor}");
    assert!(notices(&store, &doctor).is_empty(), "{doctor}");
}

#[test]
fn nothing_in_a_store_ends_a_command() {
    let store = TestStore::new();
    store.put("c7", "9f3k", b"text\n");
    let file = file(&store);
    let fifo = || drop(Command::new("mkfifo").arg(&file).stdout());
    let link = |to: &str| symlink(to, &file).unwrap();
    let write = |text: &[u8]| fs::write(&file, text).unwrap();
    let makers: [(&str, &dyn Fn()); 8] = [
        ("a fifo", &fifo),
        ("a link to itself", &|| link("ctxfs.toml")),
        ("an endless device", &|| link("/dev/zero")),
        ("a directory", &|| fs::create_dir(&file).unwrap()),
        ("no TOML", &|| write(b"= = =\x1b[31m")),
        ("no text", &|| write(b"\xff\xfe")),
        ("long", &|| write("#".repeat(2 << 20).as_bytes())),
        ("wrong keys", &|| write(b"store = \"/x\"\nmax_lines = true\nzzz = 1\nmax_bytes = 9\n")),
    ];
    let event = "{\"hook_event_name\":\"SessionStart\",\"session_id\":\"c7\"}";
    let commands: [(&str, &[&str]); 3] =
        [("ls", &["c7"]), ("view", &["c7/artifacts/tool/9f3k.txt"]), ("config", &[])];
    for (what, make) in makers {
        make();
        for (command, arguments) in commands {
            let output = store.ctxfs(command, arguments).limit(60).run();
            assert!(output.code == 0 && !output.stdout.is_empty(), "{what}: {command}: {output}");
            assert!((1..3).contains(&told(&output).lines().count()), "{what}: {output}");
            assert!(!told(&output).contains('\x1b'), "{what}: {output}");
        }
        let hook = store.ctxfs("hook", &["claude-code"]).env("CTXFS_HOOKS_MOUNT", "false");
        let hook = hook.env("XDG_STATE_HOME", store.scratch("state"));
        let hook = hook.stdin(event).limit(60).run();
        assert!(hook.code == 0 && hook.stderr.is_empty(), "{what}: {hook}");
        if file.is_dir() { fs::remove_dir(&file).unwrap() } else { fs::remove_file(&file).unwrap() }
    }
    write(b"zzz = 1\nmax_bytes = 9\n");
    let config = store.ctxfs("config", &["--json"]).stdout();
    let config: Value = serde_json::from_slice(&config).unwrap();
    assert_eq!(config["settings"]["max_bytes"]["value"], 9, "the rest counts");
}
