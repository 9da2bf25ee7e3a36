//! End of a schedule. All hosts publish and look until they agree.

use std::collections::BTreeSet;

use super::World;

impl World {
    /// Lets all hosts publish and look until nothing changes.
    pub(super) fn meet(&mut self) {
        self.lost.clear();
        for round in 0..200 {
            for host in 0..self.hosts.len() {
                self.hosts[host].is_up = true;
                self.complete_all(host);
                self.push(host);
                if round % 7 == 6 {
                    self.look(host);
                    self.hosts[host].show(usize::MAX);
                }
            }
            if round % 7 == 6 && self.is_quiet() {
                break;
            }
        }
        (0..2).for_each(|_| self.collect(0));
        self.sweep(0);
        for host in 0..self.hosts.len() {
            self.look(host);
            self.hosts[host].show(usize::MAX);
            self.read(host);
        }
        self.compare();
    }

    /// Returns true if each host has seen all published segments and has nothing to do.
    fn is_quiet(&self) -> bool {
        self.hosts.iter().all(|host| host.disk.seen.keys().eq(self.log.keys()) && host.is_idle())
    }

    fn compare(&self) {
        if self.talks {
            let log = self.log.values().map(|(at, piece)| format!("{at}: {piece:?}"));
            println!("{}", log.collect::<Vec<_>>().join("\n"));
        }
        for host in &self.hosts {
            let changes = host.changes();
            assert!(changes.is_empty() && host.disk.intent.is_none(), "left: {changes:?}");
            assert_eq!(host.plan().steps, [], "nothing more to do");
            assert_eq!(host.sight(), self.hosts[0].sight(), "hosts differ");
            assert_eq!(host.told(), self.hosts[0].told(), "hosts tell otherwise");
            self.checker.check(host);
        }
        let told: BTreeSet<_> = self.hosts[0].told().into_iter().collect();
        assert!(self.checker.messages.is_subset(&told), "a message is gone");
    }
}
