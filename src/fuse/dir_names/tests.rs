use std::sync::Arc;

use super::*;
use ctxfs_engine::{Engine, EngineOptions};
use ctxfs_store::Store;

const COUNT: u64 = 5 * STRIDE + 7;

fn names(engine: &Engine, count: u64) -> DirNames {
    let mut names = NewDirNames::new(engine.spool(None));
    for number in 0..count {
        let name = format!("{number}-{}", "x".repeat(number as usize % 250));
        let name =
            EntryName { name: OsStr::new(&name), kind: kind(number), ino: number, view: None };
        names.add(&name, ListedViews(number as u8 % 8)).unwrap();
    }
    names.finish().unwrap()
}

fn kind(number: u64) -> FileKind {
    if number.is_multiple_of(5) { FileKind::Directory } else { FileKind::File }
}

/// Returns at most `most` names from position `from` on, with their positions.
fn read(names: &DirNames, from: u64, most: usize) -> Vec<(u64, String)> {
    let mut found = Vec::new();
    names
        .read(from, |at, name| {
            found.push((at, name.name.to_string_lossy().into_owned()));
            if name.ino != COMPUTED {
                assert_eq!(name.kind, kind(name.ino));
            }
            found.len() == most
        })
        .unwrap();
    found
}

fn engine() -> (tempfile::TempDir, Arc<Engine>) {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::new(Store::open(dir.path()).unwrap(), EngineOptions::default());
    (dir, engine)
}

#[test]
fn reading_goes_on_at_every_position() {
    let (_dir, engine) = engine();
    let names = names(&engine, COUNT);
    let all = read(&names, 0, usize::MAX);
    let views: u64 = (0..COUNT).map(|number| u64::from((number as u8 % 8).count_ones())).sum();
    assert_eq!(all.len() as u64, COUNT + views);
    for (index, (at, _)) in all.iter().enumerate().step_by(13) {
        assert_eq!(read(&names, *at, 3), all[index..all.len().min(index + 3)]);
        assert_eq!(read(&names, at + 1, 3), all[index + 1..all.len().min(index + 4)]);
    }
    for beyond in [all.last().unwrap().0 + 1, u64::MAX / 2, u64::MAX] {
        assert_eq!(read(&names, beyond, 3), []);
    }
}

#[test]
fn an_empty_directory_has_no_names() {
    let (_dir, engine) = engine();
    assert_eq!(read(&names(&engine, 0), 0, 9), []);
}

/// Names that exceed the memory limit are stored in a file and read in the same way.
#[test]
fn what_does_not_fit_into_memory_is_listed_all_the_same() {
    let (_dir, engine) = engine();
    let names_in_memory = names(&engine, COUNT);
    let others: Vec<DirNames> = (0..70).map(|_| names(&engine, COUNT)).collect();
    let wanted = read(&names_in_memory, 0, usize::MAX);
    let on_disk = |names: &DirNames| names.text.on_disk_length() > 0;
    assert!(!on_disk(&names_in_memory) && on_disk(&others[69]));
    for other in others {
        assert_eq!(read(&other, 0, usize::MAX), wanted);
    }
}
