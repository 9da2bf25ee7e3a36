//! Hosts that are restored, either after other hosts merged the segments that they had sent, or
//! from copies of their files.

use crate::replica::{FileKey, WriterId};

use super::{DAY, HOSTS, World};

impl World {
    /// The first host publishes a segment, which another host merges and deletes. Then the first
    /// host is restored to its earlier state and publishes a different segment.
    pub(crate) fn restored_before_it_wrote(&mut self) {
        self.act(0, "image");
        self.publish_new(0);
        self.merge_away(1);
        self.restore(0);
        self.publish_new(0);
        self.meet();
    }

    /// Does the same as the previous scenario, but the restored host was about to send the segment
    /// that it then sent. It learns that the segment was sent.
    pub(crate) fn restored_before_it_sent(&mut self) {
        self.put(0);
        self.complete_all(0);
        while self.hosts[0].disk.intent.is_none() {
            self.push(0);
        }
        self.act(0, "image");
        self.push_all(0);
        (1..HOSTS as usize).for_each(|host| self.merge_away(host));
        self.restore(0);
        self.push_all(0);
        assert_eq!(self.hosts[0].disk.writer, WriterId(1), "it was sent by this writer");
        self.meet();
    }

    pub(super) fn crash(&mut self, host: usize) {
        self.hosts[host].uploads.clear();
        self.show(host);
    }

    pub(super) fn restore(&mut self, host: usize) {
        let Some(image) = self.hosts[host].image.clone() else { return };
        self.hosts[host].disk = image;
        self.hosts[host].uploads.clear();
        if self.copies {
            self.copy_files(host);
        }
        let puts = self.hosts[host].changes().puts.into_values();
        self.checker.may_come_back(puts.map(|put| (put.key, put.version.modified)));
    }

    /// Makes hosts be restored from copies of their files instead of an image of the disk.
    pub(crate) fn copying(self) -> Self {
        Self { copies: true, ..self }
    }

    /// Replaces each file of a host by a different file with the same bytes and time.
    pub(super) fn copy_files(&mut self, host: usize) {
        let paths: Vec<_> = self.hosts[host].disk.files.keys().cloned().collect();
        for path in paths {
            let inode = self.fresh();
            let files = &mut self.hosts[host].disk.files;
            let found = files.get_mut(&path).expect("its path is that of a file");
            if let FileKey::Local { .. } = found.key {
                let before = found.clone();
                found.key = FileKey::Local { inode, born: found.version.modified + 1 };
                self.checker.copied(&before, found);
            }
        }
        self.hosts[host].recognize_files();
    }

    /// The first host publishes a file, and the second one removes it. Then the first host is
    /// restored from a copy. If `writes` is true, its user then writes the same bytes again.
    /// Returns the number of living artifacts.
    pub(crate) fn restored_after_a_removal(&mut self, writes: bool) -> usize {
        self.put_as(0, "X", "same", 0);
        self.push_all(0);
        self.act(0, "image");
        self.look(1);
        self.hosts[1].show(usize::MAX);
        self.remove(1);
        self.push_all(1);
        self.look(0);
        self.hosts[0].show(usize::MAX);
        self.restore(0);
        if writes {
            self.put_as(0, "X", "same", 0);
        }
        self.meet();
        self.hosts[0].state().artifacts.len()
    }

    /// Merges the segments in the bucket, and deletes the covered ones.
    fn merge_away(&mut self, host: usize) {
        (1..HOSTS as usize).for_each(|host| self.publish_new(host));
        self.merge(host);
        self.push_all(host);
        self.now += 2 * DAY;
        self.sweep(host);
    }

    fn publish_new(&mut self, host: usize) {
        self.put(host);
        self.complete_all(host);
        self.push_all(host);
    }

    fn push_all(&mut self, host: usize) {
        (0..9).for_each(|_| self.push(host));
    }
}
