//! Processes that may only write files of some length (`ulimit -f`). The kernel sends SIGXFSZ to
//! whoever writes more.

use std::fs;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::support::{Command, Mode, Output, TestMount, TestStore, errno};

const LIMIT: u64 = 1 << 20;
/// The bit of SIGXFSZ in the masks of `/proc/PID/status`.
const BIT: u64 = 1 << (libc::SIGXFSZ - 1);

/// Runs `ctxfs` with `arguments`, which may write files of so many KiB.
fn limited(kib: u64, arguments: &[&str], store: &TestStore) -> Command {
    let script = format!("ulimit -f {}; exec \"$@\"", kib * 2);
    let program = Path::new(env!("CARGO_BIN_EXE_ctxfs"));
    let command = Command::shell(&script, &[program]).without_settings();
    command.args(&arguments[..1]).arg("--store").arg(store.path()).args(&arguments[1..])
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn a_writer_in_a_mount_gets_efbig_and_the_server_goes_on() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let limit = Rlimit { current: Some(LIMIT), maximum: Some(LIMIT) };
        let server = Pid::from_raw(mount.pid().cast_signed());
        prlimit(server, Resource::Fsize, limit).unwrap();
        let mut file = File::create(mount.tool("c7").join("x.txt")).unwrap();
        let block = vec![b'x'; 100_000];
        let failed = (0..20).find_map(|_| file.write_all(&block).err()).unwrap();
        assert_eq!(errno::<()>(Err(failed)), Errno::FBIG);
        drop(file);
        assert_eq!(fs::read(mount.tool("c7").join("x.txt")).unwrap().len() as u64, LIMIT);
        let told = fs::read_to_string(mount.tool("c7").join("x.txt.summary")).unwrap();
        assert!(
            told.starts_with("[ctxfs] INCOMPLETE: ") && told.contains("File too large"),
            "{told}"
        );
        fs::write(mount.tool("c7").join("y.txt"), "text").unwrap();
    }
}

#[test]
fn put_keeps_both_ends_and_fails() {
    let store = TestStore::new();
    let mut bytes = vec![b'x'; 3_000_000];
    bytes.extend(b"\nthe end\n");
    let command = limited(1024, &["put", "-c", "c7", "--call", "x"], &store).stdin(bytes);
    let output = command.run();
    assert_eq!(output.code, 1, "{output}");
    assert!(text(&output.stderr).contains("File too large"), "{output}");
    let kept = fs::read(store.plain("c7", "x.txt")).unwrap();
    assert!(kept.ends_with(b"\nthe end\n") && kept.len() as u64 <= LIMIT, "{}", kept.len());
}

#[test]
fn run_passes_the_output_on_and_exits_as_the_command() {
    let store = TestStore::new();
    let script = "seq 300000; echo the end; exit 7";
    let command = ["run", "-c", "c7", "--id", "x", "--", "sh", "-c", script];
    let output = limited(1024, &command, &store).run();
    assert_eq!((output.code, text(&output.stderr)), (7, ""), "{output}");
    assert!(text(&output.stdout).contains("\nthe end\n"), "{output}");
    let log = store.path().join("context/c7/artifacts/terminal/x.log");
    let kept = fs::read(log).unwrap();
    assert!(kept.ends_with(b"\nthe end\n") && kept.len() as u64 <= LIMIT, "{}", kept.len());
    // Where no file may be written, there is no store.
    for store in [store, TestStore::new()] {
        let output = limited(0, &["run", "-c", "c7", "--", "sh", "-c", "seq 9; exit 7"], &store);
        let output = output.run();
        assert_eq!((output.code, text(&output.stdout)), (7, "1\n2\n3\n4\n5\n6\n7\n8\n9\n"));
    }
}

#[test]
fn a_message_that_is_too_long_is_refused() {
    let store = TestStore::new();
    let message = format!("{{\"role\":\"user\",\"content\":\"{}\"}}\n", "a".repeat(3_000_000));
    let output = limited(1024, &["log", "append", "c7"], &store).stdin(message).run();
    assert_eq!(output.code, 1, "{output}");
    assert!(text(&output.stderr).contains("File too large"), "{output}");
    let append = |text: &str| limited(1024, &["log", "append", "c7"], &store).stdin(text).run();
    assert_eq!(append("{\"role\":\"user\",\"content\":\"short\"}\n").code, 0);
}

#[test]
fn export_and_import_fail_and_leave_nothing_half() {
    let store = TestStore::new();
    let mut state = 1_u64;
    // Archives are compressed; xorshift64 cannot be.
    let noise = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    });
    store.put("c7", "x", &noise.take(3_000_000).collect::<Vec<_>>());
    let archive = store.scratch("out").join("archive.tar");
    let name = archive.to_str().unwrap();
    let output = limited(1024, &["export", "c7", "-o", name], &store).run();
    assert_eq!(output.code, 1, "{output}");
    assert!(!archive.exists());
    store.ctxfs("export", &["c7", "-o", name]).stdout();
    let other = TestStore::new();
    let output = limited(1024, &["import", name], &other).run();
    assert_eq!(output.code, 1, "{output}");
    assert!(!other.path().join("context/c7").exists());
}

/// What is started has the signal as ctxfs was given it.
#[test]
fn programs_that_are_started_get_the_signal_as_ever() {
    let ignored = |given: &str, more: &[&str]| {
        let store = TestStore::new();
        let command = [&["run", "-c", "c7"], more, &["--", "grep", "SigIgn", "/proc/self/status"]];
        let output = Command::new("env")
            .without_settings()
            .args([given, env!("CARGO_BIN_EXE_ctxfs"), "--store"])
            .arg(store.path())
            .args(command.concat())
            .run();
        masks(&output) & BIT != 0
    };
    for more in [&[][..], &["--pty"], &["--config", "/dev/null/none"]] {
        assert!(!ignored("--default-signal=XFSZ", more), "{more:?}");
        assert!(ignored("--ignore-signal=XFSZ", more), "{more:?}");
    }
    let store = TestStore::new();
    let script = "ulimit -f 0; exec head -c 10000 /dev/zero > \"$0\"";
    let file = store.scratch("out").join("file");
    let command = store.ctxfs("run", &["-c", "c7", "--", "sh", "-c", script]).arg(&file);
    let status = command.run().code;
    assert_eq!(status, 128 + libc::SIGXFSZ);
}

fn masks(output: &Output) -> u64 {
    let mask = text(&output.stdout).trim().strip_prefix("SigIgn:").unwrap().trim();
    u64::from_str_radix(mask, 16).unwrap()
}
