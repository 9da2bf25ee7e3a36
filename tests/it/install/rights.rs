//! Links, modes and owners of settings files.

use std::fs;
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};

use crate::install::Home;

const FILE: &str = ".claude/settings.json";

#[test]
fn links_are_followed_and_stay() {
    let home = Home::new();
    home.write("dotfiles/claude.json", "{\"a\": 1}\n");
    fs::create_dir(home.path(".claude")).unwrap();
    symlink("../dotfiles/middle", home.path(FILE)).unwrap();
    symlink("claude.json", home.path("dotfiles/middle")).unwrap();
    let before = home.tree();
    home.install(&["claude-code"]).stdout();
    assert!(home.read("dotfiles/claude.json").contains("hook claude-code"));
    assert!(home.path(FILE).is_symlink() && home.path("dotfiles/middle").is_symlink());
    assert_eq!(home.read("dotfiles/claude.json.ctxfs.bak"), "{\"a\": 1}\n");
    home.install(&["claude-code", "--remove"]).stdout();
    assert_eq!(home.tree(), before);
}

#[test]
fn a_directory_may_be_a_link() {
    let home = Home::new();
    home.write("dotfiles/settings.json", "{}\n");
    symlink("dotfiles", home.path(".claude")).unwrap();
    let before = home.tree();
    home.install(&["claude-code"]).stdout();
    home.install(&["claude-code", "--remove"]).stdout();
    assert_eq!(home.tree(), before);
}

#[test]
fn a_link_to_nothing_is_refused() {
    let home = Home::new();
    fs::create_dir(home.path(".claude")).unwrap();
    symlink("nowhere", home.path(FILE)).unwrap();
    let output = home.install(&["claude-code"]).run();
    assert!(output.code == 1 && output.to_string().contains("cannot follow"), "{output}");
}

#[test]
fn mode_and_owner_stay() {
    let home = Home::new();
    let file = home.write(FILE, "{}\n");
    fs::set_permissions(&file, Permissions::from_mode(0o640)).unwrap();
    chown(&file, Some(1234), Some(2345)).unwrap();
    let rights = |name: &str| {
        let meta = fs::metadata(home.path(name)).unwrap();
        (meta.mode() & 0o7777, meta.uid(), meta.gid())
    };
    home.install(&["claude-code"]).stdout();
    assert_eq!(rights(FILE), (0o640, 1234, 2345));
    assert_eq!(rights(".claude/settings.json.ctxfs.bak"), (0o640, 1234, 2345));
    home.install(&["claude-code", "--remove"]).stdout();
    assert_eq!(rights(FILE), (0o640, 1234, 2345));
}

#[test]
fn what_is_read_only_is_left_alone() {
    for locked in [FILE, ".claude"] {
        let home = Home::new();
        home.write(FILE, "{}\n");
        let before = home.tree();
        let mode = |mode| fs::set_permissions(home.path(locked), Permissions::from_mode(mode));
        mode(if locked == FILE { 0o444 } else { 0o555 }).unwrap();
        let output = home.install(&["claude-code"]).run();
        assert!(output.code == 1 && output.to_string().contains("is read-only"), "{output}");
        assert!(output.to_string().contains(locked), "{output}");
        mode(if locked == FILE { 0o644 } else { 0o755 }).unwrap();
        let after = home.tree();
        assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
        assert_eq!(home.read(FILE), "{}\n");
    }
}

/// One of two files cannot be changed.
#[test]
fn nothing_is_changed_if_one_file_is_read_only() {
    let home = Home::new();
    home.write(".codex/config.toml", "a = 1\n");
    let hooks = home.write(".codex/hooks.json", "{}\n");
    fs::set_permissions(hooks, Permissions::from_mode(0o400)).unwrap();
    let before = home.tree();
    assert_eq!(home.install(&["codex"]).run().code, 1);
    assert_eq!(home.tree(), before);
}
