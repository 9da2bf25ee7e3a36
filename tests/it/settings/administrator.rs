//! The administrator's file, `/etc/ctxfs.toml`. A mount namespace gives each command an `/etc` of its
//! own, so that the one of the machine does not matter.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::PathBuf;

use serde_json::Value;

use super::told;
use crate::support::{Command, Output, TestStore};

/// A store, and a directory that its commands see as `/etc`.
struct Machine {
    store: TestStore,
    etc: PathBuf,
}

impl Machine {
    fn new(settings: &str) -> Self {
        let store = TestStore::new();
        let etc = store.scratch("etc");
        fs::write(etc.join("ctxfs.toml"), settings).unwrap();
        Self { store, etc }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let script = "mount --bind \"$1\" /etc; shift; exec \"$@\"";
        Command::new("unshare")
            .without_settings()
            .with_settings_of(&self.store)
            .args(["--mount", "sh", "-euc", script, "sh"])
            .arg(&self.etc)
            .args([env!("CARGO_BIN_EXE_ctxfs"), "--store"])
            .arg(self.store.path())
            .args(arguments)
            .run()
    }
}

#[test]
fn it_is_a_default_for_users_and_a_floor_for_calls() {
    let machine = Machine::new(
        "max_lines = 3\nmax_bytes = 9\n[permissions]\n\"shell/*\" = \"deny\"\n\
         [extract]\nmax_steps = 2\n",
    );
    machine.store.user_settings("max_lines = 4\n[permissions]\n\"shell/exec\" = \"allow\"\n");
    let config = machine.run(&["--json", "config"]);
    let config: Value = serde_json::from_slice(&config.stdout).unwrap();
    let held = |key: &str| (&config["settings"][key]["value"], &config["settings"][key]["origin"]);
    assert_eq!(held("max_lines").0, 4);
    let (value, origin) = held("max_bytes");
    assert_eq!(
        (value, &origin["path"], &origin["line"]),
        (&9.into(), &"/etc/ctxfs.toml".into(), &2.into())
    );
    assert_eq!(held("max_steps").0, 2);
    let rule = &config["permissions"]["shell/*"];
    assert_eq!(
        (&rule["value"], &rule["origin"]["path"]),
        (&"deny".into(), &"/etc/ctxfs.toml".into())
    );
    assert_eq!(config["permissions"]["shell/exec"]["value"], "allow");
    let page = machine.run(&["config"]);
    let page = String::from_utf8(page.stdout).unwrap();
    assert!(page.contains("# /etc/ctxfs.toml:4\n"), "{page}");
}

#[test]
fn one_that_others_may_write_is_refused_with_the_way_to_mend_it() {
    let machine = Machine::new("max_lines = 3\n");
    let file = machine.etc.join("ctxfs.toml");
    assert_eq!(machine.run(&["ls"]).code, 0);
    let refused = |why: &str, mend: &str| {
        for command in [&["ls"][..], &["config"], &["put", "-c", "c7"]] {
            let output = machine.run(command);
            assert!(output.code == 2 && output.stdout.is_empty(), "{output}");
            assert!(told(&output).contains(why) && told(&output).contains(mend), "{output}");
        }
        let doctor = machine.run(&["doctor"]);
        assert!(String::from_utf8_lossy(&doctor.stdout).contains(why), "{doctor}");
        // A command of an agent runs all the same, and a hook says nothing.
        let run = machine.run(&["run", "--", "echo", "hi"]);
        assert_eq!((run.code, &*run.stdout), (0, &b"hi\n"[..]), "{run}");
        let hook = machine.run(&["hook", "claude-code"]);
        assert_eq!((hook.code, hook.stdout.len(), hook.stderr.len()), (0, 0, 0), "{hook}");
    };
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    refused("others than root may write it, mode 0666", "`chmod go-w /etc/ctxfs.toml`");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    chown(&file, Some(1000), None).unwrap();
    refused("it belongs to user 1000, not root", "`chown root /etc/ctxfs.toml`");
}

/// Sandboxes of hosts are user namespaces, in which files of root belong to nobody.
#[test]
fn it_counts_in_a_namespace_without_root() {
    let machine = Machine::new("max_lines = 3\n");
    fs::write(machine.etc.join("program"), "").unwrap();
    fs::set_permissions(&machine.etc, fs::Permissions::from_mode(0o755)).unwrap();
    let script = "mount --bind \"$2\" \"$1/program\"; mount --rbind \"$1\" /etc; \
                  exec setpriv --reuid 1000 --regid 1000 --clear-groups unshare --map-user 1000 \
                  /etc/program --store /nonexistent config";
    let run = || {
        let command = Command::new("unshare").without_settings().env("HOME", "/nonexistent");
        let command = command.args(["--mount", "sh", "-euc", script, "sh"]).arg(&machine.etc);
        command.arg(env!("CARGO_BIN_EXE_ctxfs")).run()
    };
    let counts = run();
    assert!(String::from_utf8_lossy(&counts.stdout).contains("# /etc/ctxfs.toml:1\n"), "{counts}");
    chown(machine.etc.join("ctxfs.toml"), Some(1000), None).unwrap();
    let refused = run();
    assert!(refused.code == 2 && told(&refused).contains("it belongs to user 1000"), "{refused}");
}
