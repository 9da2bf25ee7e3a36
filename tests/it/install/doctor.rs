//! What `ctxfs doctor` says of installed hooks.

use serde_json::{Value, json};

use crate::install::Home;
use crate::support::{Command, Output, eventually, log, processes_of};

fn ctxfs(home: &Home, arguments: &[&str]) -> Command {
    home.in_home(Command::ctxfs().args(arguments)).env("CTXFS_HOOKS_MOUNT", "true")
}

/// Returns the report of the doctor, and its checks with this name.
fn report(output: &Output, name: &str) -> (Value, Vec<Value>) {
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = report["checks"].as_array().unwrap().iter();
    let checks = checks.filter(|check| check["name"] == name).cloned().collect();
    (report, checks)
}

#[test]
fn a_hook_needs_a_mount() {
    let home = Home::new();
    let mount = home.path("mnt");
    let doctor = || ctxfs(&home, &["doctor", "--json"]).env("CTXFS_MOUNT", &mount).run();
    assert!(report(&doctor(), "hook").0.get("can_use_hooks").is_none());

    home.install(&["claude-code"]).stdout();
    let output = doctor();
    let (told, hooks) = report(&output, "hook");
    assert_eq!((output.code, &told["can_use_hooks"]), (1, &json!(false)), "{output}");
    assert_eq!(hooks[0]["level"], "failure", "{output}");
    assert!(hooks[0]["found"].as_str().unwrap().contains("is not mounted"), "{output}");
    assert_eq!(hooks[0]["mend"], format!("ctxfs mount {}", mount.display()));
    assert_eq!(report(&output, "output").1[0]["level"], "note", "{output}");
    // Where the user wants no mount, it is no failure.
    let output = ctxfs(&home, &["doctor", "--json"]).env("CTXFS_HOOKS_MOUNT", "false").run();
    assert_eq!(report(&output, "hook").0["can_use_hooks"], true, "{output}");

    let put = |call: &str, bytes: &[u8]| {
        let args = json!({ "command": format!("seq {call}") }).to_string();
        let of = ["put", "-c", "c7", "--server", "claude-code", "--tool", "Bash"];
        let more = ["--exit-code", "0", "--call", call, "--args", &args];
        ctxfs(&home, &[&of[..], &more].concat()).stdin(bytes).stdout();
    };
    put("long", &log(5000));
    for number in 0..4 {
        put(&number.to_string(), b"text\n");
    }
    // The line that mends it, as the report has it.
    ctxfs(&home, &["mount", mount.to_str().unwrap()]).stdout();
    let output = doctor();
    ctxfs(&home, &["umount", mount.to_str().unwrap()]).run();
    eventually("the server has ended", || processes_of(&mount).is_empty());
    let (told, hooks) = report(&output, "hook");
    assert_eq!(
        (&told["can_use_hooks"], &hooks[0]["level"]),
        (&json!(true), &json!("ok")),
        "{output}"
    );
    assert_eq!(output.code == 0, told["can_mount"] == true, "{output}");
    let found: Vec<String> = report(&output, "output")
        .1
        .iter()
        .map(|check| check["found"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(found.len(), 5, "{found:?}");
    let is_of = |begins: &str, ends: &str| {
        found.iter().any(|found| found.starts_with(begins) && found.ends_with(ends))
    };
    assert!(is_of("seq long: ", " characters") && is_of("seq 3: 5, ", " ago, whole"), "{found:?}");
}
