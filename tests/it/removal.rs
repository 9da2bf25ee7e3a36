//! Searching and removing a conversation: views neither repeat matches nor get in the way.

use std::fs;
use std::path::Path;

use crate::support::{Command, Mode, TestMount, lines_of, listing, log, need};

/// Ways to remove the directory `$1` with everything in it.
const WAYS: &[&str] = &[
    r#"rm -r "$1""#,
    r#"rm -rf "$1""#,
    r#"find "$1" -delete"#,
    r#"python3 -c 'import shutil, sys; shutil.rmtree(sys.argv[1])' "$1""#,
    r#"node -e 'require("fs").rmSync(process.argv[1], { recursive: true })' "$1""#,
];

#[test]
fn a_search_reports_each_hit_once() {
    need("rg", "ripgrep");
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let mut expected = Vec::new();
        for name in ["a.txt", "b.txt"] {
            let text = log(3000);
            mount.artifact("c7", name, &text);
            let hits =
                text.split(|byte| *byte == b'\n').filter(|line| line.get(6..11) == Some(b"ERROR"));
            expected.extend(hits.map(|line| format!("{name}:{}", String::from_utf8_lossy(line))));
        }
        for (dir, options) in
            [("c7", &[][..]), ("c7", &["--hidden"]), ("c7/artifacts/tool", &["--no-ignore-parent"])]
        {
            let search = Command::new("rg").args(["--sort", "path", "-H", "-N", "ERROR"]);
            let said = search.args(options).arg(".").current_dir(&mount.path().join(dir)).text();
            let said: Vec<&str> = said
                .lines()
                .map(|line| line.trim_start_matches("./").trim_start_matches("artifacts/tool/"))
                .collect();
            assert!(said == expected, "{mode:?} {dir} {options:?}: {} hits", said.len());
        }
    }
}

#[test]
fn a_conversation_goes_whole() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        for way in WAYS {
            for name in ["a.txt", "b.json", "c.summary.txt", ".scratch", "d.tmp"] {
                mount.artifact("c7", name, &lines_of(&log(50), 1, 50));
            }
            let terminal = mount.path().join("c7/artifacts/terminal/t.log");
            fs::write(terminal, b"$ true\n").unwrap();
            let folder = mount.tool("c7").join("folder");
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("deep.txt"), b"deep\n").unwrap();
            remove(way, &mount.path().join("c7"));
            assert!(!mount.path().join("c7").exists(), "{way}");
            assert!(!listing(mount.path()).contains(&"c7".to_owned()), "{way}");
            assert!(!mount.store().path().join("context/c7").exists(), "{way}");
        }
    }
}

#[test]
fn one_folder_goes() {
    let mount = TestMount::new(Mode::Passthrough);
    for way in WAYS {
        let folder = mount.tool("c7").join("folder");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("deep.txt"), b"deep\n").unwrap();
        remove(way, &folder);
        assert!(!folder.exists(), "{way}");
    }
}

#[test]
fn thousands_of_entries_go() {
    let mount = TestMount::new(Mode::Passthrough);
    for way in [WAYS[1], WAYS[2]] {
        let dir = mount.tool("c7");
        for number in 0..1200 {
            fs::write(dir.join(format!("{number}.txt")), b"x\n").unwrap();
        }
        remove(way, &mount.path().join("c7"));
        assert!(!mount.path().join("c7").exists(), "{way}");
    }
}

#[test]
fn a_new_conversation_can_be_removed_at_once() {
    let mount = TestMount::new(Mode::Passthrough);
    let dir = mount.path().join("c7");
    fs::create_dir(&dir).unwrap();
    for folder in ["artifacts/tool", "artifacts/terminal", "history", "catalog"] {
        assert!(dir.join(folder).is_dir(), "{folder}");
    }
    fs::remove_dir(&dir).unwrap();
    assert!(!dir.exists());
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("artifacts/tool/x.txt"), b"x\n").unwrap();
    let kept = crate::support::errno(fs::remove_dir(&dir));
    assert_eq!(kept, rustix::io::Errno::NOTEMPTY);
    assert_eq!(fs::read(dir.join("artifacts/tool/x.txt")).unwrap(), b"x\n");
}

fn remove(way: &str, dir: &Path) {
    let output = Command::shell(way, &[dir]).limit(120).run();
    assert!(output.code == 0 && output.stderr.is_empty(), "{way}: {output}");
}
