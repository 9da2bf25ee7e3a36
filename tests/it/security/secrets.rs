//! Stored bytes, and questions about them, are visible only to their reader.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use crate::support::{Command, Mode, TestMount, TestStore};

/// Secrets of every kind, each marked by one word.
const USE: &str = r#"
    cd "$1/c7/artifacts/tool"
    echo "password=hushhush" > x.txt
    setfattr -n user.ctx.args -v hushhush x.txt
    setfattr -n user.hushhush -v hushhush x.txt
    getfattr -d x.txt > /dev/null
    echo '{"a": "hushhush"}' > hushhush.json
    cat x.txt.summary x.txt.meta.json x.txt.grep/hushhush 'x.txt.grep/(hushhush' hushhush.json.tail \
        'hushhush.json.jq/.a == "hushhush"' 'hushhush.json.jq/hushhush(' ../../.grep/hushhush > /dev/null
    echo '{"role": "user", "content": "hushhush"}' >> ../../history/messages.jsonl
    echo hushhush >> ../../history/messages.jsonl || true
    printf hushhush >> ../../history/messages.jsonl || true
    cat not-there-hushhush x.txt.lines/hushhush x.txt.jq/hushhush || true
    mkfifo hushhush || true
    ln -s hushhush hushhush-link || true
    mkdir "$1/.ctxfs-hushhush" || true
    mv hushhush.json hushhush2.json
    head -c 200000 /dev/zero > hushhush3 || true
    rm hushhush2.json
"#;

#[test]
fn no_secret_is_logged_at_any_level() {
    let store = Arc::new(TestStore::new());
    let mount =
        TestMount::of(&store, Mode::Cached, &["--log", "trace", "--max-artifact", "100KiB"]);
    mount.tool("c7");
    Command::shell(USE, &[mount.path()]).env("SECRET", "hushhush").run();
    let said = mount.said();
    assert!(said.contains("DEBUG") || said.contains("TRACE"), "it logs: {said}");
    assert!(!said.contains("hushhush"), "{said}");
}

/// The modes of the store's own files do not depend on the umask.
#[test]
fn the_store_is_closed_to_others() {
    let store = Arc::new(TestStore::new());
    fs::remove_dir(store.path()).unwrap();
    let mount = TestMount::of(&store, Mode::Passthrough, &[]);
    Command::shell(
        "umask 0; mkdir $1/c7; seq 100000 > $1/c7/artifacts/tool/x.txt",
        &[mount.path()],
    )
    .stdout();
    let dir = mount.tool("c7");
    fs::read(dir.join("x.txt.wrap")).unwrap();
    let mut log =
        fs::File::options().append(true).open(mount.path().join("c7/history/messages.jsonl"));
    if let Ok(log) = &mut log {
        log.write_all(b"{\"role\": \"user\", \"content\": \"x\"}\n").unwrap();
    }
    drop(mount);
    store.put("c8", "call", b"text\n");
    let archive = store.scratch("archive").join("a");
    store.ctxfs("export", &["c7", "--output", archive.to_str().unwrap()]).stdout();
    store.ctxfs("import", &[archive.to_str().unwrap(), "--as", "c9"]).stdout();
    assert_eq!(mode(&archive) & 0o077, 0);
    let mut open = Vec::new();
    let mut folders = vec![store.path()];
    assert_eq!(mode(&store.path()), 0o700);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            }
            if mode(&entry.path()) & 0o077 != 0 {
                open.push(entry.path().strip_prefix(store.path()).unwrap().to_owned());
            }
        }
    }
    // What somebody made in the mount has the mode that was asked for: here of all, in a closed
    // store.
    let asked =
        |path: &Path| ["c7", "c9"].iter().any(|id| path.starts_with(Path::new("context").join(id)));
    open.retain(|path| !(asked(path) && path.ends_with("artifacts/tool/x.txt")));
    assert!(open.is_empty(), "{open:?}");
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}
