//! Archives that are refused, and leave nothing behind.

use std::fs;
use std::path::Path;

use crate::moving::{export, import};
use crate::support::{Command, Mode, TestMount, TestStore, listing, log, need};

/// Returns all names in a store, with the lengths of files.
fn all(store: &TestStore) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    let mut folders = vec![store.path()];
    while let Some(folder) = folders.pop() {
        for name in listing(&folder).into_iter().filter(|name| name != ".ctxfs-staging") {
            let path = folder.join(name);
            found.push((path.display().to_string(), path.metadata().unwrap().len()));
            if path.is_dir() {
                folders.push(path);
            }
        }
    }
    found.sort();
    found
}

fn filled() -> TestStore {
    let store = TestStore::new();
    store.put("c7", "9f3k", &log(2000));
    store.put("c7", "other", b"text\n");
    store
}

#[test]
fn a_conversation_that_is_there_stays_as_it_is() {
    let store = filled();
    let archive = export(&store);
    store.put("c7", "later", b"later\n");
    let mount = TestMount::of(&std::sync::Arc::new(store), Mode::Passthrough, &[]);
    let store = mount.store();
    let before = all(store);
    let told = import(store, &archive, &[]);
    assert_eq!(told.code, 1);
    let said = String::from_utf8(told.stderr).unwrap();
    assert!(said.contains("a conversation `c7` already") && said.contains("--as ID"), "{said}");
    assert_eq!(all(store), before);
    let told = import(store, &archive, &["--as", "../c8"]);
    assert_eq!(told.code, 2, "{told}");
    let told = import(store, &archive, &["--as", "c8"]);
    assert_eq!(told.code, 0, "{told}");
    assert_eq!(listing(&mount.path().join("c8/artifacts/tool")).len(), 8);
}

#[test]
fn what_is_damaged_leaves_nothing() {
    let from = filled();
    let archive = export(&from);
    let whole = fs::read(&archive).unwrap();
    let store = TestStore::new();
    store.put("c9", "here", b"before\n");
    let before = all(&store);
    for number in 0..12 {
        let mut bytes = whole.clone();
        let at = 12 + number * (whole.len() - 16) / 12;
        bytes[at] ^= 0x10;
        fs::write(&archive, &bytes).unwrap();
        let told = import(&store, &archive, &[]);
        assert_eq!(told.code, 1, "byte {at}: {told}");
        assert_eq!(all(&store), before, "byte {at}");
        fs::write(&archive, &whole[..at]).unwrap();
        assert_eq!(import(&store, &archive, &[]).code, 1, "cut at {at}");
        assert_eq!(all(&store), before, "cut at {at}");
    }
    fs::write(&archive, [&whole[..], b"more"].concat()).unwrap();
    assert_eq!(import(&store, &archive, &[]).code, 1);
    assert_eq!(import(&store, &archive, &["--max-size", "1KiB"]).code, 1);
    assert_eq!(all(&store), before);
    fs::write(&archive, &whole).unwrap();
    assert_eq!(import(&store, &archive, &["--max-size", "1KiB"]).code, 1);
    assert_eq!(import(&store, &archive, &["--max-size", "10MiB"]).code, 0);
}

/// A script that adds a hostile member to a real archive, by Python's tar.
const PLANT: &str = "
import io, sys, tarfile
archive, out, kind = sys.argv[1:4]
source = tarfile.open(archive)
target = tarfile.open(out, 'w', format=tarfile.PAX_FORMAT)
def plant():
    info = tarfile.TarInfo('c7/zz')
    content = b'planted'
    if kind == 'absolute': info.name = sys.argv[4]
    if kind == 'up': info.name = 'c7/../../../' + sys.argv[4]
    if kind == 'symlink': info.type, info.linkname, content = tarfile.SYMTYPE, sys.argv[4], b''
    if kind == 'hardlink': info.type, info.linkname, content = tarfile.LNKTYPE, sys.argv[4], b''
    if kind == 'device': info.type, info.devmajor, info.devminor, content = tarfile.CHRTYPE, 1, 3, b''
    if kind == 'fifo': info.type, content = tarfile.FIFOTYPE, b''
    if kind == 'long': info.name = 'c7/' + 'x' * 100000
    if kind == 'setuid': info.mode = 0o4777
    info.size = len(content)
    target.addfile(info, io.BytesIO(content))
for member in source:
    if member.name.endswith('manifest.jsonl'): plant()
    target.addfile(member, source.extractfile(member) if member.isfile() else None)
target.close()
";

#[test]
fn what_other_programs_plant_is_refused() {
    need("zstd", "zstd");
    let from = filled();
    let archive = export(&from);
    let dir = archive.parent().unwrap().to_owned();
    let run = |script: &str| Command::shell(script, &[&archive, &dir]).stdout();
    run("zstd -qdf \"$1\" -o \"$2/plain.tar\"");
    let store = TestStore::new();
    store.put("c9", "here", b"before\n");
    let before = all(&store);
    let target = dir.join("planted");
    let plain = dir.join("plain.tar");
    let kinds =
        ["absolute", "up", "symlink", "hardlink", "device", "fifo", "long", "setuid", "plain"];
    for kind in kinds {
        let out = dir.join("hostile.tar");
        Command::python(PLANT, &[&plain, &out, Path::new(kind), &target]).stdout();
        run("zstd -qf \"$2/hostile.tar\" -o \"$2/hostile\"");
        let told = import(&store, &dir.join("hostile"), &[]);
        // Where the member itself could be, the list of digests does not know it.
        assert_eq!(told.code, 1, "{kind}: {told}");
        assert!(String::from_utf8_lossy(&told.stderr).contains("refused"), "{kind}: {told}");
        assert_eq!(all(&store), before, "{kind}");
        assert!(!target.exists(), "{kind}");
    }
}

#[test]
fn an_export_that_fails_leaves_what_was_there() {
    let store = filled();
    let dir = store.scratch("archive");
    fs::write(dir.join("kept"), "before").unwrap();
    let told = store.ctxfs("export", &["none", "-o"]).arg(dir.join("kept")).run();
    assert_eq!(told.code, 1);
    assert!(String::from_utf8_lossy(&told.stderr).contains("`ctxfs ls` lists them"), "{told}");
    let told = store.ctxfs("export", &["c7", "-o"]).arg(dir.join("not/there")).run();
    assert_eq!(told.code, 1);
    assert_eq!(fs::read(dir.join("kept")).unwrap(), b"before");
    assert_eq!(listing(&dir), ["kept"]);
    let told = store.ctxfs("export", &["c7", "-o", "-"]).with(|inner| {
        inner.stdout(fs::File::options().write(true).open("/dev/full").unwrap());
    });
    assert_eq!(told.spawn().wait().unwrap().code(), Some(1));
}
