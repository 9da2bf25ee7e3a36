//! The unit of the user's systemd that mounts the store at login.

use std::path::Path;

use crate::cli::env::Environment;
use crate::cli::install::change::EditedFile;
use crate::cli::install::content::OWNED;
use crate::cli::install::content::SettingsContent;
use crate::cli::install::place;

/// The unit that people copy. It has the program and the mountpoint of one who builds ctxfs.
const UNIT: &str = include_str!("../../../scripts/ctxfs-user.service");
const PROGRAM: &str = "%h/.local/bin/ctxfs";
const MOUNTPOINT: &str = "%h/ctx";

/// The advice after the unit was written.
pub(super) const START: &str =
    "start the mount: `systemctl --user daemon-reload && systemctl --user enable --now ctxfs`";
/// The advice after the unit was removed.
pub(super) const STOP: &str =
    "end the mount: `systemctl --user disable --now ctxfs; systemctl --user daemon-reload`";

/// Returns the unit, where systemd is the user's manager.
pub(super) fn unit(
    program: &str,
    mountpoint: &Path,
    environment: &Environment,
) -> Option<EditedFile> {
    if !place::has_user_manager(environment) {
        return None;
    }
    let dir = place::units(environment)?;
    let content = SettingsContent::Whole(text(program, &mountpoint.display().to_string()));
    let base = environment.home.clone().unwrap_or_else(|| dir.clone());
    Some(EditedFile { path: dir.join("ctxfs.service"), base, content })
}

/// Returns true if the unit is there and another has written it.
pub(super) fn is_foreign(unit: &EditedFile) -> bool {
    unit.path.exists() && !unit.calls_hook().unwrap_or_default()
}

fn text(program: &str, mountpoint: &str) -> String {
    let lines = UNIT.lines().skip_while(|line| line.starts_with('#') || line.is_empty());
    let lines: Vec<String> = lines
        .map(|line| {
            line.replace(PROGRAM, &word(program)).replace(MOUNTPOINT, &word(mountpoint)) + "\n"
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
        let text = text("/opt/my apps/ctxfs", "/run/user/7/ctxfs");
        assert!(text.lines().next().unwrap().contains(OWNED));
        let start = "ExecStart=\"/opt/my apps/ctxfs\" mount --foreground /run/user/7/ctxfs\n";
        assert!(text.contains(start), "{text}");
        assert!(text.contains("fusermount3 -u -z /run/user/7/ctxfs\n"), "{text}");
        assert!(!text.contains("%h"), "{text}");
    }

    #[test]
    fn words_are_quoted_for_systemd() {
        assert_eq!(word("/a/100%"), "/a/100%%");
        assert_eq!(word("/a \"b\""), "\"/a \\\"b\\\"\"");
    }
}
