//! A home and a project for one test.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;

use crate::support::Command;

/// A home directory, with a project in it, that is removed with the test.
pub(crate) struct Home {
    dir: Arc<TempDir>,
    path: PathBuf,
}

/// The files and links below a directory, by their path: mode, and bytes or target.
pub(crate) type Tree = BTreeMap<PathBuf, (u32, Vec<u8>)>;

impl Home {
    pub(crate) fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("ctxfs-home-").tempdir().unwrap();
        fs::create_dir(dir.path().join("project")).unwrap();
        let path = dir.path().to_owned();
        Self { dir: Arc::new(dir), path }
    }

    /// Returns a home in this one.
    pub(crate) fn below(&self, name: &str) -> Self {
        let path = self.path(name);
        fs::create_dir_all(path.join("project")).unwrap();
        Self { dir: Arc::clone(&self.dir), path }
    }

    /// Returns a path in the home.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a file, and the directories above it.
    pub(crate) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    pub(crate) fn read(&self, name: &str) -> String {
        let path = self.path(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Returns `ctxfs install ARGUMENTS` in the project.
    pub(crate) fn install(&self, arguments: &[&str]) -> Command {
        self.in_home(Command::ctxfs().arg("install").args(arguments))
    }

    /// Gives a command this home and nothing of the user's who runs the tests.
    pub(crate) fn in_home(&self, command: Command) -> Command {
        let unset = ["CODEX_HOME", "CLAUDE_CONFIG_DIR", "XDG_RUNTIME_DIR", "XDG_DATA_HOME"];
        let command = command.env("HOME", &self.path).env("CTXFS_MOUNT", "/ctx");
        let command = command.env("CTXFS_HOOKS_MOUNT", "false");
        let command = command.env("XDG_CONFIG_HOME", self.path(".config"));
        command.current_dir(&self.path("project")).with(|inner| {
            for name in unset {
                inner.env_remove(name);
            }
        })
    }

    /// Returns everything in the home.
    pub(crate) fn tree(&self) -> Tree {
        let mut tree = Tree::new();
        let mut dirs = vec![self.path.clone()];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(&dir).unwrap() {
                let path = entry.unwrap().path();
                let meta = path.symlink_metadata().unwrap();
                if meta.is_dir() {
                    dirs.push(path);
                    continue;
                }
                tree.insert(self.relative(&path), (meta.mode(), bytes(&path)));
            }
        }
        tree
    }

    fn relative(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.path).unwrap().to_owned()
    }
}

fn bytes(path: &Path) -> Vec<u8> {
    match fs::read_link(path) {
        Ok(target) => target.into_os_string().into_encoded_bytes(),
        Err(_) => fs::read(path).unwrap(),
    }
}
