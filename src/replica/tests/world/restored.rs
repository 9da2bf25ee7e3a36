//! Hosts that are restored after others merged what they had sent.

use crate::replica::WriterId;

use super::DAY;
use super::HOSTS;
use super::World;

impl World {
    /// The first host publishes, and others merge that and let it go. Then it is what it was before,
    /// and publishes something else.
    pub(in crate::replica::tests) fn restored_before_it_wrote(&mut self) {
        self.act(0, "image");
        self.publish_new(0);
        self.merge_away(1);
        self.restore(0);
        self.publish_new(0);
        self.meet();
    }

    /// The same, but it was about to send what it then sent: it hears that it has sent that.
    pub(in crate::replica::tests) fn restored_before_it_sent(&mut self) {
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

    /// Merges what there is, and deletes what is covered.
    fn merge_away(&mut self, host: usize) {
        (1..HOSTS as usize).for_each(|host| self.publish_new(host));
        self.merge(host);
        self.push_all(host);
        self.now += 2 * DAY;
        self.sweep();
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
