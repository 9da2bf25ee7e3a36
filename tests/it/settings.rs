//! Settings take effect in a mount, in `put` and in `view`, and mistakes in them are reported.

mod administrator;
mod redaction;
mod store_file;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::support::{Command, Mode, Output, TestMount, TestStore, eventually, listing};

/// A made-up key, joined here so that nobody takes it for a leak.
const KEY: &str = concat!("AKI", "AQYLPMN5HHHFPZAM2");
const MASK: &str = "[redacted:aws-key]**";

fn store(settings: &str) -> Arc<TestStore> {
    let store = TestStore::new();
    fs::write(store.path().join("ctxfs.toml"), settings).unwrap();
    Arc::new(store)
}

/// Returns a store with settings of its user.
fn of_user(settings: &str) -> Arc<TestStore> {
    let store = TestStore::new();
    store.user_settings(settings);
    Arc::new(store)
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns a text of so many lines that it is not shown whole.
fn log() -> Vec<u8> {
    // No two lines are alike.
    let word = |line: usize| char::from(b'a' + (line % 26) as u8).to_string().repeat(line / 26 + 1);
    (1..=400).flat_map(|line| format!("line {} of a log\n", word(line)).into_bytes()).collect()
}

/// Returns the lines of the head in a summary.
fn head_lines(summary: &[u8]) -> usize {
    let text = String::from_utf8_lossy(summary);
    let head = text.lines().skip_while(|line| !line.starts_with("--- head"));
    head.skip(1).take_while(|line| !line.starts_with("---")).count()
}

#[test]
fn limits_hold_in_the_mount_and_without_one() {
    let store = store("snippet_lines = 3\n[tool.\"shell/*\"]\nsnippet_lines = 5\n");
    let mount = TestMount::of(&store, Mode::Passthrough, &["--advertise", "/ctx"]);
    let artifact = mount.artifact("c7", "x.txt", &log());
    let summary = || fs::read(artifact.with_extension("txt.summary")).unwrap();
    assert_eq!(head_lines(&summary()), 3);
    let view = || store.ctxfs("view", &["--advertise", "/ctx", "c7/artifacts/tool/x.txt.summary"]);
    assert_eq!(view().stdout(), summary());
    for (name, value) in [("tool", "exec"), ("server", "shell")] {
        let set = ["-n", &format!("user.ctx.{name}"), "-v", value];
        Command::new("setfattr").args(set).arg(&artifact).stdout();
    }
    assert_eq!(head_lines(&summary()), 5);
    assert_eq!(view().stdout(), summary());
    let put = ["-c", "c7", "--tool", "exec", "--server", "shell"];
    assert_eq!(head_lines(&store.ctxfs("put", &put).stdin(log()).stdout()), 5);
    assert_eq!(head_lines(&store.ctxfs("put", &put[..2]).stdin(log()).stdout()), 3);
    let variable = store.ctxfs("put", &put[..2]).env("CTXFS_SNIPPET_LINES", "4").stdin(log());
    assert_eq!(head_lines(&variable.stdout()), 4);
}

#[test]
fn a_mount_is_as_the_settings_say_and_flags_win() {
    let store = store("write_once = true\nviews = \"unlisted\"\nmax_artifact = \"1 KiB\"\n");
    let listed = |mount: &TestMount| mount.tool("c7").join("x.txt").parent().unwrap().read_dir();
    {
        let mount = TestMount::of(&store, Mode::Cached, &[]);
        let artifact = mount.artifact("c7", "x.txt", b"text\n");
        assert_eq!(listed(&mount).unwrap().count(), 1, "views are not listed");
        eventually("it is sealed", || fs::write(&artifact, b"other\n").is_err());
        let large = fs::write(mount.tool("c7").join("y.txt"), vec![b'y'; 2000]);
        assert_eq!(large.unwrap_err().raw_os_error(), Some(27), "EFBIG");
    }
    let flags = ["--write-once=false", "--views", "listed", "--max-artifact", "off"];
    let mount = TestMount::of(&store, Mode::Cached, &flags);
    mount.artifact("c7", "x.txt", &vec![b'y'; 2000]);
    assert!(listed(&mount).unwrap().count() > 1);
}

#[test]
fn wrong_settings_end_every_command() {
    let store = of_user("max_lines = 3\nmax_inline_byte = 16384\n");
    let path = store.user_file();
    let want = format!(
        "{}:2: unknown key `max_inline_byte`; did you mean `max_inline_bytes`?",
        path.display()
    );
    let mountpoint = store.scratch("mnt");
    let mountpoint = mountpoint.to_str().unwrap();
    let commands: [(&str, &[&str]); 5] = [
        ("ls", &[]),
        ("put", &["-c", "c7"]),
        ("view", &["c7/x"]),
        ("config", &[]),
        ("mount", &[mountpoint]),
    ];
    for (command, arguments) in commands {
        let output = store.ctxfs(command, arguments).run();
        assert!(output.code == 2 && output.stdout.is_empty(), "{command}: {output}");
        assert!(told(&output).contains(&want), "{command}: {output}");
    }
    let output = store.ctxfs("config", &["--defaults"]).run();
    assert_eq!(output.code, 0, "the way out is open");
    let output = store.ctxfs("doctor", &[]).run();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.code == 1 && said.contains(&want), "{output}");
}

#[test]
fn what_config_prints_can_be_its_file() {
    let store = of_user("quota = \"3 GiB\"\n[redact]\n[tool.\"a/*\"]\nmax_lines = 7\n");
    let printed = store.ctxfs("config", &[]).text();
    assert!(printed.contains("quota = \"3 GiB\" "), "{printed}");
    assert!(printed.contains("user.toml:1\n") && printed.contains("# --store\n"), "{printed}");
    let copy = store.scratch("copy").join("copy.toml");
    fs::write(&copy, &printed).unwrap();
    let again =
        |arguments: &[&str]| Command::ctxfs().arg("--config").arg(&copy).args(arguments).text();
    assert!(again(&["config"]).contains("copy.toml:"), "it is read");
    let value: serde_json::Value =
        serde_json::from_str(&again(&["config", "--json", "--tool", "a/b"])).unwrap();
    assert_eq!(value["settings"]["max_lines"]["value"], 7);
    assert_eq!(value["settings"]["max_lines"]["origin"]["tool"], "a/*");
}

#[test]
fn the_users_file_is_read_and_variables_win_over_it() {
    let store = TestStore::new();
    let config = store.scratch("config");
    fs::create_dir(config.join("ctxfs")).unwrap();
    fs::write(config.join("ctxfs/ctxfs.toml"), "max_lines = 3\nmax_bytes = 9\n").unwrap();
    let run = |value: &str| {
        let command = store.ctxfs("config", &["--json"]).env("XDG_CONFIG_HOME", &config);
        let told = command.env("TOOL_OUTPUT_MAX_LINES", value).text();
        serde_json::from_str::<serde_json::Value>(&told).unwrap()["settings"].take()
    };
    let held = run("4");
    assert_eq!((&held["max_lines"]["value"], &held["max_bytes"]["value"]), (&4.into(), &9.into()));
    assert_eq!(held["max_lines"]["origin"]["variable"], "TOOL_OUTPUT_MAX_LINES");
    assert_eq!(run("")["max_lines"]["value"], 3, "an empty variable is not set");
}

#[test]
fn secrets_are_masked_in_views_and_kept_in_the_file() {
    let store = of_user("redact = \"views\"\n");
    let text = format!("{}id {KEY}\n", String::from_utf8(log()).unwrap());
    for mode in Mode::ALL {
        let mount = TestMount::of(&store, mode, &["--advertise", "/ctx"]);
        let artifact = mount.artifact("c7", "x.txt", text.as_bytes());
        let read =
            |view: &str| fs::read_to_string(format!("{}{view}", artifact.display())).unwrap();
        let tail = read(".tail");
        assert!(tail.starts_with("# 1 secret is redacted (aws-key 1)\n"), "{}", &tail[..99]);
        assert!(tail.ends_with(&format!("\nid {MASK}\n")), "{mode:?}");
        assert!(read(".summary").contains("\nredacted: 1 secret (aws-key 1) in what is shown\n"));
        assert_eq!(read(".grep/AKIA"), "");
        assert_eq!(read(".grep/-c redacted:"), "1\n");
        assert_eq!(read(".head"), text.split_inclusive('\n').take(200).collect::<String>());
        assert_eq!(read(""), text, "the file is as it was written");
        assert_eq!(store.view("c7/artifacts/tool/x.txt.grep/AKIA"), b"");
    }
}

#[test]
fn secrets_are_masked_on_the_disk_where_that_is_asked() {
    let store = of_user("redact = \"stored\"\n");
    let text = format!("id {KEY}\nend\n");
    let masked = format!("id {MASK}\nend\n");
    let args = format!("{{\"id\": \"{KEY}\"}}");
    let put = ["-c", "c7", "--call", "put", "--args", &args, "--format", "json"];
    let meta = store.ctxfs("put", &put).stdin(text.clone()).text();
    assert!(meta.contains(MASK) && !meta.contains(KEY), "{meta}");
    assert_eq!(fs::read_to_string(store.plain("c7", "put.txt")).unwrap(), masked);
    for mode in Mode::ALL {
        let mount = TestMount::of(&store, mode, &[]);
        let artifact = mount.artifact("c7", "x.txt", text.as_bytes());
        // Read while it may still be as it was written: no cache may keep that.
        fs::read(&artifact).unwrap();
        eventually("it is masked", || fs::read_to_string(&artifact).unwrap() == masked);
        assert_eq!(fs::read_to_string(store.plain("c7", "x.txt")).unwrap(), masked);
        fs::remove_file(&artifact).unwrap();
    }
    assert!(!holds(&store.path(), KEY), "nothing in the store has it");
}

#[test]
fn what_put_prints_is_masked_and_says_so() {
    let settings = |apply: &str| format!("redact = \"{apply}\"\nmax_bytes = 4000\n");
    let text = format!("id {KEY}\n{}", String::from_utf8(log()).unwrap());
    for (apply, stored) in [("views", KEY), ("stored", MASK)] {
        let store = of_user(&settings(apply));
        let args = format!("key {KEY}");
        let put = |format: &str, more: &[&str], text: &str| {
            let put = ["-c", "c7", "--call", format, "--args", &args, "--format", format];
            store.ctxfs("put", &[&put, more].concat()).stdin(text).text()
        };
        for (format, said) in [
            ("summary", "\nredacted: 1 secret (aws-key 1) in what is shown\n"),
            ("envelope", "\"redacted\":{\"aws-key\":1}"),
            ("preview", "\n[Redacted: 1 secret (aws-key 1)]\n\n[Full output: "),
            ("handle", "Tool output is "),
            ("json", "\"redacted\": {\n    \"aws-key\": 1\n"),
            ("ref", "\"ctx://c7/artifacts/tool/ref.txt\""),
        ] {
            let printed = put(format, &["--always"], &text);
            assert!(printed.contains(said) && !printed.contains(KEY), "{format}: {printed}");
            let kept = fs::read_to_string(store.plain("c7", &format!("{format}.txt"))).unwrap();
            assert_eq!(kept, text.replace(KEY, stored), "{apply} {format}");
            // Of the call, the arguments alone are shown, and only by one of them.
            let plain = put(format, &["--always"], "short\n");
            assert_eq!(plain.contains("edacted"), format == "json", "{format}: {plain}");
        }
        let little = put("summary", &[], &format!("id {KEY}\n"));
        assert_eq!(little, format!("id {MASK}\n"));
    }
}

#[test]
fn the_tool_output_layout_is_masked_where_that_is_asked() {
    let text = format!("id {KEY}\n{}", String::from_utf8(log()).unwrap());
    for (apply, stored) in [("views", KEY), ("stored", MASK)] {
        let store = of_user(&format!("redact = \"{apply}\"\nmax_bytes = 4000\n"));
        for more in [&[][..], &["-c", "c7"]] {
            let dir = store.scratch("host");
            let put = [&["--layout", "tool-output", "--tool", "Read"], more].concat();
            let printed = store.ctxfs("put", &put).current_dir(&dir).stdin(text.clone()).text();
            assert!(printed.contains("\"redacted\":{\"aws-key\":1}") && printed.contains(MASK));
            assert!(!printed.contains(KEY), "{printed}");
            let name = listing(&dir.join("tool-output")).pop().unwrap();
            let kept = fs::read_to_string(dir.join("tool-output").join(name)).unwrap();
            assert_eq!(kept, text.replace(KEY, stored), "{apply} {more:?}");
        }
    }
}

#[test]
fn never_and_mirror_let_outputs_through() {
    let store = store(
        "max_inline_chars = \"never\"\nmax_lines = \"never\"\n\
         [tool.mirrored]\nmax_inline_chars = \"mirror\"\nmax_lines = \"mirror\"\n\
         message_threshold = \"mirror\"\ntool_response_max_bytes = \"mirror\"\n",
    );
    let text = "a line\n".repeat(20_000);
    for format in ["summary", "envelope", "preview", "handle"] {
        let put = |tool: &str, text: &str| {
            let call = format!("{tool}-{format}");
            let put = ["-c", "c7", "--call", &call, "--format", format, "--tool", tool];
            store.ctxfs("put", &put).stdin(text).text()
        };
        assert_eq!(put("mirrored", &text), text, "{format}");
        let name = format!("mirrored-{format}.txt");
        assert_eq!(fs::read_to_string(store.plain("c7", &name)).unwrap(), text);
        assert_ne!(put("other", &text), text, "{format}: the other limit triggers");
    }
    let put = |format: &str, text: &str| {
        store.ctxfs("put", &["-c", "c7", "--format", format]).stdin(text).text()
    };
    let (chars, lines) = ("x".repeat(9000), "x\n".repeat(9000));
    assert_eq!(put("summary", &chars), chars, "bytes alone decide");
    assert_eq!(put("envelope", &lines), lines, "bytes alone decide");
}

/// Returns true if a file below `dir` contains `text`.
fn holds(dir: &Path, text: &str) -> bool {
    let found = Command::new("grep").args(["-rlF", text]).arg(dir).run();
    assert!(found.code < 2, "{found}");
    found.code == 0
}

#[test]
fn nothing_is_said_of_secrets_in_the_log() {
    let store = of_user("redact = \"stored\"\nlog = \"trace\"\n");
    let dir = store.scratch("mnt");
    let state = dir.with_extension("state");
    let program = || Command::ctxfs().with_settings_of(&store).env("XDG_STATE_HOME", &state);
    let command = |name: &str| program().arg(name).arg(&dir);
    command("mount").arg("--store").arg(store.path()).stdout();
    fs::create_dir(dir.join("c7")).unwrap();
    let artifact = dir.join("c7/artifacts/tool/x.txt");
    fs::write(&artifact, format!("id {KEY}\n")).unwrap();
    fs::read(artifact.with_extension("txt.tail")).unwrap();
    eventually("it is masked", || !fs::read_to_string(&artifact).unwrap().contains(KEY));
    command("umount").stdout();
    assert!(holds(&state, "serving"), "there is a log");
    assert!(!holds(&state, KEY));
}
