//! The descriptors of the server do not grow with what clients and the kernel hold.

use std::fs;
use std::path::Path;

use rustix::fs::FlockOperation;
use serde_json::Value;

use crate::support::{Client, Command, Mode, TestMount, eventually, log, sealed_paths};

/// The descriptors of the server in these tests.
const MOST: u64 = 256;

fn nodes(mount: &TestMount) -> u64 {
    let status = fs::read(mount.path().join(".ctxfs/status.json")).unwrap();
    serde_json::from_slice::<Value>(&status).unwrap()["nodes"].as_u64().unwrap()
}

/// Returns the text of a view of `path`.
fn view(path: &Path, suffix: &str) -> String {
    fs::read_to_string(format!("{}{suffix}", path.display())).unwrap()
}

#[test]
fn any_number_of_directories_may_be_remembered() {
    const DIRS: usize = 5000;
    const CONVERSATIONS: usize = 220;
    let mount = TestMount::with_descriptors(Mode::Cached, MOST);
    let tool = mount.tool("c7");
    let made = format!("for n in range({DIRS}): os.mkdir(f'{{path}}/d{{n}}')");
    python(&made, &tool);
    (0..CONVERSATIONS).for_each(|number| drop(mount.tool(&format!("c8-{number}"))));
    let found = Command::new("find").arg(mount.path()).args(["-type", "d", "-name", "tool"]);
    assert_eq!(found.text().lines().count(), CONVERSATIONS + 1);
    assert!(nodes(&mount) > (DIRS + CONVERSATIONS * 3) as u64, "they are not remembered");
    assert!(mount.descriptors() < 128, "{}", mount.descriptors());
    for number in (0..DIRS).step_by(100) {
        work(&tool.join(format!("d{number}")), number);
    }
    for number in (0..CONVERSATIONS).step_by(20) {
        work(&mount.tool(&format!("c8-{number}")), number);
    }
    let all = fs::read_dir(&tool).unwrap().map(|dir| dir.unwrap().metadata().unwrap());
    assert_eq!(all.filter(fs::Metadata::is_dir).count(), DIRS);
    python(&format!("for n in range({DIRS}): os.rmdir(f'{{path}}/d{{n}}')"), &tool);
    assert_eq!(fs::read_dir(&tool).unwrap().count(), 0);
    assert!(mount.descriptors() < 128, "{}", mount.descriptors());
}

/// Creates, writes, renames, lists, views and removes in a directory that has nothing in it.
fn work(dir: &Path, number: usize) {
    let (first, second) = (dir.join("x.txt"), dir.join("y.txt"));
    fs::write(&first, format!("number {number}\n")).unwrap();
    assert_eq!(view(&first, ".tail"), format!("number {number}\n"));
    fs::rename(&first, &second).unwrap();
    assert_eq!(view(&second, ".grep/[0-9]"), format!("1:number {number}\n"));
    assert!(fs::read_dir(dir).unwrap().count() >= 4);
    fs::remove_file(&second).unwrap();
    assert_eq!(fs::read_dir(dir).unwrap().count(), 0);
}

/// A process stays in a directory that is used no more, and which its name leads to no longer.
#[test]
fn a_working_directory_lasts() {
    for mode in Mode::ALL {
        let mount = TestMount::with_descriptors(mode, MOST);
        let tool = mount.tool("c7");
        let stays = "def others():\n\
                     \x20   for n in range(40):\n\
                     \x20       for _ in range(4): os.listdir(f'{path}/other{n}')\n\
                     for n in range(40): os.mkdir(f'{path}/other{n}')\n\
                     os.mkdir(f'{path}/a'); os.mkdir(f'{path}/a/here'); os.chdir(f'{path}/a/here')\n\
                     others()\n\
                     open('1', 'w').close(); os.rename(f'{path}/a', f'{path}/b')\n\
                     others()\n\
                     open('2', 'w').close(); os.rename('../here', '../there')\n\
                     others()\n\
                     open('3', 'w').close(); os.mkdir('inner')\n\
                     others()\n\
                     assert sorted(n for n in os.listdir('.') if '.' not in n) == ['1', '2', '3', 'inner']\n\
                     assert os.stat('.').st_ino == os.stat(f'{path}/b/there').st_ino";
        python(stays, &tool);
        let store = mount.store().plain("c7", "b");
        // Another process moves it in the store, and puts another one in its place.
        fs::rename(store.join("there"), store.join("moved")).unwrap();
        fs::create_dir(store.join("there")).unwrap();
        let there = tool.join("b/there");
        eventually("the other one is seen", || fs::read_dir(&there).unwrap().count() == 0);
        fs::write(there.join("4"), "").unwrap();
        assert_eq!(fs::read_dir(store.join("moved")).unwrap().count(), 4, "{mode:?}");
        fs::write(tool.join("b/moved/5"), "").unwrap();
        assert_eq!(fs::read_dir(store.join("there")).unwrap().count(), 1, "{mode:?}");
    }
}

/// A client of one conversation opens as much as it can, of every kind, and keeps it open.
#[test]
fn one_conversation_leaves_descriptors_to_others() {
    let opens = [
        ("files", "os.open(f'{path}/x.txt', os.O_RDONLY)"),
        ("writers", "os.open(f'{path}/{len(held)}.txt', os.O_WRONLY | os.O_CREAT)"),
        ("directories", "os.open(path, os.O_RDONLY)"),
        ("views", "os.open(f'{path}/x.txt.lines/1+{len(held) + 1}', os.O_RDONLY)"),
        ("logs", "os.open(f'{path}/../../history/messages.jsonl', os.O_WRONLY | os.O_APPEND)"),
    ];
    for mode in Mode::ALL {
        let mount = TestMount::with_descriptors(mode, MOST);
        let tool = mount.artifact("c7", "x.txt", &log(100)).with_file_name("");
        fs::write(mount.path().join("c7/history/messages.jsonl"), "").unwrap();
        let other = mount.artifact("c8", "x.txt", b"text\n");
        for (what, open) in opens {
            let all = format!(
                "held = []\n\
                 while True:\n\
                 \x20   try: held.append({open})\n\
                 \x20   except OSError as error: refused = error.errno; break\n\
                 assert refused == 24, refused\n\
                 assert 10 < len(held) < 100, len(held)"
            );
            let client = Client::with_descriptors(&all, &tool);
            let rest = opened_until_refused(&tool.join("x.txt"));
            let held: Vec<_> = (0..10).map(|_| fs::File::open(&other).unwrap()).collect();
            work(&mount.tool("c8").with_file_name("terminal"), held.len());
            assert!(mount.tool(&format!("c9-{what}")).is_dir(), "{mode:?}: {what}");
            drop((client, rest, held));
            eventually("what it held is given back", || fs::File::open(tool.join("x.txt")).is_ok());
        }
    }
}

/// Opens a file until there are no descriptors for it. The server may have closed something since a
/// client was refused.
fn opened_until_refused(path: &Path) -> Vec<fs::File> {
    let mut open = Vec::new();
    loop {
        match fs::File::open(path) {
            Ok(file) => open.push(file),
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::EMFILE), "{}", path.display());
                assert!(open.len() < 20, "{} more", open.len());
                return open;
            }
        }
    }
}

#[test]
fn files_that_wait_to_be_sealed_hold_no_descriptors() {
    let mount = TestMount::with_descriptors(Mode::Cached, MOST);
    let tool = mount.tool("c7");
    let path = mount.store().path().join("context/c7/manifest.jsonl");
    let manifest = fs::File::options().append(true).create(true).open(&path).unwrap();
    rustix::fs::flock(&manifest, FlockOperation::LockExclusive).unwrap();
    python("for n in range(500): open(f'{path}/{n}.txt', 'w').write('text\\n')", &tool);
    for number in 500..600 {
        Command::shell("echo text > $1", &[&tool.join(format!("{number}.txt"))]).stdout();
    }
    assert!(mount.descriptors() < 180, "{}", mount.descriptors());
    drop(manifest);
    eventually("all are sealed", || sealed_paths(&fs::read_to_string(&path).unwrap()) == 600);
    assert!(mount.descriptors() < 128, "{}", mount.descriptors());
}

/// Runs a script of Python, with the path of `dir` as `path`.
fn python(script: &str, dir: &Path) {
    let script = format!("import os, sys\npath = sys.argv[1]\n{script}");
    Command::python(&script, &[dir]).limit(150).stdout();
}
