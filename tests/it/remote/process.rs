//! `ctxfs-remote`, started by a watchdog as for a mount.

use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use bytes::Bytes;
use ctxfs_sync::bucket::{BucketError, Created, Deadline};
use ctxfs_sync::channel::{receive, send};
use ctxfs_sync::remote::{Line, Objects as _, ProcessObjects};
use parking_lot::Mutex;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{TestStore, eventually, processes_of, server_of, signal};

/// A watchdog that may start a process for a bucket, and the socket to that.
struct Watched {
    watchdog: Child,
    socket: UnixStream,
    control: Mutex<Option<UnixStream>>,
    shared: TempDir,
}

impl Watched {
    /// Starts a watchdog with secrets in its environment and a file of a store open.
    fn start(url: &str, shared: TempDir) -> Arc<Self> {
        let (socket, theirs) = UnixStream::pair().unwrap();
        let store = shared.path().join("store.txt");
        fs::write(&store, "of the store").unwrap();
        let script = "exec 9<\"$1\"; exec \"$2\" helper \"$3\"";
        let watch = json!({ "target": "/nonexistent", "bucket": url, "spare": false });
        let watchdog = Command::new("sh")
            .args(["-c", script, "sh"])
            .arg(&store)
            .arg(env!("CARGO_BIN_EXE_ctxfs"))
            .arg(json!({ "watch-mount": watch }).to_string())
            .env("AWS_SECRET_ACCESS_KEY", "a key")
            .env("AWS_ACCESS_KEY_ID", "AKTEST")
            .env("AWS_REGION", "eu-1")
            .env("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
            .env("OF_SOMETHING_ELSE", "another key")
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let watched = Self { watchdog, socket, control: Mutex::new(None), shared };
        watched.start_remote();
        Arc::new(watched)
    }

    /// Has the process started.
    fn start_remote(&self) {
        let (control, theirs) = UnixStream::pair().unwrap();
        let (request, of_watchdog) = UnixStream::pair().unwrap();
        send(&self.socket, &(), Some(of_watchdog.as_fd())).unwrap();
        send(&request, &"Remote", Some(theirs.as_fd())).unwrap();
        let (reply, _) = receive::<Value>(&request).unwrap().unwrap();
        assert_eq!(reply, json!({ "Ok": "" }));
        *self.control.lock() = Some(control);
    }

    /// Returns the process.
    fn pid(&self) -> Option<u32> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.watchdog.id())).ok()?;
        let children = threads
            .filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("children")).ok());
        let children: Vec<String> = children.collect();
        let mut pids = children.iter().flat_map(|line| line.split_whitespace());
        pids.find_map(|pid| {
            let name = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            name.starts_with(b"ctxfs-remote\0").then(|| pid.parse().unwrap())
        })
    }

    fn waited_pid(&self) -> u32 {
        eventually("the process is there", || self.pid().is_some());
        self.pid().unwrap()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.socket.shutdown(std::net::Shutdown::Both).ok();
        self.watchdog.wait().unwrap();
    }
}

impl Line for Watched {
    fn connect(&self) -> Result<UnixStream, String> {
        let control = self.control.lock();
        let control = control.as_ref().ok_or_else(|| "it is away".to_owned())?;
        let (ours, theirs) = UnixStream::pair().unwrap();
        // It fails where the process has died, and then the end of `ours` says so.
        drop(send(control, &(), Some(theirs.as_fd())));
        Ok(ours)
    }

    fn heard(&self) {}

    fn missed(&self, _: Instant) {}

    fn trouble(&self) -> Option<String> {
        None
    }
}

/// Returns a process for a directory, and what asks it.
fn of_directory() -> (Arc<Watched>, ProcessObjects) {
    let shared = tempfile::Builder::new().prefix("ctxfs-bucket-").tempdir().unwrap();
    let url = format!("file://{}/bucket", shared.path().display());
    fs::create_dir(shared.path().join("bucket")).unwrap();
    let watched = Watched::start(&url, shared);
    let objects = ProcessObjects::new(Arc::clone(&watched) as _);
    (watched, objects)
}

fn soon() -> Deadline {
    Deadline::after(Duration::from_mins(1))
}

fn field(pid: u32, name: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
    line.unwrap_or_else(|| panic!("{name} in {text}")).to_owned()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn it_reads_and_writes_its_bucket_and_no_file_of_the_store() {
    let (watched, objects) = of_directory();
    let bytes = Bytes::from_static(b"text");
    assert_eq!(objects.create("a/x", &bytes, soon()).unwrap(), Created::New);
    let large = vec![7u8; 20 << 20];
    assert_eq!(objects.upload("a/y", &mut &large[..], 0, soon()).unwrap(), 20 << 20);
    assert_eq!(objects.get("a/x", None, soon()).unwrap(), bytes);
    assert_eq!(objects.get("a/y", None, soon()).unwrap(), large);
    assert_eq!(objects.list("a", soon()).unwrap().len(), 2);
    // A link that leads to the store, as whoever may write to the bucket can plant it.
    let shared = watched.shared.path();
    std::os::unix::fs::symlink(shared.join("store.txt"), shared.join("bucket/a/z")).unwrap();
    let error = objects.get("a/z", None, soon()).unwrap_err();
    assert!(matches!(error, BucketError::Format(_)), "{error}");
    assert_eq!(field(watched.waited_pid(), "NoNewPrivs"), "1");
}

#[test]
fn it_has_what_it_needs_of_the_environment_and_no_descriptor_of_others() {
    let (watched, objects) = of_directory();
    objects.list("a", soon()).unwrap();
    let pid = watched.waited_pid();
    if !is_root() {
        return;
    }
    let environ = fs::read(format!("/proc/{pid}/environ")).unwrap();
    let environ = String::from_utf8_lossy(&environ).into_owned();
    assert!(environ.contains("AWS_SECRET_ACCESS_KEY=a key"), "{environ}");
    assert!(!environ.contains("another key") && !environ.contains("PATH="), "{environ}");
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).unwrap() {
        let Ok(target) = fs::read_link(entry.unwrap().path()) else { continue };
        assert!(!target.starts_with(watched.shared.path().join("store.txt")), "{target:?}");
    }
}

#[test]
fn for_a_store_behind_the_network_it_is_nobody() {
    let shared = tempfile::tempdir().unwrap();
    let watched = Watched::start("s3://bkt/prefix", shared);
    let objects = ProcessObjects::new(Arc::clone(&watched) as _);
    let error = objects.list("a", Deadline::after(Duration::from_secs(2))).unwrap_err();
    assert!(!error.to_string().contains("a key"), "{error}");
    let pid = watched.waited_pid();
    assert_eq!(field(pid, "CapEff"), "0000000000000000");
    assert_eq!(field(pid, "NoNewPrivs"), "1");
    assert!(!is_root() || field(pid, "Uid") == "65534\t65534\t65534\t65534");
}

#[test]
fn it_may_be_killed_at_any_time_and_started_again() {
    let (watched, objects) = of_directory();
    objects.create("x", &Bytes::from(vec![7u8; 4 << 20]), soon()).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let read = || {
            let mut failed = 0;
            while !stop.load(Ordering::SeqCst) {
                match objects.get("x", None, soon()) {
                    Ok(bytes) => assert!(bytes.len() == 4 << 20 && bytes.iter().all(|b| *b == 7)),
                    Err(error) => {
                        assert!(error.may_pass(), "{error}");
                        failed += 1;
                    }
                }
            }
            failed
        };
        let readers: Vec<_> = (0..4).map(|_| scope.spawn(read)).collect();
        for _ in 0..5 {
            let pid = watched.waited_pid();
            thread::sleep(Duration::from_millis(100));
            signal(pid, Signal::KILL);
            eventually("it is gone", || watched.pid() != Some(pid));
            watched.start_remote();
        }
        stop.store(true, Ordering::SeqCst);
        let failed: usize = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
        assert!(failed > 0);
    });
    assert_eq!(objects.get("x", Some(0..2), soon()).unwrap(), &b"\x07\x07"[..]);
}

#[test]
fn a_terminal_does_not_end_it_and_the_end_of_the_server_does() {
    let (watched, objects) = of_directory();
    objects.list("a", soon()).unwrap();
    let pid = watched.waited_pid();
    for each in [Signal::INT, Signal::TERM, Signal::HUP] {
        signal(pid, each);
    }
    objects.list("a", soon()).unwrap();
    assert_eq!(watched.pid(), Some(pid));
    *watched.control.lock() = None;
    wait_for_end(pid);
}

/// Waits until nothing is left of a process.
fn wait_for_end(pid: u32) {
    eventually("it has ended", || !Path::new(&format!("/proc/{pid}")).exists());
}

#[test]
fn one_that_is_stopped_does_not_outlive_who_asks_it() {
    let (watched, objects) = of_directory();
    objects.list("a", soon()).unwrap();
    let pid = watched.waited_pid();
    signal(pid, Signal::STOP);
    let start = Instant::now();
    let error = objects.list("a", Deadline::after(Duration::from_secs(1))).unwrap_err();
    assert!(error.to_string().contains("did not answer in time"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    *watched.control.lock() = None;
    wait_for_end(pid);
    watched.start_remote();
    objects.list("a", soon()).unwrap();
    let pid = watched.waited_pid();
    signal(pid, Signal::STOP);
    // The end of the server ends the watchdog, which waits for it.
    drop(objects);
    drop(watched);
    wait_for_end(pid);
}

/// Unmounts a directory, also when the test fails.
struct Unmounts<'a>(&'a TestStore, &'a str);

impl Drop for Unmounts<'_> {
    fn drop(&mut self) {
        self.0.ctxfs("umount", &[self.1]).run();
    }
}

/// Nothing in a mount has asked the bucket yet.
#[test]
fn a_server_forgets_the_keys_and_its_watchdogs_start_nothing_unasked() {
    let store = TestStore::new();
    let target = store.scratch("mnt");
    let dir = target.to_str().unwrap();
    let _ends = Unmounts(&store, dir);
    let mount = store.ctxfs("mount", &[dir]).env("AWS_SECRET_ACCESS_KEY", "a key of the cloud");
    let mount = mount.env("XDG_STATE_HOME", store.scratch("state"));
    mount.env("CTXFS_REMOTE_URL", "s3://bucket/prefix").stdout();
    let environ = |pid: u32| {
        let bytes = fs::read(format!("/proc/{pid}/environ")).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let server = server_of(&target);
    let others = processes_of(&target).into_iter().filter(|pid| *pid != server);
    if is_root() {
        assert!(!environ(server).contains("a key of the cloud"));
        assert_eq!(others.filter(|pid| environ(*pid).contains("a key of the cloud")).count(), 2);
    }
    let lines = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let line = fs::read(entry.ok()?.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&line).into_owned())
    });
    let remote =
        |line: &String| line.starts_with("ctxfs-remote") && line.contains("bucket/prefix\"");
    assert_eq!(lines.filter(remote).collect::<Vec<_>>(), [""; 0]);
}
