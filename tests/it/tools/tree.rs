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
