//! Programs that are interrupted, close a file that others read, or are killed, and a daemon that
//! is stopped.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::process::Stdio;
use std::time::Duration;
use std::{fs, thread};

use rustix::process::Signal;
use serde_json::Value;

use super::disk::{first_line, view};
use crate::support::{Command, Mode, TestMount, eventually, log, signal, within};

/// Writes to `$1` and reads `$2` under a signal every millisecond, without restarted calls. Prints
/// the acknowledged bytes.
const INTERRUPTED: &str = "
import os, signal, sys
count = 0
def hit(*_):
    global count
    count += 1
signal.signal(signal.SIGALRM, hit)
signal.siginterrupt(signal.SIGALRM, True)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
done = 0
number = 0
while count < 200:
    line = b'line %d\\n' % number
    while line:
        sent = os.write(file, line)
        done += sent
        line = line[sent:]
    number += 1
    if number % 50 == 0:
        text = open(sys.argv[2], 'rb').read()
        assert text.endswith(b'line %d\\n' % (number - 1)), text[-100:]
os.close(file)
signal.setitimer(signal.ITIMER_REAL, 0)
print(done, number)
";

#[test]
fn a_client_that_is_interrupted_loses_nothing_that_was_acknowledged() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.tool("c7").join("x.txt");
        let tail = path.with_file_name("x.txt.lines/-1");
        let said = Command::python(INTERRUPTED, &[&path, &tail]).text();
        let (done, lines) = said.trim().split_once(' ').unwrap();
        let lines: usize = lines.parse().unwrap();
        let wanted: Vec<u8> = (0..lines).flat_map(|n| format!("line {n}\n").into_bytes()).collect();
        assert_eq!(fs::read(&path).unwrap(), wanted, "{mode:?}");
        assert_eq!(done.parse::<usize>().unwrap(), wanted.len());
        eventually("it is sealed", || sealed_size(&mount, "x.txt") == Some(wanted.len() as u64));
        assert!(first_line(&path).contains("complete output is stored"), "{mode:?}");
    }
}

/// Reads `$1` again and again in a thread until another one closes the descriptor, and compares the
/// bytes with `$2`.
const CLOSED: &str = "
import errno, os, sys, threading, time
whole = open(sys.argv[2], 'rb').read()
right = 0
def read(file):
    global right
    while True:
        for at in range(0, len(whole), 700):
            try:
                part = os.pread(file, 700, at)
            except OSError as error:
                right += error.errno == errno.EBADF
                return
            if part != whole[at:at + 700]:
                return
for round in range(100):
    file = os.open(sys.argv[1], os.O_RDONLY)
    reader = threading.Thread(target=read, args=(file,))
    reader.start()
    time.sleep(0.00002 * round)
    os.close(file)
    reader.join()
print(right)
";

#[test]
fn a_descriptor_that_is_closed_while_another_thread_reads_it_harms_nobody() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let bytes = log(2000);
        let path = mount.artifact("c7", "x.txt", &bytes);
        let grep = path.with_file_name("x.txt.grep/ERROR");
        let expected = mount.path().join("c7/artifacts/tool/expected");
        for read in [&path, &grep] {
            fs::copy(read, &expected).unwrap();
            let cut: u32 =
                Command::python(CLOSED, &[read, &expected]).text().trim().parse().unwrap();
            assert!(cut > 0, "{mode:?}: none was closed in the middle");
        }
        assert_eq!(fs::read(&path).unwrap(), bytes, "{mode:?}");
        eventually("all is closed", || {
            let status = fs::read(mount.path().join(".ctxfs/status.json")).unwrap();
            let status: Value = serde_json::from_slice(&status).unwrap();
            // It may be open itself.
            status["openHandles"].as_u64().unwrap() <= 1
        });
    }
}

#[test]
fn writers_that_are_killed_leave_the_beginning_of_what_they_wrote() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let dir = mount.tool("c7");
        for round in 0..8 {
            let path = dir.join(format!("{round}.txt"));
            let script = "i=0; while :; do echo line $i; i=$((i+1)); done > \"$1\"";
            let mut writer = Command::shell(script, &[&path])
                .with(|inner| {
                    inner.stdin(Stdio::null());
                })
                .spawn();
            eventually("it writes", || fs::metadata(&path).is_ok_and(|found| found.len() > 0));
            thread::sleep(Duration::from_millis(round * 3));
            writer.kill().unwrap();
            writer.wait().unwrap();
            eventually("the summary says why", || first_line(&path).contains("killed by signal 9"));
            let bytes = fs::read(&path).unwrap();
            let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
            for (number, line) in lines.iter().enumerate() {
                assert_eq!(*line, format!("line {number}\n").as_bytes());
            }
            let last = lines.last().unwrap();
            assert_eq!(view(&path, ".lines/-1").unwrap(), *last, "{mode:?}");
        }
    }
}

/// Returns true if every thread of a process is stopped.
fn stands_still(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    threads.flatten().all(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'))
    })
}

/// Clients wait, one of them is killed, and the watchdog does nothing. Then everything continues.
#[test]
fn a_daemon_that_stands_still_goes_on_where_it_was() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.artifact("c7", "x.txt", b"line 1\n");
        let mut file = File::options().append(true).open(&path).unwrap();
        signal(mount.pid(), Signal::STOP);
        eventually("all of its threads stand still", || stands_still(mount.pid()));
        let writer = thread::spawn(move || {
            file.write_all(b"line 2\n").unwrap();
        });
        let tail = path.with_file_name("x.txt.grep/line");
        let client = |path: &std::path::Path| {
            Command::new("cat")
                .arg(path)
                .with(|inner| {
                    inner.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
                })
                .spawn()
        };
        let (mut killed, mut waits) = (client(&tail), client(&tail));
        thread::sleep(Duration::from_millis(300));
        assert!(waits.try_wait().unwrap().is_none(), "nobody answers");
        killed.kill().unwrap();
        signal(mount.pid(), Signal::CONT);
        killed.wait().unwrap();
        assert!(waits.wait().unwrap().success(), "{mode:?}");
        writer.join().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"line 1\nline 2\n", "{mode:?}");
        assert_eq!(fs::read(&tail).unwrap(), b"1:line 1\n2:line 2\n", "{mode:?}");
        mount.artifact("c7", "y.txt", b"still here\n");
    }
}

/// A pipe that nobody reads holds up its client, and nobody else.
#[test]
fn a_client_that_opens_and_never_reads_holds_nobody_up() {
    let mount = TestMount::new(Mode::Cached);
    let path = mount.artifact("c7", "x.txt", &log(20_000));
    let open: Vec<File> = (0..200)
        .map(|number| {
            File::open(path.with_file_name(format!("x.txt.lines/{}", number + 1))).unwrap()
        })
        .collect();
    let dir = path.parent().unwrap().to_owned();
    let others = within(Duration::from_secs(20), move || {
        (1..50).map(|n| fs::read(dir.join(format!("x.txt.lines/{n}-{n}"))).unwrap().len()).sum()
    });
    assert!(others.is_some_and(|bytes: usize| bytes > 0));
    let mut buffer = [0; 10];
    for file in open {
        assert_eq!(file.read_at(&mut buffer, 0).unwrap(), 10);
    }
}

/// Returns the size in the record of a sealed artifact.
fn sealed_size(mount: &TestMount, name: &str) -> Option<u64> {
    let manifest = mount.store().path().join("context/c7/manifest.jsonl");
    let text = fs::read_to_string(manifest).ok()?;
    let last: Value = serde_json::from_str(text.lines().rfind(|line| line.contains(name))?).ok()?;
    (last["state"] == "sealed").then(|| last["size"].as_u64())?
}
