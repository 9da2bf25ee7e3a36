//! Writers that never stop reach the cap.

use std::fs;
use std::io::Write as _;

use super::{plain, record, run};
use crate::support::{Command, Mode, TestMount, TestStore};

const CAP: u64 = 100_000;

fn capped(mode: Mode) -> TestMount {
    let mount =
        TestMount::of(&std::sync::Arc::new(TestStore::new()), mode, &["--max-terminal", "100000"]);
    fs::create_dir(mount.path().join("c7")).unwrap();
    mount
}

#[test]
fn a_runaway_command_is_kept_up_to_the_cap_and_goes_on() {
    let store = TestStore::new();
    let script = "yes | head -n 1000000; echo done >&2; exit 6";
    let command = run(&store, "x", &["--split"], &["sh", "-c", script]);
    let output = command.env("CTXFS_MAX_TERMINAL", "100000").run();
    assert_eq!(output.code, 6);
    let first = String::from_utf8(output.stdout).unwrap();
    let first = first.lines().find(|line| line.starts_with("[ctxfs]")).unwrap();
    assert!(first.contains("INCOMPLETE") && first.contains("its cap of 100000 bytes"), "{first}");
    let kept = fs::read_to_string(plain(&store, "x.log")).unwrap();
    assert!(kept.len() <= 100_000 && kept.len() > 99_000, "{}", kept.len());
    let (head, rest) = kept.split_once("[ctxfs] ").unwrap();
    let (mark, tail) = rest.split_once('\n').unwrap();
    assert_eq!(head, "y\n".repeat(head.len() / 2));
    assert_eq!(tail, format!("{}done\n", "y\n".repeat(tail.len() / 2 - 2)));
    let lost = 2_000_005 - head.len() - tail.len();
    assert!(mark.starts_with(&format!("{lost} bytes left out here: ")), "{mark}");
    assert!(first.contains(&format!("{lost} bytes before its end are left out")), "{first}");
    assert_eq!(fs::read(plain(&store, "x.stderr.log")).unwrap(), b"done\n");
    assert_eq!(record(&store, "x.log")["state"], "incomplete");
    assert_eq!(record(&store, "x.stderr.log")["state"], "sealed");
}

#[test]
fn the_stricter_cap_holds() {
    let store = TestStore::new();
    let command = run(&store, "x", &["--format", "ref"], &["seq", "10000"]);
    command.env("CTXFS_MAX_ARTIFACT", "1000").env("CTXFS_MAX_TERMINAL", "2000").stdout();
    assert_eq!(fs::metadata(plain(&store, "x.log")).unwrap().len(), 1000);
}

#[test]
fn a_log_keeps_what_fits_under_the_quota() {
    let store = TestStore::new();
    store.put("c7", "before", &vec![b'x'; 600_000]);
    let command = run(&store, "x", &[], &["sh", "-c", "yes | head -c 1000000; exit 6"]);
    let output = command.env("CTXFS_QUOTA", "1000000").run();
    assert_eq!(output.code, 6);
    let first = String::from_utf8(output.stdout).unwrap();
    let first = first.lines().find(|line| line.starts_with("[ctxfs]")).unwrap();
    let kept = fs::read(plain(&store, "x.log")).unwrap();
    // Directories and records take room, too.
    assert!((300_000..400_000).contains(&kept.len()), "{} bytes", kept.len());
    let why = "(there was no room: the files of the conversation have reached their quota of 1000000 \
               bytes; ";
    assert!(first.contains(why), "{first}");
}

#[test]
fn a_command_runs_even_if_nothing_of_its_output_fits() {
    let store = TestStore::new();
    let command = run(&store, "x", &[], &["sh", "-c", "echo one; exit 6"]);
    let output = command.env("CTXFS_MIN_FREE", "1000000TiB").run();
    assert_eq!(output.code, 6);
    assert_eq!((&*output.stdout, &*output.stderr), (&b"one\n"[..], &b""[..]));
    let told = String::from_utf8(store.view("c7/artifacts/terminal/x.log.summary")).unwrap();
    assert!(told.contains("the store's disk has less than "), "{told}");
    assert!(told.contains("4 bytes more were not kept"), "{told}");
    assert_eq!(fs::read(plain(&store, "x.log")).unwrap(), b"");
}

#[test]
fn a_runaway_writer_in_the_mount_gets_efbig() {
    for mode in Mode::ALL {
        let mount = capped(mode);
        let log = mount.path().join("c7/artifacts/terminal/x.log");
        let output = Command::shell("yes >> \"$1\"", &[&log]).run();
        assert_eq!(output.code, 1, "{output}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("File too large"), "{output}");
        let size = fs::metadata(&log).unwrap().len();
        assert!(size <= CAP && size > CAP - 70_000, "{size}");
        let summary = fs::read_to_string(log.with_file_name("x.log.summary")).unwrap();
        assert!(summary.contains("INCOMPLETE"), "{summary}");
        assert!(summary.contains("its cap of 100000 bytes"), "{summary}");
        // The output of a tool has no such cap.
        fs::write(mount.tool("c7").join("x.txt"), vec![b'x'; 200_000]).unwrap();
    }
}

#[test]
fn a_log_that_is_fed_from_itself_ends_at_the_cap() {
    for mode in Mode::ALL {
        let mount = capped(mode);
        let log = mount.path().join("c7/artifacts/terminal/x.log");
        fs::File::create(&log).unwrap().write_all(&b"a line\n".repeat(100)).unwrap();
        // GNU cat sees it coming; this one does not.
        let cat = "
import os, sys
source, sink = os.open(sys.argv[1], os.O_RDONLY), os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
while block := os.read(source, 4096):
    os.write(sink, block)
";
        let output = Command::python(cat, &[&log]).run();
        assert!(String::from_utf8_lossy(&output.stderr).contains("File too large"), "{output}");
        let size = fs::metadata(&log).unwrap().len();
        assert!(size <= CAP && size > CAP - 4096, "{size}");
    }
}
