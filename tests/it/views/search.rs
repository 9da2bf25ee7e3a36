//! `.grep/` of a directory: every artifact below it.

use std::fs;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use rustix::io::Errno;

use crate::support::{
    Command, Mode, TestMount, TestStore, disk_clock_moves_on, errno, listing, log,
};

/// Creates artifacts of several sizes, in all directories. Returns their paths in the conversation,
/// newest first.
fn fill(mount: &TestMount) -> Vec<String> {
    fs::create_dir_all(mount.tool("c7").join("deep/er")).unwrap();
    let mut paths = Vec::new();
    for number in 0..24 {
        let folder = ["tool", "terminal", "tool/deep/er"][number % 3];
        let path = format!("artifacts/{folder}/out {number}.txt");
        let text = match number {
            5 => Vec::new(),
            9 => log(30_000),
            _ => log(number * 7),
        };
        fs::write(mount.path().join("c7").join(&path), text).unwrap();
        paths.insert(0, path);
        disk_clock_moves_on();
    }
    paths
}

/// Returns the output of ripgrep in `dir`, with its files in the order of `paths`.
fn ripgrep(dir: &Path, args: &[&str], paths: &[String]) -> String {
    let rg = Command::new("rg").args(["--no-config", "-n", "--sort=none"]).args(args);
    let text = rg.arg("./").current_dir(dir).text();
    let mut ordered = String::new();
    for path in paths {
        let mine = |line: &&str| {
            let rest = line.strip_prefix("./").and_then(|line| line.strip_prefix(path.as_str()));
            rest.is_some_and(|rest| rest.starts_with([':', '-', '\n']))
        };
        ordered.extend(text.split_inclusive('\n').filter(mine).map(|line| &line[2..]));
    }
    ordered
}

#[test]
fn it_finds_what_ripgrep_finds_newest_first() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let paths = fill(&mount);
        let plain = mount.store().path().join("context/c7");
        let queries: [(&str, &[&str]); 7] = [
            ("ERROR", &["ERROR"]),
            ("-i error", &["-i", "error"]),
            ("-c request", &["-c", "request"]),
            ("-l ERROR", &["-l", "ERROR"]),
            ("-m2 path", &["-m2", "path"]),
            ("-o [0-9]+7 of", &["-o", "[0-9]+7 of"]),
            ("-C1 ERROR", &["-C1", "ERROR"]),
        ];
        for (query, args) in queries {
            let limit = if query.starts_with("-m") { "" } else { "-m0 " };
            let path = mount.path().join(format!("c7/.grep/{limit}{query}"));
            let found = fs::read_to_string(path).unwrap().replace("--\n", "");
            let want = ripgrep(&plain, args, &paths);
            assert!(!want.is_empty() && found == want, "{mode:?} {query}");
        }
        let below: Vec<String> = paths
            .iter()
            .filter_map(|path| path.strip_prefix("artifacts/tool/"))
            .map(str::to_owned)
            .collect();
        let found = fs::read_to_string(mount.tool("c7").join(".grep/-m0 ERROR")).unwrap();
        assert_eq!(found, ripgrep(&plain.join("artifacts/tool"), &["ERROR"], &below), "{mode:?}");
    }
}

#[test]
fn it_is_a_view_like_the_others() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        fill(&mount);
        let conversation = mount.path().join("c7");
        for query in
            [".grep/request", ".grep/nowhere", "artifacts/.grep/-c request", ".grep/-m0 request"]
        {
            let path = conversation.join(query);
            let attributes = fs::metadata(&path).unwrap();
            let bytes = fs::read(&path).unwrap();
            assert_eq!(attributes.len(), bytes.len() as u64, "{mode:?} {query}");
            assert_eq!(attributes.mode(), 0o100_400, "{query}");
            assert!(query.contains("-m0") || bytes.len() <= 49_152, "{query}: {}", bytes.len());
            assert_eq!(errno(File::options().write(true).open(&path)), Errno::PERM, "{query}");
            assert_eq!(errno(File::create(&path)), Errno::PERM, "{query}");
            fs::remove_file(&path).unwrap();
        }
        let searches = conversation.join(".grep");
        assert!(
            listing(&searches).is_empty() && !listing(&conversation).contains(&".grep".to_owned())
        );
        assert_eq!(errno(fs::metadata(searches.join("HEAD"))), Errno::NOENT);
        assert_eq!(errno(fs::create_dir(&searches)), Errno::EXIST);
        assert_eq!(errno(fs::metadata(mount.path().join(".grep"))), Errno::NOENT);
        fs::remove_dir_all(&conversation).unwrap();
        assert_eq!(errno(fs::metadata(&searches)), Errno::NOENT);
    }
}

#[test]
fn it_follows_every_change() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let dir = mount.tool("c7");
        let found = || fs::read_to_string(dir.join(".grep/needle")).unwrap();
        let inode = || fs::metadata(dir.join(".grep/needle")).unwrap().ino();
        assert_eq!(found(), "");
        let mut live = File::create(dir.join("live.log")).unwrap();
        live.write_all(b"needle 1\n").unwrap();
        assert_eq!(found(), "live.log:1:needle 1\n", "{mode:?}");
        live.write_all(b"needle 2\n").unwrap();
        assert_eq!(found(), "live.log:1:needle 1\nlive.log:2:needle 2\n", "{mode:?}");
        let before = inode();
        live.write_all(b"hay\n").unwrap();
        assert_ne!(inode(), before, "{mode:?}");
        live.set_len(9).unwrap();
        assert_eq!(found(), "live.log:1:needle 1\n", "{mode:?}");
        drop(live);
        fs::write(dir.join(".scratch"), "needle\n").unwrap();
        fs::write(dir.join("x.tmp"), "needle\n").unwrap();
        assert_eq!(found(), "live.log:1:needle 1\n", "{mode:?}");
        fs::rename(dir.join("x.tmp"), dir.join("x.txt")).unwrap();
        assert_eq!(found(), "x.txt:1:needle\nlive.log:1:needle 1\n", "{mode:?}");
        fs::rename(dir.join("live.log"), dir.join("y.txt")).unwrap();
        assert_eq!(found(), "x.txt:1:needle\ny.txt:1:needle 1\n", "{mode:?}");
        fs::remove_file(dir.join("x.txt")).unwrap();
        assert_eq!(found(), "y.txt:1:needle 1\n", "{mode:?}");
        fs::write(dir.join("b.bin"), b"needle\x01\0\n").unwrap();
        let want = "# 1 artifact is not text, and not searched: b.bin\ny.txt:1:needle 1\n";
        assert_eq!(found(), want, "{mode:?}");
    }
}

/// A write of one process is found at once by another, before the artifact is sealed.
#[test]
fn it_sees_what_other_processes_write() {
    let store = Arc::new(TestStore::new());
    let mine = TestMount::of(&store, Mode::Passthrough, &[]);
    let other = TestMount::of(&store, Mode::Cached, &[]);
    let dir = mine.tool("c7");
    let found = || fs::read_to_string(dir.join(".grep/-c needle")).unwrap();
    assert_eq!(found(), "");
    let mut live = File::create(other.tool("c7").join("x.txt")).unwrap();
    for count in 1..20 {
        live.write_all(b"needle\n").unwrap();
        assert_eq!(found(), format!("x.txt:{count}\n"));
    }
    drop(live);
    store.put("c7", "call", b"needle\n");
    assert!(found().contains("call.txt:1\n"));
    fs::write(store.plain("c7", "call.txt"), "needle\nneedle\n").unwrap();
    assert!(found().contains("call.txt:2\n"));
    fs::remove_file(store.plain("c7", "call.txt")).unwrap();
    assert_eq!(found(), "x.txt:19\n");
}

#[test]
fn a_huge_number_of_hits_can_be_read_to_the_end() {
    let mount = TestMount::new(Mode::Passthrough);
    let paths = fill(&mount);
    let all = fs::read_to_string(mount.path().join("c7/.grep/-m0 request")).unwrap();
    let plain = mount.store().path().join("context/c7");
    assert!(all == ripgrep(&plain, &["request"], &paths) && all.len() > 1_000_000);
    let root = mount.path().display().to_string();
    let mut joined = String::new();
    let mut next = Some(format!("{root}/c7/.grep/request"));
    while let Some(path) = next {
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.len() <= 49_152, "{path}: {} bytes", text.len());
        let (notice, rest) = if text.starts_with("# ") {
            text.split_once('\n').unwrap()
        } else {
            ("", text.as_str())
        };
        joined.push_str(rest);
        let on = notice.split_once("Go on: ").map(|(_, on)| on.split("    ").next().unwrap());
        next = on.map(str::to_owned);
        assert!(next.as_ref().is_none_or(|path| path.starts_with(&root)), "{notice}");
    }
    assert!(joined == all);
}

#[test]
fn it_needs_no_mount() {
    let mount = TestMount::new(Mode::Passthrough);
    fill(&mount);
    for path in ["c7/.grep/-C1 ERROR", "c7/artifacts/tool/.grep/-c request"] {
        let seen = fs::read(mount.path().join(path)).unwrap();
        let root = mount.path().to_str().unwrap();
        let printed = mount.store().ctxfs("view", &["--advertise", root, path]).stdout();
        assert!(!seen.is_empty() && printed == seen, "{path}");
    }
}

/// A query is understood as rg, a shell or grep would understand it. Where it is not taken as it
/// stands, the first line says so.
#[test]
fn queries_as_models_write_them() {
    let mount = TestMount::new(Mode::Passthrough);
    let text = "start\nERROR: disk full\nretry 1\nfoobar foo\nError: gave up\n";
    let path = mount.artifact("c7", "x.txt", text.as_bytes());
    mount.artifact("c7", "y.log", b"retry 2\n");
    let plain = mount.store().plain("c7", "x.txt");
    let grep = |args: &[&str]| Command::new("grep").args(args).arg(&plain).text();
    let cases: &[(&str, &[&str], bool)] = &[
        ("-e ERROR -e gave", &["-n", "-e", "ERROR", "-e", "gave"], false),
        ("-E ERROR|gave", &["-nE", "ERROR|gave"], false),
        ("-rn retry", &["-n", "retry"], false),
        ("-o disk", &["-no", "disk"], false),
        ("-P foo(?!bar)", &["-nP", "foo(?!bar)"], false),
        ("-A 3 disk", &["-n", "-A3", "disk"], false),
        ("--include=*.txt disk", &["-n", "disk"], false),
        ("'disk full'", &["-n", "disk full"], true),
        ("\"disk full\" -A 1", &["-n", "-A1", "disk full"], true),
        ("ERROR\\|gave", &["-n", "ERROR\\|gave"], true),
        ("foo(?=bar)", &["-nP", "foo(?=bar)"], true),
        ("-q disk", &["-n", "disk"], true),
    ];
    for (query, args, is_noted) in cases {
        let view = fs::read_to_string(path.with_file_name(format!("x.txt.grep/{query}"))).unwrap();
        let (notice, body) =
            view.split_at(if *is_noted { view.find('\n').unwrap() + 1 } else { 0 });
        assert_eq!(body, grep(args), "{query}");
        assert_eq!(notice.starts_with("# "), *is_noted, "{query}: {notice}");
    }
    let listed =
        |query: &str| fs::read_to_string(mount.tool("c7").join(".grep").join(query)).unwrap();
    assert_eq!(listed("-l retry"), "y.log\nx.txt\n");
    assert_eq!(listed("--include=*.log -rn retry"), "y.log:1:retry 2\n");
    assert!(listed("'gave up'").ends_with("\nx.txt:5:Error: gave up\n"));
    assert_eq!(
        fs::read_to_string(path.with_file_name("x.txt.lines/2,3")).unwrap(),
        "ERROR: disk full\nretry 1\n"
    );
}
