//! One mount, several users: the kernel keeps them apart.

use std::fs;
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;

use crate::support::{Command, Mode, Output, TestMount, TestStore, eventually, need};

const ANN: u32 = 12_345;
const BOB: u32 = 12_346;

/// A mount by root, at a path that everybody can reach.
pub(super) fn shared(options: &[&str]) -> TestMount {
    let store = Arc::new(TestStore::new());
    let open = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    open(store.path().parent().unwrap(), 0o755);
    open(&store.path(), 0o700);
    TestMount::of(&store, Mode::Passthrough, options)
}

/// Runs a shell script in the mount, as the user `id`.
fn by(id: u32, mount: &TestMount, script: &str) -> Output {
    need("setpriv", "util-linux");
    let id = id.to_string();
    Command::new("setpriv")
        .args(["--reuid", &id, "--regid", &id, "--clear-groups", "sh", "-euc", script])
        .current_dir(mount.path().parent().unwrap())
        .env("M", mount.path())
        .run()
}

fn works(id: u32, mount: &TestMount, script: &str) -> String {
    let output = by(id, mount, script);
    assert_eq!(output.code, 0, "{script}: {output}");
    String::from_utf8(output.stdout).unwrap()
}

fn refused(id: u32, mount: &TestMount, script: &str) {
    let output = by(id, mount, script);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let denied = ["Permission denied", "Operation not permitted"];
    let by_kernel = output.code != 0 && denied.iter().any(|word| said.contains(word));
    assert!(by_kernel && output.stdout.is_empty(), "{script}: {output}");
}

/// Ann's conversation, with an output.
const BEGIN: &str = "mkdir $M/ann; echo 'secret of ann' > $M/ann/artifacts/tool/x.txt";

#[test]
fn each_has_conversations_that_are_closed_to_the_other() {
    let mount = shared(&["--allow-other"]);
    works(ANN, &mount, BEGIN);
    works(BOB, &mount, "mkdir $M/bob; echo bob > $M/bob/artifacts/tool/y.txt");
    let root = mount.path().metadata().unwrap();
    assert_eq!((root.mode() & 0o7777, root.uid()), (0o1777, 0));
    for path in ["ann", "ann/artifacts/tool", "ann/history/archive"] {
        let stat = mount.path().join(path).metadata().unwrap();
        assert_eq!((stat.uid(), stat.gid(), stat.mode() & 0o777), (ANN, ANN, 0o700), "{path}");
    }
    let file = mount.store().plain("ann", "x.txt").metadata().unwrap();
    assert_eq!((file.uid(), file.gid()), (ANN, ANN));
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let at = mount.path().to_str().unwrap();
    let line = mounts.lines().find(|line| line.contains(at)).unwrap();
    assert!(line.contains("default_permissions") && line.contains("allow_other"), "{line}");

    // What is Ann's works for her, views and all.
    let own = "cat $M/ann/artifacts/tool/x.txt.tail; cat \"$M/ann/.grep/secret\"; \
               cat $M/ann/manifest.json; rm -r $M/ann/history; echo done";
    assert!(works(ANN, &mount, own).ends_with("done\n"));

    assert_eq!(works(BOB, &mount, "ls $M"), "README.md\nann\nbob\n");
    works(BOB, &mount, "cat $M/README.md $M/.ignore > /dev/null");
    for script in [
        "ls $M/ann",
        "cat $M/ann/artifacts/tool/x.txt",
        "cat $M/ann/artifacts/tool/x.txt.tail",
        "cat $M/ann/artifacts/tool/x.txt.grep/secret",
        "stat $M/ann/artifacts/tool/x.txt.grep/secret",
        "cat $M/ann/.grep/secret",
        "stat $M/ann/.grep/secret",
        "cat $M/ann/manifest.json",
        "cat $M/ann/history/messages.jsonl",
        "echo x > $M/ann/artifacts/tool/z.txt",
        "rm -r $M/ann",
        "rmdir $M/ann",
        "mv $M/ann $M/bob2",
        "mv $M/bob $M/ann",
        "chmod 777 $M/ann",
        "chown 12346 $M/ann",
        "ls $M/.ctxfs",
        "cat $M/.ctxfs/status.json",
        "chmod 777 $M",
    ] {
        refused(BOB, &mount, script);
    }
    works(ANN, &mount, "cat $M/ann/artifacts/tool/x.txt");
    // Root sees all, and so does whoever has the store.
    assert!(fs::read_to_string(mount.path().join(".ctxfs/status.json")).unwrap().contains("pid"));
    let sealed = || fs::read_to_string(mount.path().join("ann/manifest.json")).unwrap();
    eventually("it is sealed", || sealed().contains("mimeType"));
    refused(BOB, &mount, "ls ./store");
}

/// A file that its owner opens to others is open as far as its mode says, and its views are no more
/// open.
#[test]
fn what_is_opened_is_open_as_far_as_its_mode_says() {
    let mount = shared(&["--allow-other"]);
    works(ANN, &mount, BEGIN);
    works(
        ANN,
        &mount,
        "cd $M/ann; umask 022; echo open > artifacts/tool/open.txt; umask 077; \
         echo '{\"closed\": 1}' > artifacts/tool/closed.json; chmod 600 artifacts/tool/x.txt; \
         chmod 755 . artifacts artifacts/tool",
    );
    let read = "cd $M/ann/artifacts/tool; cat open.txt open.txt.tail open.txt.lines/1 \
                open.txt.grep/open open.txt.summary open.txt.pages/0001; ls; cat .ignore";
    assert!(works(BOB, &mount, read).starts_with("open\nopen\nopen\n1:open\n"));
    for script in [
        "cat x.txt",
        "cat x.txt.tail",
        "cat x.txt.summary",
        "cat x.txt.meta.json",
        "cat x.txt.lines/1",
        "cat x.txt.grep/secret",
        "stat x.txt.grep/secret",
        "cat closed.json.pretty",
        "cat closed.json.pretty.head",
        "cat closed.json.jq/.",
        "cat .grep/secret",
        "stat ../.grep/secret",
        "cat ../../.grep/secret",
        "cat ../../manifest.json",
        "echo more >> open.txt",
        "rm -f open.txt",
        "mv open.txt other.txt",
        "touch new.txt",
        "setfattr -n user.ctx.tool -v x open.txt",
        "chmod 666 open.txt",
        "truncate -s 0 open.txt",
    ] {
        refused(BOB, &mount, &format!("cd $M/ann/artifacts/tool; {script}"));
    }
    // A mode that changes counts at once.
    works(ANN, &mount, "chmod 600 $M/ann/artifacts/tool/open.txt");
    refused(BOB, &mount, "cat $M/ann/artifacts/tool/open.txt.tail");
    works(ANN, &mount, "chmod 644 $M/ann/artifacts/tool/x.txt");
    let tail = works(BOB, &mount, "cat $M/ann/artifacts/tool/x.txt.tail");
    assert_eq!(tail, "secret of ann\n");
}

#[test]
fn a_conversation_alone_is_its_owners_too() {
    let all = shared(&["--allow-other"]);
    works(ANN, &all, BEGIN);
    let alone = TestMount::of(all.store(), Mode::Cached, &["--allow-other", "--only", "ann"]);
    let own = "cat $M/artifacts/tool/x.txt.tail; echo more > $M/artifacts/tool/more.txt";
    assert_eq!(works(ANN, &alone, own), "secret of ann\n");
    for script in ["ls $M", "cat $M/README.md", "cat $M/artifacts/tool/x.txt", "touch $M/x"] {
        refused(BOB, &alone, script);
    }
}

/// The kernel applies the umask, and the store has the resulting mode.
#[test]
fn modes_are_what_the_umask_leaves() {
    let mount = shared(&["--allow-other"]);
    for (umask, file, dir) in [("022", 0o644, 0o755), ("027", 0o640, 0o750), ("077", 0o600, 0o700)]
    {
        let make = format!(
            "umask {umask}; mkdir $M/c{umask}; cd $M/c{umask}/artifacts/tool; echo x > x.txt; \
             install -m 2751 /dev/null y.txt; mkdir ../../catalog/more"
        );
        works(ANN, &mount, &make);
        let id = format!("c{umask}");
        let modes = |root: &Path, name: &str| {
            let stat = root.join(name).metadata().unwrap();
            assert_eq!((stat.uid(), stat.gid()), (ANN, ANN), "{name}");
            stat.mode() & 0o7777
        };
        let store = mount.store().path().join("context").join(&id);
        for root in [mount.path().join(&id), store] {
            // What the umask of the maker leaves open, a conversation does not.
            assert_eq!(modes(&root, ""), 0o700, "{umask}");
            assert_eq!(modes(&root, "artifacts/tool/x.txt"), file, "{umask}");
            assert_eq!(modes(&root, "artifacts/tool/y.txt"), 0o2751, "{umask}");
            assert_eq!(modes(&root, "catalog/more"), dir, "{umask}");
        }
    }
}

/// Access lists are refused, rather than stored and ignored.
#[test]
fn access_lists_are_refused() {
    let mount = shared(&["--allow-other"]);
    works(ANN, &mount, BEGIN);
    let set = "import os, sys\n\
               entry = lambda tag, perm, who: tag.to_bytes(2, 'little') + perm.to_bytes(2, 'little') \
                   + who.to_bytes(4, 'little')\n\
               none = 0xffffffff\n\
               acl = (2).to_bytes(4, 'little') + entry(1, 6, none) + entry(2, 4, 12346) \
                   + entry(4, 0, none) + entry(16, 4, none) + entry(32, 0, none)\n\
               for name in sys.argv[2:]:\n    \
                   try: os.setxattr(sys.argv[1], name, acl)\n    \
                   except OSError as error: print(error.errno)\n";
    let (access, default) = ("system.posix_acl_access", "system.posix_acl_default");
    for (target, lists) in [
        ("ann/artifacts/tool/x.txt", &[access][..]),
        ("ann/artifacts/tool", &[access, default]),
        ("ann", &[access, default]),
    ] {
        let path = mount.path().join(target);
        let said = Command::python(set, &[&path]).args(lists).text();
        assert_eq!(said, "95\n".repeat(lists.len()), "{target}: ENOTSUP");
        let found = Command::new("getfattr").args(["-m", "-", "-d"]).arg(&path).text();
        assert!(!found.contains("posix_acl"), "{found}");
    }
    refused(BOB, &mount, "cat $M/ann/artifacts/tool/x.txt");
}

#[test]
fn without_the_option_nobody_else_comes_in() {
    let mount = shared(&[]);
    mount.artifact("c7", "x.txt", b"text\n");
    refused(ANN, &mount, "ls $M");
    refused(ANN, &mount, "cat $M/README.md");
}
