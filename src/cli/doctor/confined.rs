//! The confinement of servers: what this kernel supports, and the state of each running server.

use std::fs;

use serde_json::Value;

use crate::confine;
use crate::doctor::check::{Check, Level};

const NAME: &str = "confinement";

/// Checks what the kernel supports.
pub(super) fn machine() -> Check {
    match confine::landlock() {
        Some(version) if version >= confine::LANDLOCK_COMPLETE_SINCE => {
            Check::ok(NAME, format!("Landlock {version}: servers confine themselves"))
        }
        Some(version) => {
            let found = format!("Landlock {version}: servers confine themselves partly");
            Check::bad(NAME, Level::Note, found, "a kernel of 6.12 or later confines them fully")
        }
        None => {
            let found =
                "no Landlock: servers give up privileges, but neither files nor the network";
            let mend = "use a kernel with CONFIG_SECURITY_LANDLOCK and with `landlock` in `lsm=`";
            Check::bad(NAME, Level::Note, found, mend)
        }
    }
}

/// Checks the server of the mount `here`, from its own `status` and from the kernel's view of its
/// threads.
pub(super) fn server(here: &str, status: &Value) -> Check {
    let found = &status["confinement"];
    let holds = |what: &str| found[what] == true;
    let all = ["files", "network", "signals", "noNewPrivileges", "memory"];
    let lacking: Vec<&str> = all.into_iter().filter(|what| !holds(what)).collect();
    let loose = status["pid"].as_u64().map_or(0, loose_threads);
    if lacking.is_empty() && loose == 0 {
        let rights = rights(found);
        let text = format!("{here}: only its store, no network, no signals, {rights}");
        return Check::ok(NAME, text);
    }
    let text = if loose > 0 && holds("noNewPrivileges") {
        format!("{here}: {loose} threads of the server are not confined")
    } else {
        format!("{here}: the server is not confined: {}", lacking.join(", "))
    };
    Check::bad(NAME, Level::Note, text, format!("ctxfs umount '{here}', then mount it again"))
}

fn rights(found: &Value) -> String {
    let names = found["capabilities"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let names: Vec<&str> = names.collect();
    if names.is_empty() { "no capabilities".to_owned() } else { names.join(" ") }
}

/// Counts the threads that could still gain privileges; 0 if the process is not visible.
fn loose_threads(pid: u64) -> usize {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return 0 };
    let status = |path| fs::read_to_string(path).unwrap_or_default();
    let loose = |text: &String| text.lines().any(|line| line == "NoNewPrivs:\t0");
    threads.flatten().map(|thread| status(thread.path().join("status"))).filter(loose).count()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(of: &Value) -> (Level, String) {
        let check = server("/ctx", of);
        (check.level, check.found)
    }

    #[test]
    fn missing_confinement_is_named() {
        let mut of = json!({ "confinement": {
            "landlock": 7, "files": true, "network": true, "signals": true,
            "noNewPrivileges": true, "memory": true, "capabilities": ["CAP_CHOWN"],
        }});
        assert_eq!(said(&of).0, Level::Ok);
        assert!(said(&of).1.ends_with("CAP_CHOWN"));
        of["confinement"]["network"] = false.into();
        assert_eq!(said(&of).0, Level::Note);
        assert!(said(&of).1.ends_with("not confined: network"));
        assert!(said(&json!({})).1.ends_with("files, network, signals, noNewPrivileges, memory"));
    }
}
