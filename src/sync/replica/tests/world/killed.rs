//! Hosts that are killed after they showed something and before they noted that, and hosts that
//! wrote the same as others.

use crate::replica::{FileKey, FileVersion, FoundFile};

use super::World;

impl World {
    /// One host publishes two files. Another one is killed when it shows the first, goes on and
    /// notes it if it `heals`, and then its user writes over that one. Returns the number of
    /// artifacts that live afterwards.
    pub(crate) fn killed_before_it_noted(&mut self, heals: bool) -> usize {
        self.put_at(0, "X");
        self.put_at(0, "Y");
        (0..9).for_each(|_| self.push(0));
        self.look(1);
        self.hosts[1].show(1);
        assert!(self.hosts[1].disk.base.entries.is_empty(), "it was killed before it noted");
        if heals {
            self.hosts[1].show(0);
        }
        let shown: Vec<_> = self.hosts[1].disk.files.keys().cloned().collect();
        assert_eq!(shown, ["X"]);
        self.put_at(1, "X");
        self.meet();
        self.hosts[0].state().artifacts.len()
    }

    /// A host publishes a file. Another one has a file of the same name and bytes: it `came`, and
    /// the host was killed before it noted that, or it was written there. Then the first one
    /// removes its own. Returns the number of artifacts that live afterwards.
    pub(crate) fn same_bytes(&mut self, came: bool) -> usize {
        self.put_as(0, "X", "same", 0);
        (0..9).for_each(|_| self.push(0));
        self.put_as(1, "X", "same", if came { i64::MAX } else { 0 });
        (0..2).for_each(|_| self.look(1));
        self.remove(0);
        (0..9).for_each(|_| self.push(0));
        (0..2).for_each(|_| self.look(1));
        self.meet();
        self.hosts[0].state().artifacts.len()
    }

    fn put_at(&mut self, host: usize, path: &str) {
        let digest = format!("d{}", self.fresh());
        self.put_as(host, path, &digest, 0);
    }

    pub(super) fn put_as(&mut self, host: usize, path: &str, digest: &str, born: i64) {
        let (token, inode) = (self.fresh(), self.fresh());
        let version = FileVersion { size: 1, modified: token as i64 };
        let key = FileKey::Local { inode, born };
        let found = FoundFile { key, version, digest: Some(digest.into()) };
        self.write(host, path, &found, token);
    }
}
