//! An ordinary user's mount, by `fusermount3`: closed to all others, including root.

use std::fs;
use std::fs::Permissions;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use rustix::process::Signal;

use crate::security::mounted::options_in;
use crate::support::{Command, TestStore, eventually, need, processes_of, signal};

const ANN: &str = "12345";
const BOB: &str = "12346";

/// A home for the user Ann, with a program that she can run, in a mount namespace in which
/// everybody may open `/dev/fuse` and Ann has a name. All mounts in it end with it.
struct Place {
    store: TestStore,
    home: PathBuf,
    namespace: Child,
}

const NAMESPACE: &str = "mount -t tmpfs tmpfs $1; mknod -m 666 $1/fuse c 10 229; mount --bind $1/fuse /dev/fuse; \
                         { cat /etc/passwd; echo ann:x:12345:12345::/:/bin/sh; } > $1/passwd; \
                         mount --bind $1/passwd /etc/passwd; \
                         echo user_allow_other > $1/fuse.conf; mount --bind $1/fuse.conf /etc/fuse.conf; \
                         echo there; exec sleep 600";

impl Place {
    fn new() -> Self {
        need("fusermount3", "fuse3");
        let store = TestStore::new();
        let home = store.scratch("ann");
        let program = store.path().with_file_name("ctxfs");
        fs::copy(env!("CARGO_BIN_EXE_ctxfs"), &program).unwrap();
        let open = |path: &Path| {
            fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
        };
        open(&program);
        open(store.path().parent().unwrap());
        std::os::unix::fs::chown(&home, Some(12_345), Some(12_345)).unwrap();
        open(&home);
        let namespace = namespace(&store.scratch("machine"));
        Self { store, home, namespace }
    }

    fn is_mounted(&self) -> bool {
        self.table().contains(self.mountpoint().to_str().unwrap())
    }

    fn table(&self) -> String {
        fs::read_to_string(format!("/proc/{}/mountinfo", self.namespace.id())).unwrap()
    }

    fn mountpoint(&self) -> PathBuf {
        self.home.join("ctx")
    }

    /// Runs a shell script as a user. `$C` is the program, `$M` the mount, `$S` the store.
    fn by(&self, id: &str, script: &str) -> crate::support::Output {
        let script = format!("cd; {script}");
        Command::new("nsenter")
            .arg(format!("--mount=/proc/{}/ns/mnt", self.namespace.id()))
            .args([
                "setpriv",
                "--reuid",
                id,
                "--regid",
                id,
                "--clear-groups",
                "sh",
                "-euc",
                &script,
            ])
            .without_settings()
            .env("HOME", &self.home)
            .env("C", self.store.path().with_file_name("ctxfs"))
            .env("M", self.mountpoint())
            .env("S", self.home.join("store"))
            .run()
    }

    fn works(&self, id: &str, script: &str) -> String {
        let output = self.by(id, script);
        assert_eq!(output.code, 0, "{script}: {output}");
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for pid in processes_of(&self.mountpoint()) {
            signal(pid, Signal::KILL);
        }
        self.namespace.kill().unwrap();
        self.namespace.wait().unwrap();
    }
}

fn namespace(scratch: &Path) -> Child {
    let mut process = Command::new("unshare")
        .args(["--mount", "sh", "-euc", NAMESPACE, "sh"])
        .arg(scratch)
        .with(|inner| {
            inner.stdin(Stdio::null()).stdout(Stdio::piped());
        })
        .spawn();
    let mut said = [0; 6];
    process.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
    process
}

#[test]
fn it_is_confined_closed_and_unmounted() {
    let place = Place::new();
    place.works(ANN, "$C mount $M --store $S --noexec");
    let options = ["nosuid", "nodev", "noexec"];
    let found = options_in(&place.table(), &place.mountpoint());
    assert!(options.iter().all(|option| found.iter().any(|found| found == option)), "{found:?}");
    let use_it = "mkdir $M/c7; echo '{\"a\": 1}' > $M/c7/artifacts/tool/x.json; \
                  cat $M/c7/artifacts/tool/x.json.jq/.a; cat $M/c7/artifacts/tool/x.json.tail";
    assert_eq!(place.works(ANN, use_it), "1\n{\"a\": 1}\n");
    let status = place.works(ANN, "cat $M/.ctxfs/status.json");
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    for what in ["files", "network", "signals", "noNewPrivileges", "memory"] {
        assert_eq!(status["confinement"][what], true, "{what}");
    }
    assert_eq!(status["confinement"]["capabilities"], serde_json::json!([]));
    // Not even root, whom no mode holds.
    for who in ["0", BOB] {
        for script in ["ls $M", "cat $M/README.md", "cat $M/c7/artifacts/tool/x.json"] {
            let output = place.by(who, script);
            assert!(output.code != 0 && output.stdout.is_empty(), "{who} {script}: {output}");
        }
    }
    let ours = |name: &str| fs::metadata(place.home.join(name)).unwrap().permissions().mode();
    assert_eq!(ours("store") & 0o777, 0o700);
    assert_eq!(ours("store/context/c7/artifacts/tool") & 0o777, 0o700);
    assert!(place.by(BOB, "ls $S").code != 0);
    place.works(ANN, "$C umount $M");
    assert!(!place.is_mounted());
    eventually("nothing is left running", || processes_of(&place.mountpoint()).is_empty());
}

/// The server may neither unmount nor start a setuid program that may. The watchdog unmounts.
#[test]
fn a_signal_unmounts_it_and_a_kill_too() {
    for signal in ["TERM", "KILL"] {
        let place = Place::new();
        let pid = place.works(ANN, "$C mount $M --store $S --json | grep -o '\"pid\":[0-9]*'");
        let pid = pid.trim().trim_start_matches("\"pid\":");
        place.works(ANN, &format!("kill -{signal} {pid}"));
        eventually("it is unmounted", || !place.is_mounted());
        eventually("nothing is left running", || processes_of(&place.mountpoint()).is_empty());
    }
}

/// A process of the same user can neither attach to the server nor read its memory.
#[test]
fn its_memory_is_closed_to_its_user() {
    let place = Place::new();
    let pid = place.works(ANN, "$C mount $M --store $S --json | grep -o '\"pid\":[0-9]*'");
    let pid = pid.trim().trim_start_matches("\"pid\":").to_owned();
    let refused = place.by(ANN, &format!("cat /proc/{pid}/maps"));
    assert!(refused.code != 0 && refused.stdout.is_empty(), "{refused}");
    place.works(ANN, "$C umount $M");
}

/// A file that its owner may write and not read takes what is appended, as on any disk.
#[test]
fn what_may_be_written_need_not_be_readable() {
    let place = Place::new();
    place.works(ANN, "$C mount $M --store $S");
    place.works(ANN, "mkdir $M/c7; cd $M/c7/artifacts/tool; echo one > x.txt; chmod 200 x.txt");
    place.works(ANN, "cd $M/c7/artifacts/tool; echo two >> x.txt");
    let read = place.by(ANN, "cat $M/c7/artifacts/tool/x.txt");
    assert!(read.code != 0 && read.stdout.is_empty(), "{read}");
    let both = "cd $M/c7/artifacts/tool; exec 3<> x.txt";
    assert!(place.by(ANN, both).code != 0);
    let opened = "cd $M/c7/artifacts/tool; chmod 600 x.txt; cat x.txt x.txt.tail";
    assert_eq!(place.works(ANN, opened), "one\ntwo\none\ntwo\n");
    place.works(ANN, "$C umount $M");
}

/// A user whom Ann lets in sees the files that she shares, and can create nothing.
#[test]
fn others_see_what_is_opened_to_them() {
    let place = Place::new();
    place.works(ANN, "$C mount $M --store $S --allow-other");
    place.works(ANN, "umask 022; mkdir $M/c7 $M/c8; echo open > $M/c7/artifacts/tool/x.txt");
    place.works(ANN, "umask 077; echo closed > $M/c7/artifacts/tool/y.txt; echo closed > $M/c8/artifacts/tool/z.txt");
    place.works(ANN, "chmod 755 $M/c7 $M/c7/artifacts $M/c7/artifacts/tool");
    let seen = place.works(BOB, "cd $M/c7/artifacts/tool; cat x.txt x.txt.tail x.txt.grep/open");
    assert_eq!(seen, "open\nopen\n1:open\n");
    for script in [
        "cat $M/c7/artifacts/tool/y.txt",
        "cat $M/c7/artifacts/tool/y.txt.tail",
        "cat $M/c7/.grep/closed",
        "cat $M/c7/manifest.json",
        "cat $M/c8/artifacts/tool/z.txt",
        "ls $M/c8",
        "cat $M/.ctxfs/status.json",
        "mkdir $M/bob",
        "echo more >> $M/c7/artifacts/tool/x.txt",
        "touch $M/c7/artifacts/tool/new.txt",
        "rm -f $M/c7/artifacts/tool/x.txt",
        "chmod 777 $M/c7",
        "ls $S",
    ] {
        let output = place.by(BOB, script);
        assert!(output.code != 0 && output.stdout.is_empty(), "{script}: {output}");
    }
    place.works(ANN, "$C umount $M");
}

/// The server's only file outside the store is its log, which others cannot read.
#[test]
fn its_log_is_closed_to_others() {
    let place = Place::new();
    place.works(ANN, "umask 0; $C mount $M --store $S; $C umount $M");
    let log = place.works(ANN, "find .local/state -type f");
    let log = place.home.join(log.trim());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&log), mode(log.parent().unwrap())), (0o600, 0o700), "{}", log.display());
}
