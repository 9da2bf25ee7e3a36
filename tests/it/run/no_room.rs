//! What the store does not take goes to whoever reads the output.

use std::fs;

use super::{plain, record, run};
use crate::support::{Call, Command, Fault, FaultyDisk, Output, TestStore, eventually};

/// The last line of a command that fails, and its exit code.
const REASON: &str = "the real reason\n";
const CODE: i32 = 3;
/// The ways to leave no room at all.
const NO_ROOM: [(&str, &str); 3] =
    [("CTXFS_MIN_FREE", "1000000TiB"), ("CTXFS_QUOTA", "1"), ("CTXFS_MAX_TERMINAL", "0")];

fn script(lines: usize) -> String {
    format!("seq {lines}; echo the real reason; exit {CODE}")
}

/// Returns the output of [`script`].
fn whole(lines: usize) -> String {
    (1..=lines).map(|number| format!("{number}\n")).chain([REASON.to_owned()]).collect()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Checks that the whole output was printed, and one line said why it is not stored.
fn is_passed_on(output: &Output, lines: usize, why: &str) {
    assert_eq!(output.code, CODE, "{output}");
    assert!(text(&output.stdout) == whole(lines), "{output}");
    let said = text(&output.stderr);
    assert!(said.starts_with("ctxfs: the output is not stored"), "{output}");
    assert!(said.contains(why) && said.lines().count() == 1, "{output}");
}

/// Checks that beginning and end were printed, and how many bytes a line says are missing between.
/// Returns that line.
fn has_both_ends(printed: &[u8], whole: &str) -> String {
    let printed = text(printed);
    let (head, rest) = printed.split_once("[ctxfs] ").unwrap();
    let (mark, tail) = rest.split_once('\n').unwrap();
    assert!(whole.starts_with(head) && whole.ends_with(tail), "{mark}");
    assert!(tail.ends_with(REASON), "{mark}");
    let (count, _) = mark.split_once(" bytes left out here: ").unwrap();
    assert_eq!(count.parse::<usize>().unwrap(), whole.len() - head.len() - tail.len());
    mark.to_owned()
}

#[test]
fn of_a_short_output_nothing_is_said() {
    for (name, value) in NO_ROOM {
        for more in [&[][..], &["--discard-short"], &["--split"]] {
            let store = TestStore::new();
            let command = run(&store, "x", more, &["sh", "-c", &script(3)]);
            let output = command.env(name, value).run();
            assert_eq!((output.code, text(&output.stderr)), (CODE, ""), "{name} {more:?}");
            assert_eq!(text(&output.stdout), whole(3), "{name} {more:?}");
        }
    }
}

#[test]
fn a_long_output_is_printed_and_one_line_says_why() {
    for (name, value) in NO_ROOM {
        for more in [&[][..], &["--discard-short"], &["--format", "envelope"]] {
            let store = TestStore::new();
            let command = run(&store, "x", more, &["sh", "-c", &script(20_000)]);
            is_passed_on(&command.env(name, value).run(), 20_000, "");
            assert_eq!(record(&store, "x.log")["state"], "incomplete");
        }
    }
}

#[test]
fn of_what_memory_cannot_hold_both_ends_are_printed() {
    let store = TestStore::new();
    let command = run(&store, "x", &[], &["sh", "-c", &script(200_000)]);
    let output = command.env("CTXFS_MIN_FREE", "1000000TiB").run();
    assert_eq!((output.code, text(&output.stderr)), (CODE, ""), "{output}");
    let mark = has_both_ends(&output.stdout, &whole(200_000));
    assert!(mark.contains("no room in the store (the store's disk has less than "), "{mark}");
    assert!(output.stdout.len() > 300 << 10);
}

#[test]
fn an_endless_line_and_bytes_that_are_no_text_have_both_ends() {
    let store = TestStore::new();
    let script = "head -c 30000000 /dev/zero | tr '\\0' x; echo END";
    let command = run(&store, "x", &[], &["sh", "-c", script]);
    let output = command.env("CTXFS_QUOTA", "1").run();
    let whole = format!("{}END\n", "x".repeat(30_000_000));
    let printed = text(&output.stdout).replacen("\n[ctxfs] ", "[ctxfs] ", 1);
    let (head, rest) = printed.split_once("[ctxfs] ").unwrap();
    let (mark, tail) = rest.split_once('\n').unwrap();
    assert!(head.len() == 64 << 10 && whole.ends_with(tail) && tail.len() == 256 << 10);
    let missing = 30_000_004 - (320 << 10);
    assert!(mark.starts_with(&format!("{missing} bytes left out here")), "{mark}");
    let bytes = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 1000)";
    let command = run(&store, "y", &[], &["python3", "-c", bytes]);
    let output = command.env("CTXFS_QUOTA", "1").run();
    assert_eq!(output.stdout, (0..=255).collect::<Vec<u8>>().repeat(1000));
}

#[test]
fn a_disk_that_fails_at_any_point_keeps_nothing_back() {
    let faults = [
        Fault::room(50_000).of("x.log"),
        Fault::error(Call::Write, libc::EIO).of("x.log").after(1),
        Fault::error(Call::Sync, libc::EIO).of("x.log"),
        Fault::error(Call::Read, libc::EIO).of("x.log"),
        Fault::error(Call::Write, libc::EIO).of("manifest.jsonl").after(1),
        Fault::error(Call::SyncDir, libc::EIO).of("terminal"),
    ];
    for fault in faults {
        let disk = FaultyDisk::new();
        let store = disk.store();
        store.put("c7", "before", b"text\n");
        disk.fail(fault);
        let slow = "seq 1 10000; sleep 0.1; seq 10001 20000; echo the real reason; exit 3";
        let command = run(store, "x", &[], &["sh", "-c", slow]).env("CTXFS_MIN_FREE", "0");
        let output = command.run();
        assert!(disk.mend() > 0, "{fault:?}: {output}");
        if fault == faults[0] {
            // The end has taken the place of what came before it.
            assert_eq!(output.code, CODE, "{output}");
            assert!(text(&output.stdout).contains(REASON), "{output}");
        } else {
            is_passed_on(&output, 20_000, "");
        }
    }
}

#[test]
fn a_disk_that_dies_takes_nothing_with_it() {
    let disk = FaultyDisk::new();
    let flags = disk.store().scratch("flags");
    let script = "seq 20000; touch begun; while [ ! -e go ]; do sleep 0.02; done
        echo the real reason; exit 3";
    let command = run(disk.store(), "x", &[], &["sh", "-c", script]).current_dir(&flags);
    let begun = flags.join("begun");
    let output = std::thread::scope(|scope| {
        let running = scope.spawn(|| command.run());
        eventually("the command is at work", || begun.exists());
        for call in [Call::Open, Call::Create, Call::Read, Call::Write, Call::Sync, Call::SyncDir] {
            disk.fail(Fault::error(call, libc::EIO));
        }
        fs::write(flags.join("go"), "").unwrap();
        running.join().unwrap()
    });
    assert!(disk.mend() > 0);
    is_passed_on(&output, 20_000, "");
}

#[test]
fn a_disk_that_only_reads_is_no_store() {
    let store = TestStore::new();
    store.put("c7", "before", b"text\n");
    let script = "mount --bind \"$1\" \"$1\"; mount -o remount,ro,bind \"$1\"; shift; exec \"$@\"";
    for lines in [3, 20_000] {
        let inner = ["run", "-c", "c7", "--discard-short", "--store"];
        let output = Command::new("unshare")
            .without_settings()
            .args(["-m", "sh", "-euc", script, "sh"])
            .arg(store.path())
            .arg(env!("CARGO_BIN_EXE_ctxfs"))
            .args(inner)
            .arg(store.path())
            .args(["--", "sh", "-c", &self::script(lines)])
            .run();
        assert_eq!((output.code, text(&output.stderr)), (CODE, ""), "{output}");
        assert!(text(&output.stdout) == whole(lines), "{output}");
    }
}

#[test]
fn a_full_disk_shows_the_end() {
    let script = "mount -t tmpfs -o size=1m tmpfs \"$1\"; shift; \"$@\"";
    let store = TestStore::new();
    let output = Command::new("unshare")
        .without_settings()
        .env("CTXFS_MIN_FREE", "0")
        .args(["-m", "sh", "-uc", script, "sh"])
        .arg(store.path())
        .arg(env!("CARGO_BIN_EXE_ctxfs"))
        .args(["run", "-c", "c7", "--store"])
        .arg(store.path())
        .args(["--", "sh", "-c", &self::script(400_000)])
        .run();
    assert_eq!(output.code, CODE, "{output}");
    assert!(text(&output.stdout).contains(REASON), "{output}");
    assert!(text(&output.stdout).contains("\n[ctxfs] INCOMPLETE"), "{output}");
}

/// A limit is met by choice, so the stand-in goes out: it has the beginning and the end.
#[test]
fn a_log_that_meets_a_limit_has_both_ends() {
    for (name, value) in [("CTXFS_MAX_TERMINAL", "100000"), ("CTXFS_QUOTA", "300000")] {
        for more in [&[][..], &["--split"]] {
            let store = TestStore::new();
            let command = run(&store, "x", more, &["sh", "-c", &script(200_000)]);
            let output = command.env(name, value).run();
            assert_eq!((output.code, text(&output.stderr)), (CODE, ""), "{output}");
            let told = text(&output.stdout);
            assert!(told.contains("\n[ctxfs] INCOMPLETE: "), "{told}");
            assert!(told.contains(REASON) && told.len() < 8144, "{told}");
            for log in ["x.log", "x.stdout.log"].iter().take(1 + more.len()) {
                let kept = fs::read(plain(&store, log)).unwrap();
                assert!(kept.len() > 50_000 && kept.len() < 300_000, "{}", kept.len());
                let mark = has_both_ends(&kept, &whole(200_000));
                assert!(mark.contains("no room in the store ("), "{mark}");
                let record = record(&store, log);
                assert_eq!(
                    (&record["state"], &record["size"]),
                    (&"incomplete".into(), &kept.len().into())
                );
                assert_eq!(record["analysis"]["bytes"], kept.len());
                assert_eq!(record["exit_code"], CODE);
            }
            let last = store.view("c7/artifacts/terminal/x.log.lines/-1");
            assert!(text(&last).ends_with(REASON), "{}", text(&last));
        }
    }
}

/// What memory holds whole is worth more than a log that is cut.
#[test]
fn an_output_that_is_cut_in_the_store_and_whole_in_memory_is_printed() {
    let store = TestStore::new();
    let command = run(&store, "x", &[], &["sh", "-c", &script(20_000)]);
    let output = command.env("CTXFS_MAX_TERMINAL", "20000").run();
    is_passed_on(&output, 20_000, "its cap of 20000 bytes");
    let kept = fs::read(plain(&store, "x.log")).unwrap();
    assert!(kept.len() <= 20_000 && kept.len() > 15_000, "{}", kept.len());
    has_both_ends(&kept, &whole(20_000));
}

#[test]
fn who_asks_for_a_reference_gets_one() {
    let store = TestStore::new();
    let command = run(&store, "x", &["--format", "ref"], &["sh", "-c", &script(20_000)]);
    let output = command.env("CTXFS_MAX_TERMINAL", "20000").run();
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.code, &told["id"]), (CODE, &"ctx://c7/artifacts/terminal/x.log".into()));
}

#[test]
fn secrets_are_masked_in_what_memory_holds() {
    let store = TestStore::new();
    let token = format!("ghp_{}", "a1B2".repeat(9));
    let script = format!("seq 20000; echo {token}");
    let command = run(&store, "x", &[], &["sh", "-c", &script]);
    let output = command.env("CTXFS_REDACT", "views").env("CTXFS_QUOTA", "1").run();
    assert!(!text(&output.stdout).contains(&token) && output.stdout.len() > 100_000);
}

#[test]
fn the_reader_may_leave() {
    let store = TestStore::new();
    let script =
        "(\"$1\" run --store \"$2\" -c c7 -- sh -c 'seq 20000; exit 3' 2>&1 || echo $? >&2) |
        head -n 1";
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_ctxfs"));
    let command = Command::shell(script, &[program, &store.path()]).without_settings();
    let output = command.env("CTXFS_QUOTA", "1").run();
    assert_eq!(text(&output.stderr), "3\n", "{output}");
}
