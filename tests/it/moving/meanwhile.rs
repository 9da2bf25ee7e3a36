//! Exports of files that are being written, and of large ones.

use std::fs;
use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;

use crate::moving::{export, import};
use crate::support::{Mode, Terminal, TestMount, TestStore, log};

#[test]
fn a_live_artifact_is_taken_as_far_as_it_is() {
    for mode in Mode::ALL {
        let from = TestMount::new(mode);
        from.artifact("c7", "done.txt", b"done\n");
        let path = from.tool("c7").join("live.txt");
        let mut writer = File::create(&path).unwrap();
        writer.write_all(b"first\n").unwrap();
        let file = from.store().scratch("archive").join("c7");
        let told = from.store().ctxfs("export", &["c7", "-o"]).arg(&file).run();
        let said = String::from_utf8(told.stderr).unwrap();
        assert!(said.contains("marked incomplete: 1"), "{said}");
        writer.write_all(b"second\n").unwrap();
        drop(writer);
        let store = Arc::new(TestStore::new());
        assert_eq!(import(&store, &file, &[]).code, 0);
        assert_eq!(store.view("c7/artifacts/tool/live.txt"), b"first\n", "{mode:?}");
        let first = |store: &TestStore, name: &str| {
            let summary = store.view(&format!("c7/artifacts/tool/{name}.summary"));
            String::from_utf8(summary).unwrap().lines().next().unwrap().to_owned()
        };
        assert!(first(&store, "live.txt").contains("INCOMPLETE"), "{mode:?}");
        assert!(!first(&store, "done.txt").contains("INCOMPLETE"), "{mode:?}");
        // To the writer nothing has happened.
        assert_eq!(fs::read(&path).unwrap(), b"first\nsecond\n");
        assert!(!first(from.store(), "live.txt").contains("INCOMPLETE"), "{mode:?}");
    }
}

#[test]
fn exports_while_many_write_can_be_imported() {
    let from = TestMount::new(Mode::Passthrough);
    let dir = from.tool("c7");
    let store = TestStore::new();
    std::thread::scope(|scope| {
        for writer in 0..3 {
            let dir = &dir;
            scope.spawn(move || {
                for number in 0..40 {
                    let path = dir.join(format!("{writer}-{number}.txt"));
                    fs::write(&path, log(50 + number)).unwrap();
                    let mut more = File::options().append(true).open(&path).unwrap();
                    more.write_all(b"more\n").unwrap();
                    if number % 3 == 0 {
                        fs::remove_file(&path).unwrap();
                    }
                }
            });
        }
        for round in 0..5 {
            let file = export(from.store());
            let imported = import(&store, &file, &["--as", &format!("r{round}")]);
            assert_eq!(imported.code, 0, "{imported}");
        }
    });
}

/// A file that is larger than the memory of the process passes through it.
#[test]
fn memory_is_bounded() {
    let from = TestStore::new();
    from.put("c7", "small", b"text\n");
    let large = File::create(from.plain("c7", "large.bin")).unwrap();
    large.set_len(300 << 20).unwrap();
    drop(large);
    let to = TestStore::new();
    let script = "ulimit -v 200000; $1 export --store $2 c7 | $1 import --store $3 -";
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_ctxfs"));
    let told = crate::support::Command::shell(script, &[program, &from.path(), &to.path()])
        .without_settings()
        .limit(170)
        .run();
    assert_eq!(told.code, 0, "{told}");
    assert_eq!(fs::metadata(to.plain("c7", "large.bin")).unwrap().len(), 300 << 20);
}

#[test]
fn a_terminal_gets_no_archive_and_a_bar() {
    let store = TestStore::new();
    store.put("c7", "9f3k", b"text\n");
    let large = File::create(store.plain("c7", "large.bin")).unwrap();
    large.set_len(400 << 20).unwrap();
    drop(large);
    let scratch = store.scratch("screen");
    let program = env!("CARGO_BIN_EXE_ctxfs");
    let at = store.path().display().to_string();
    let line = format!("{program} export --store {at} c7; echo code $?; cat");
    let terminal = Terminal::start(&scratch, &scratch, &line);
    let screen = terminal.screen_when("it is refused", |screen| screen.contains("code 2"));
    assert!(screen.contains("refusing to write an archive to a terminal"), "{screen}");
    drop(terminal);
    let line = format!("{program} export --store {at} c7 > archive; echo code $?; cat");
    let terminal = Terminal::start(&scratch, &scratch, &line);
    terminal.screen_when("there is a bar", |screen| screen.contains("exporting ["));
    terminal.screen_when("it ends, and the bar goes", |screen| {
        screen.contains("code 0") && !screen.contains("exporting [")
    });
}
