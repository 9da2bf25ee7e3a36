use std::os::unix::fs::FileExt as _;
use std::{fs, thread};

use tempfile::TempDir;

use super::*;
use crate::patience::{promptly, slowly};
use crate::quota::fixture::of_new_conversation;
use crate::{Engine, EngineError, EngineOptions, Freed};
use ctxfs_store::Store;

/// Several engines over one store. Each of them stands for a process.
struct Processes {
    dir: TempDir,
    engines: Vec<Arc<Engine>>,
    conversation: Arc<Conversation>,
}

impl Processes {
    /// Creates a conversation that has `room` bytes left below its quota.
    fn new(number: usize, room: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let id = Component::new("c").unwrap();
        let store = Store::open(dir.path()).unwrap();
        let conversation = store.create_conversation(&id).unwrap();
        let quota = of_new_conversation(room);
        let options = EngineOptions { quota: Some(quota), ..EngineOptions::default() };
        let engine = || Engine::new(Store::open(dir.path()).unwrap(), options.clone());
        Self { engines: (0..number).map(|_| engine()).collect(), conversation, dir }
    }

    fn request(&self, growth: u64, partly: bool) -> RoomRequest<'_> {
        let conversation = Some(&*self.conversation);
        RoomRequest { id: self.conversation.id(), conversation, growth, partly }
    }

    /// Requests room as if something had just been removed.
    fn reserve(&self, process: usize, growth: u64) -> u64 {
        let engine = &self.engines[process];
        engine.freed(self.conversation.id(), Freed::default());
        crate::space::reserve_part(engine, &self.request(growth, false)).unwrap().bytes()
    }
}

fn request(id: &Component, growth: u64) -> RoomRequest<'_> {
    RoomRequest { id, conversation: None, growth, partly: false }
}

#[test]
fn an_output_pays_for_one_size_at_most_however_many_files_there_are() {
    const OUTPUTS: u64 = 200_000;
    let processes = Processes::new(1, 0);
    let id = processes.conversation.id();
    for entries in [0, 1000, 100_000] {
        let (quota, mut asked) = (Quota::default(), 0);
        for _ in 0..OUTPUTS {
            let measure = || {
                asked += entries;
                Ok(Measured { free: 1 << 40, between: between(entries), artifacts: 0 })
            };
            let shared = || Ok(SharedRoom::lock(&processes.conversation, true)?);
            assert_eq!(quota.grant(&request(id, 4096), 1, shared, measure).unwrap(), 4096);
        }
        SharedRoom::lock(&processes.conversation, true).unwrap().unwrap().set(1, 0).unwrap();
        assert!(asked <= OUTPUTS + entries, "{asked} sizes for {OUTPUTS} outputs beside {entries}");
    }
}

#[test]
fn a_refusal_holds_until_something_is_removed() {
    let (quotas, id) = (Quotas::default(), Component::new("c").unwrap());
    let quota = quotas.of(&id);
    let grant = |growth, room| {
        let mut measured = false;
        let measure = || {
            measured = true;
            Ok(Measured { free: room, between: between(0), artifacts: 0 })
        };
        (quota.grant(&request(&id, growth), 1, || Ok(None), measure).unwrap(), measured)
    };
    assert_eq!(grant(100, 50), (0, true));
    let until = now() + Duration::from_hours(1);
    let refuse = || *quota.refusal.lock() = Some(QuotaRefusal { free: 50, until });
    refuse();
    assert_eq!(grant(100, 1000), (0, false));
    assert_eq!(grant(50, 50), (50, true));
    quotas.freed(&id);
    assert_eq!(grant(100, 1000), (100, true));
    refuse();
    let file = Arc::new(tempfile::tempfile().unwrap());
    quotas.unlinked(&id, vec![Arc::downgrade(&file)]);
    assert_eq!(grant(100, 1000), (0, false), "it is still open");
    drop(file);
    assert_eq!(grant(100, 1000), (100, true));
}

#[test]
fn what_is_granted_is_granted_once() {
    const ROOM: u64 = 1 << 20;
    let processes = Processes::new(1, ROOM);
    let engine = &processes.engines[0];
    let take = || crate::space::reserve_part(engine, &processes.request(4096, false)).unwrap();
    // Nothing is written until all threads have taken as much room as they can get.
    let taken: Vec<Reservation> = thread::scope(|scope| {
        let all = || std::iter::repeat_with(take).take_while(|room| room.bytes() > 0).collect();
        let takers: Vec<_> = (0..8).map(|_| scope.spawn(all)).collect();
        takers.into_iter().flat_map(|taker| -> Vec<_> { taker.join().unwrap() }).collect()
    });
    let total: u64 = taken.iter().map(Reservation::bytes).sum();
    assert!(total <= ROOM + 4096 && total > ROOM - 8192, "{total}");
    drop(taken);
    engine.freed(processes.conversation.id(), Freed::default());
    assert_eq!(take().bytes(), 4096, "nothing was written");
}

#[test]
fn what_is_written_counts_for_every_process() {
    const ROOM: u64 = 4 << 20;
    let processes = Processes::new(3, ROOM);
    let path = processes.dir.path().join("context/c/history/archive/x");
    let file = fs::File::create_new(path).unwrap();
    let (mut written, mut refused) = (0, 0);
    while refused < 3 {
        refused = 0;
        for process in 0..3 {
            let engine = &processes.engines[process];
            let room =
                crate::space::reserve_part(engine, &processes.request(1 << 16, false)).unwrap();
            if room.bytes() == 0 {
                refused += 1;
                continue;
            }
            file.write_all_at(&vec![b'x'; 1 << 16], written).unwrap();
            written += 1 << 16;
        }
    }
    assert!((ROOM - (1 << 17)..=ROOM + 4096).contains(&written), "{written}");
}

#[test]
fn a_directory_that_cannot_be_read_any_more_counts_as_it_did() {
    let processes = Processes::new(1, 1 << 20);
    let dir = processes.dir.path().join("context/c/catalog");
    fs::write(dir.join("x"), vec![b'x'; 900_000]).unwrap();
    assert_eq!(processes.reserve(0, 500_000), 0);
    // Root can read a directory without permissions, but not a directory that is nested too deep.
    let mut deep = dir.join("deep");
    fs::create_dir(&deep).unwrap();
    fs::rename(dir.join("x"), deep.join("x")).unwrap();
    for number in 0..300 {
        let above = dir.join(number.to_string());
        fs::create_dir(&above).unwrap();
        fs::rename(&deep, above.join("d")).unwrap();
        deep = dir.join("deep");
        fs::rename(&above, &deep).unwrap();
    }
    assert!(!Usage::of(&processes.conversation).unwrap().is_whole);
    assert_eq!(processes.reserve(0, 500_000), 0);
    fs::remove_dir_all(deep).unwrap();
    assert_eq!(processes.reserve(0, 500_000), 500_000);
}

#[test]
fn what_is_unlinked_and_open_counts() {
    let processes = Processes::new(1, 1 << 20);
    let path = processes.dir.path().join("context/c/x");
    let file = Arc::new(fs::File::create_new(&path).unwrap());
    file.write_all_at(&vec![b'x'; 900_000], 0).unwrap();
    assert_eq!(processes.reserve(0, 500_000), 0);
    fs::remove_file(path).unwrap();
    let engine = &processes.engines[0];
    let open = vec![Arc::downgrade(&file)];
    engine.freed(processes.conversation.id(), Freed { open, ..Freed::default() });
    assert_eq!(processes.reserve(0, 500_000), 0, "it is still open");
    drop(file);
    assert_eq!(processes.reserve(0, 500_000), 500_000);
}

/// A thread that serves requests waits neither for another process's lock nor for another thread's
/// measurement. It measures only if that is quick.
#[test]
fn nobody_waits_on_a_thread_that_others_need() {
    let processes = Processes::new(1, 1 << 20);
    let id = processes.conversation.id();
    let quota = Quota::default();
    let found = || Ok(Measured { free: 1 << 20, between: BETWEEN, artifacts: 0 });
    let shared = || Ok(SharedRoom::lock(&processes.conversation, may_wait())?);
    let grant = |growth| quota.grant(&request(id, growth), 1, shared, found);
    let errno = |growth| promptly(now(), || grant(growth)).unwrap_err().raw_os_error();
    assert_eq!(errno(1), EngineError::Slow.raw_os_error(), "nobody knows how long it takes");
    assert_eq!(slowly(|| grant(1)).unwrap(), 1);
    let held = SharedRoom::lock(&processes.conversation, true).unwrap();
    assert_eq!(promptly(now(), || grant(1)).unwrap(), 1, "this is held here");
    assert_eq!(errno(1 << 19), libc::EAGAIN);
    let refused = slowly(|| grant(1 << 19)).unwrap_err();
    assert_eq!(refused.raw_os_error(), libc::EAGAIN, "there are few threads for slow work");
    drop(held);
    let measures = quota.turn.lock();
    assert_eq!(errno(1 << 19), libc::EAGAIN);
    drop(measures);
    assert_eq!(promptly(now(), || grant(1 << 19)).unwrap(), 1 << 19);
}
