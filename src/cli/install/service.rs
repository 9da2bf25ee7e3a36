//! The unit of the user's systemd that mounts the store at login.

use crate::env::Environment;
use crate::install::change::EditedFile;
use crate::install::command_line::STORE;
use crate::install::content::{OWNED, SettingsContent};
use crate::install::named_paths::NamedPaths;
use crate::install::place;

/// The unit that people copy. It has the program and the mountpoint of one who builds ctxfs.
const UNIT: &str = include_str!("../../../scripts/ctxfs-user.service");
const PROGRAM: &str = "%h/.local/bin/ctxfs";
const MOUNTPOINT: &str = "%h/ctx";
const MOUNT: &str = " mount --foreground";

/// The advice after the unit was written.
pub(super) const START: &str =
    "start the mount: `systemctl --user daemon-reload && systemctl --user enable --now ctxfs`";
/// The advice after the unit was removed.
pub(super) const STOP: &str =
    "end the mount: `systemctl --user disable --now ctxfs; systemctl --user daemon-reload`";

/// Returns the unit, where systemd is the user's manager.
pub(super) fn unit(paths: &NamedPaths, environment: &Environment) -> Option<EditedFile> {
    if !place::has_user_manager(environment) {
        return None;
    }
    let dir = place::units(environment)?;
    let content = SettingsContent::Whole(text(paths));
    let base = environment.home.clone().unwrap_or_else(|| dir.clone());
    Some(EditedFile { path: dir.join("ctxfs.service"), base, content, is_shared: false })
}

/// Returns true if the unit is there and another has written it.
pub(super) fn is_foreign(unit: &EditedFile) -> bool {
    unit.path.exists() && unit.hook().is_ok_and(|hook| hook.is_none())
}

fn text(paths: &NamedPaths) -> String {
    let mountpoint = word(&paths.mountpoint.display().to_string());
    let store = paths.store_to_name().map(|store| format!(" {STORE} {}", word(store)));
    let mount = format!("{MOUNT}{}", store.unwrap_or_default());
    let lines = UNIT.lines().skip_while(|line| line.starts_with('#') || line.is_empty());
    let lines: Vec<String> = lines
        .map(|line| {
            let line = line.replace(MOUNT, &mount).replace(MOUNTPOINT, &mountpoint);
            line.replace(PROGRAM, &word(&paths.program)) + "\n"
        })
        .collect();
    format!("# The mount of ctxfs, {OWNED}, and replaced by it.\n\n{}", lines.concat())
}

/// Quotes a word for systemd.
fn word(text: &str) -> String {
    let escaped = text.replace('%', "%%").replace('$', "$$");
    let is_plain = |c: char| c.is_alphanumeric() || "/._-%$+@,:".contains(c);
    if escaped.chars().all(is_plain) {
        return escaped;
    }
    format!("\"{}\"", escaped.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_is_the_one_of_the_scripts() {
        let mut paths = NamedPaths {
            program: "/opt/my apps/ctxfs".to_owned(),
            mountpoint: "/run/user/7/ctxfs".into(),
            mount: "/ctx".to_owned(),
            store: "/my data".to_owned(),
            former_store: None,
            is_store_named: false,
        };
        let text = super::text(&paths);
        assert!(text.lines().next().unwrap().contains(OWNED));
        let start = "ExecStart=\"/opt/my apps/ctxfs\" mount --foreground /run/user/7/ctxfs\n";
        assert!(text.contains(start), "{text}");
        assert!(text.contains("fusermount3 -u -z /run/user/7/ctxfs\n"), "{text}");
        assert!(!text.contains("%h"), "{text}");
        paths.is_store_named = true;
        let named = start.replace("--foreground", "--foreground --store \"/my data\"");
        assert_eq!(super::text(&paths), text.replace(start, &named));
    }

    #[test]
    fn words_are_quoted_for_systemd() {
        assert_eq!(word("/a/100%"), "/a/100%%");
        assert_eq!(word("/a \"b\""), "\"/a \\\"b\\\"\"");
    }
}
