//! Programs that walk directories: artifacts are there once, and views do not get in the way.

use std::fs;
use std::path::Path;

use crate::support::{Command, Mode, TestMount, log, need};

/// `(tool, program, package, script)`: runs in a conversation, and in a plain copy of its files.
const ROWS: &[(&str, &str, &str, &str)] = &[
    ("rg", "rg", "ripgrep", "rg -n ERROR artifacts | sort"),
    ("rg --hidden", "rg", "ripgrep", "rg --hidden -c . artifacts | sort"),
    ("rg --files", "rg", "ripgrep", "rg --files --sort path artifacts"),
    ("rg --json", "rg", "ripgrep", r#"rg --json ERROR artifacts | grep -c "type\":\"match""#),
    ("fd", "fdfind", "fd-find", "fdfind -t f . artifacts | sort"),
    ("fd -X", "fdfind", "fd-find", "fdfind -t f . artifacts -X sha256sum | sort"),
    ("grep -r", "grep", "grep", "grep -rn $PLAIN ERROR artifacts | sort"),
    ("find", "find", "findutils", r"find artifacts -type f -size +10k -name '*.txt' | sort"),
    ("cp -a", "cp", "coreutils", r#"cp -a artifacts "$OUT"; cd "$OUT"; $SHOW"#),
    (
        "tar",
        "tar",
        "tar",
        r#"tar --sort=name -cf "$OUT/x" $PLAIN artifacts; tar -xOf "$OUT/x" | sha256sum"#,
    ),
    ("rsync", "rsync", "rsync", r#"rsync -a $PLAIN artifacts "$OUT/"; cd "$OUT"; $SHOW"#),
    ("du", "du", "coreutils", "find artifacts -name *.txt -exec du -b --apparent-size {} + | sort"),
];

#[test]
fn walks() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        for number in 0..5 {
            mount.artifact("c7", &format!("{number}.txt"), &log(1000 + number));
        }
        // Names of views beside it are longer than any disk has them.
        mount.artifact("c7", &format!("{}.txt", "x".repeat(246)), &log(1000));
        let conversation = mount.path().join("c7");
        let twin = mount.store().scratch("twin");
        copy(&conversation.join("artifacts"), &twin.join("artifacts"));
        let mut wrong = Vec::new();
        for (tool, program, package, script) in ROWS {
            need(program, package);
            let expected = walk(&mount, script, &twin);
            let found = walk(&mount, script, &conversation);
            if found != expected {
                wrong.push(format!("{tool}:\n{found}\ninstead of\n{expected}"));
            }
        }
        assert!(wrong.is_empty(), "{mode:?}\n{}", wrong.join("\n"));
    }
}

/// Real outputs whose names are like those of views, and names that an ignore file must escape.
const LIKE_VIEWS: &[&str] = &[
    "plain.txt",
    "eslint.errors",
    "coverage.summary",
    "nightly.tail",
    "page.head",
    "q.jq/in.txt",
    "run.grep/in.txt",
    "run.grep/inner.summary",
    "[a]*{b}?\\c.summary",
    "#1.summary",
    "!2.summary",
    "gr\u{fc}n 3.summary",
    "history/messages.json",
];

#[test]
fn searches_find_real_files_with_names_like_views() {
    let mount = TestMount::new(Mode::Passthrough);
    let twin = mount.store().scratch("twin");
    let conversation = mount.tool("c7").parent().unwrap().parent().unwrap().to_owned();
    for name in LIKE_VIEWS {
        for dir in [mount.tool("c7"), twin.join("artifacts/tool")] {
            let path = dir.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, log(200)).unwrap();
        }
    }
    for dir in [&conversation, &twin] {
        fs::write(dir.join("history/x.summary"), log(200))
            .or_else(|_| {
                fs::create_dir(dir.join("history"))?;
                fs::write(dir.join("history/x.summary"), log(200))
            })
            .unwrap();
    }
    need("rg", "ripgrep");
    need("fdfind", "fd-find");
    for script in [
        "rg -l ERROR . | sort",
        "rg -c ERROR artifacts/tool | sort",
        "cd artifacts/tool; rg -l ERROR | sort",
        "cd artifacts/tool/run.grep; rg -l ERROR | sort",
        "fdfind -t f . artifacts | sort",
    ] {
        assert_eq!(walk(&mount, script, &conversation), walk(&mount, script, &twin), "{script}");
    }
    let found = fs::read_to_string(conversation.join(".grep/-l ERROR")).unwrap();
    assert_eq!(found.lines().count(), LIKE_VIEWS.len());
    // A removed file is no longer named.
    let ignored = || fs::read_to_string(mount.tool("c7").join(".ignore")).unwrap();
    assert!(ignored().contains("!/coverage.summary\n"));
    fs::remove_file(mount.tool("c7").join("coverage.summary")).unwrap();
    assert!(!ignored().contains("coverage"));
}

#[test]
fn a_repository_below_artifacts_is_a_repository() {
    need("git", "git");
    let mount = TestMount::new(Mode::Passthrough);
    let dir = mount.tool("c7").join("r");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("f.txt"), log(20)).unwrap();
    let script = "git init -q . && git add -A && git -c user.email=a@b -c user.name=n commit -qm m \
        && git gc -q && git fsck && git status --short && git log --oneline | wc -l";
    let done =
        Command::shell(script, &[]).current_dir(&dir).env("HOME", mount.store().path()).run();
    assert!(done.code == 0 && done.stdout == b"1\n", "{done}");
    let listed = Command::shell("find . | grep -E '[.](summary|tail|grep)$' || true", &[]);
    assert_eq!(listed.current_dir(&dir.join(".git")).text(), "");
    mount.settle();
    let manifest = fs::read_to_string(mount.path().join("c7/manifest.json")).unwrap();
    assert_eq!(manifest.matches("\"id\"").count(), 1, "{manifest}");
}

fn walk(mount: &TestMount, script: &str, dir: &Path) -> String {
    let out = mount.store().scratch("walk");
    let plain = "--exclude=*.summary --exclude=*.tail --exclude=*.grep --exclude=.ignore";
    let shown = "find . -name *.txt -exec sha256sum {} +";
    let output = Command::shell(&format!("set -f; {script}"), &[])
        .current_dir(dir)
        .env("OUT", &out)
        .env("PLAIN", plain)
        .env("SHOW", shown)
        .env("LC_ALL", "C.UTF-8")
        .run();
    assert!(output.code == 0 && output.stderr.is_empty(), "{script}: {output}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the files, without views.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in from.read_dir().unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name();
        if entry.path().is_dir() && !name.to_string_lossy().ends_with(".grep") {
            copy(&entry.path(), &to.join(name));
        } else if name.to_string_lossy().ends_with(".txt") {
            fs::copy(entry.path(), to.join(name)).unwrap();
        }
    }
}
