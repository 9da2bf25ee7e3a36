//! What is written while another process holds the room of a conversation, or the disk does not
//! flush what a crash has torn.

use std::fs;
use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;

use super::waiting::{MESSAGE, Waiting, Work, lock, serves_others};
use crate::support::{Fault, FaultyDisk, Mode, TestMount, TestStore, eventually};

/// A disk that is mended when this is dropped: a server that waits for it would not end.
struct Mended<'a>(&'a FaultyDisk);

impl Drop for Mended<'_> {
    fn drop(&mut self) {
        self.0.mend();
    }
}

#[test]
fn a_locked_room_below_the_quota_holds_up_its_own_conversation_alone() {
    const CLIENTS: usize = 8;
    // More than a process holds of the shared room.
    const BYTES: usize = 1 << 20;
    for mode in Mode::ALL {
        let mount = TestMount::of(&Arc::new(TestStore::new()), mode, &["--quota", "1GiB"]);
        let dir = mount.tool("c7");
        fs::write(dir.join("first.txt"), b"first\n").unwrap();
        let held = lock(&mount.store().path().join("context/c7/.ctxfs-room"));
        let write = |number: usize| -> Work {
            let path = dir.join(format!("{number}.txt"));
            Box::new(move || File::create(path).unwrap().write_all(&vec![b'x'; BYTES]).unwrap())
        };
        let waiting = Waiting::start((0..CLIENTS).map(write).collect());
        serves_others(&mount);
        waiting.assert_waiting();
        assert_eq!(fs::read(dir.join("first.txt")).unwrap(), b"first\n");
        drop(held);
        waiting.join();
        for number in 0..CLIENTS {
            let path = dir.join(format!("{number}.txt"));
            assert_eq!(path.metadata().unwrap().len(), BYTES as u64);
        }
    }
}

/// Whoever looks at a log that was torn has it repaired, which flushes what it sets aside.
#[test]
fn torn_message_logs_hold_up_nobody_else() {
    const CLIENTS: usize = 6;
    const TORN: &[u8] = b"{\"role\":\"to";
    let disk = FaultyDisk::new();
    let mount = TestMount::of(disk.store(), Mode::Cached, &[]);
    let log = |number: usize| format!("c{number}/history/messages.jsonl");
    for number in 0..CLIENTS {
        mount.tool(&format!("c{number}"));
        let stored = mount.store().path().join("context").join(log(number));
        fs::write(stored, [MESSAGE, TORN].concat()).unwrap();
    }
    let mended = Mended(&disk);
    disk.fail(Fault::hang().of("messages.torn"));
    let look = |number: usize| -> Work {
        let log = mount.path().join(log(number));
        Box::new(move || assert_eq!(fs::read(log).unwrap(), MESSAGE))
    };
    let waiting = Waiting::start((0..CLIENTS).map(look).collect());
    eventually("the disk is asked", || disk.struck() == CLIENTS);
    serves_others(&mount);
    waiting.assert_waiting();
    drop(mended);
    waiting.join();
    let torn = mount.path().join("c0/history/messages.torn");
    assert_eq!(fs::read(torn).unwrap(), [TORN, b"\n"].concat());
}
