//! The process that is to seal an artifact.

use std::fs;
use std::sync::LazyLock;

use ctxfs_core::model::Owner;

static ME: LazyLock<Option<Owner>> = LazyLock::new(|| {
    let pid = std::process::id();
    Some(Owner { pid, started: started(pid)? })
});

/// Returns this process, or `None` if /proc is not available.
pub fn this_process() -> Option<Owner> {
    *ME
}

/// Returns true if `owner` is still running. From another pid namespace this cannot be seen, and
/// the process counts as gone. Then the lease on the file tells if it is still being written.
pub fn lives(owner: Owner) -> bool {
    started(owner.pid) == Some(owner.started)
}

/// Returns the start time of a process, in clock ticks since boot. Returns `None` if there is no
/// such process, or if it is a zombie.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, field 2, is in parentheses and may hold anything; field 3 is the state.
    let (_, after) = stat.rsplit_once(')')?;
    let mut fields = after.split_ascii_whitespace();
    let ended = matches!(fields.next()?, "Z" | "X");
    let started = fields.nth(22 - 4)?.parse().ok()?;
    (!ended).then_some(started)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_lives_until_it_ends() {
        assert!(lives(this_process().unwrap()));
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        let owner = Owner { pid: child.id(), started: started(child.id()).unwrap() };
        assert!(lives(owner));
        assert!(!lives(Owner { started: owner.started + 1, ..owner }));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!lives(owner));
    }
}
