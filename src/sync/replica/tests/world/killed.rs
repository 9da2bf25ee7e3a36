//! Hosts that are killed after they have shown content and before they have recorded it, and hosts
//! that write the same bytes as others.

use crate::replica::{FileKey, FileVersion, FoundFile};

use super::World;

impl World {
    /// The first host publishes two files. The second host is killed after it has shown one of them
    /// and before it has recorded that. If `heals` is true, it then continues and records it.
    /// Finally its user overwrites this file. Returns the number of living artifacts.
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

    /// The first host publishes a file. The second host has a file with the same name and bytes. If
    /// `came` is true, the second host downloaded the file and was killed before it recorded that.
    /// Otherwise its user wrote the file. Then the first host removes its file. Returns the number
    /// of living artifacts.
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
