//! Tests.

use std::io::Read as _;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

use ctxfs_sync::bucket::Deadline;
use ctxfs_sync::remote::ProcessObjects;

use super::*;

/// A connection to a thread that plays the role of the process.
struct Threaded(UnixStream);

impl Line for Threaded {
    fn connect(&self) -> Result<UnixStream, String> {
        let (ours, theirs) = UnixStream::pair().unwrap();
        channel::send(&self.0, &(), Some(theirs.as_fd())).map_err(|error| error.to_string())?;
        Ok(ours)
    }

    fn heard(&self) {}

    fn missed(&self, _: Instant) {}

    fn trouble(&self) -> Option<String> {
        None
    }
}

fn soon() -> Deadline {
    Deadline::after(Duration::from_mins(1))
}

#[test]
fn it_answers_many_at_a_time_until_the_end() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let url = BucketUrl::parse("memory:").unwrap();
    let bucket = Bucket::open(&url, []);
    let serving = thread::spawn(move || serve(&theirs, bucket, &SharedDirectory::of(&url), false));
    let objects = ProcessObjects::new(Arc::new(Threaded(ours)));
    thread::scope(|scope| {
        for number in 0..200 {
            let objects = &objects;
            scope.spawn(move || {
                let (key, bytes) = (format!("a/{number}"), Bytes::from(number.to_string()));
                objects.create(&key, &bytes, soon()).unwrap();
                assert_eq!(objects.get(&key, None, soon()).unwrap(), bytes);
            });
        }
    });
    drop(objects);
    serving.join().unwrap().unwrap();
}

#[test]
fn it_ends_when_its_directory_is_another_one() {
    let shared = tempfile::tempdir().unwrap();
    let path = shared.path().join("bucket");
    std::fs::create_dir(&path).unwrap();
    let url = BucketUrl::parse(&format!("file://{}", path.display())).unwrap();
    let bucket = Bucket::open(&url, []);
    let directory = SharedDirectory::of(&url);
    let (ours, theirs) = UnixStream::pair().unwrap();
    let serving = thread::spawn(move || serve(&theirs, bucket, &directory, false));
    let objects = ProcessObjects::new(Arc::new(Threaded(ours)));
    objects.create("x", &Bytes::from_static(b"text"), soon()).unwrap();
    std::fs::rename(&path, shared.path().join("old")).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert!(objects.get("x", None, soon()).unwrap_err().may_pass());
    serving.join().unwrap().unwrap();
}

/// Called by a test in place of starting the process.
type Start = Box<dyn Fn(UnixStream) -> io::Result<()> + Send + Sync>;

fn line(start: Start) -> (SupervisedProcess, Arc<AtomicUsize>) {
    let starts = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&starts);
    let starter: Starter = Arc::new(move |socket: OwnedFd| {
        count.fetch_add(1, Ordering::SeqCst);
        start(UnixStream::from(socket))
    });
    (SupervisedProcess::new("ctxfs-remote", starter), starts)
}

/// Waits until `so` returns true.
fn wait_for(so: impl Fn() -> bool) {
    let late = Instant::now() + Duration::from_mins(1);
    while !so() {
        assert!(Instant::now() < late, "it does not come");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn nothing_is_started_before_a_request() {
    let (line, starts) = line(Box::new(|socket| {
        thread::spawn(move || {
            while let Ok(Some(((), Some(request)))) = channel::receive(&socket) {
                io::Write::write_all(&mut UnixStream::from(request), b"answer").unwrap();
            }
        });
        Ok(())
    }));
    assert_eq!(line.trouble(), None);
    assert_eq!(starts.load(Ordering::SeqCst), 0);
    for _ in 0..10 {
        let mut answer = String::new();
        line.connect().unwrap().read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "answer");
    }
    assert_eq!(starts.load(Ordering::SeqCst), 1);
}

#[test]
fn a_process_that_ends_is_started_again_after_a_pause() {
    let (line, starts) = line(Box::new(|socket| {
        channel::receive::<()>(&socket)?;
        Ok(())
    }));
    let mut socket = line.connect().unwrap();
    assert_eq!(socket.read(&mut [0]).unwrap(), 0, "it ended");
    wait_for(|| line.trouble().is_some());
    let told = line.connect().unwrap_err();
    assert!(told.contains("is away: it ended (once so far)"), "{told}");
    assert_eq!(starts.load(Ordering::SeqCst), 1);
    wait_for(|| line.connect().is_ok());
    wait_for(|| line.trouble().is_some());
    assert!(line.connect().unwrap_err().contains("2 times so far"));
    assert_eq!(starts.load(Ordering::SeqCst), 2);
    assert_eq!(line.state.lock().pause, 2 * FIRST_PAUSE);
}

#[test]
fn the_pauses_grow_to_a_minute_and_begin_anew() {
    let (line, _starts) = line(Box::new(|_| Ok(())));
    let control = Arc::new(UnixStream::pair().unwrap().0);
    let mut state = line.state.lock();
    let mut pauses = Vec::new();
    for _ in 0..8 {
        state.begin(&control);
        state.disconnect("it ended");
        pauses.push(state.pause.as_secs());
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
    state.begin(&control);
    state.started = Instant::now().checked_sub(LONGEST_PAUSE).unwrap();
    state.disconnect("it ended");
    assert_eq!((state.pause, state.ended), (FIRST_PAUSE, 9));
}

#[test]
fn a_process_that_cannot_be_started_is_told() {
    let (line, _starts) = line(Box::new(|_| Err(io::Error::other("no watchdog"))));
    if let Ok(mut socket) = line.connect() {
        assert_eq!(socket.read(&mut [0]).unwrap(), 0, "nobody has the other end");
    }
    let is_told = |told: String| told.contains("it cannot be started: no watchdog");
    wait_for(|| line.trouble().is_some_and(is_told));
}

#[test]
fn a_process_that_answers_nothing_counts_as_lost() {
    let (line, _starts) = line(Box::new(|socket| {
        std::mem::forget(socket);
        Ok(())
    }));
    let _waits = line.connect().unwrap();
    let before = |time: Duration| Instant::now().checked_sub(time).unwrap();
    line.missed(before(Duration::from_mins(1)));
    assert_eq!(line.trouble(), None, "it was started after that request");
    line.state.lock().started = before(Duration::from_mins(2));
    line.state.lock().heard = before(Duration::from_mins(1));
    line.heard();
    line.missed(before(Duration::from_mins(1)));
    assert_eq!(line.trouble(), None, "it answered after that request");
    line.state.lock().heard = before(Duration::from_mins(1));
    line.missed(before(SILENT / 2));
    line.missed(before(SILENT / 4));
    assert_eq!(line.trouble(), None, "there was not much time");
    line.missed(before(SILENT));
    assert!(line.trouble().unwrap().contains("it did not answer"));
}

#[test]
fn the_silence_of_short_requests_adds_up() {
    let (line, _starts) = line(Box::new(|socket| {
        std::mem::forget(socket);
        Ok(())
    }));
    let _waits = line.connect().unwrap();
    let before = |time: Duration| Instant::now().checked_sub(time).unwrap();
    let since = before(SILENT.saturating_sub(Duration::from_millis(200)));
    line.state.lock().started = since;
    line.state.lock().heard = since;
    line.missed(since);
    assert_eq!(line.trouble(), None);
    thread::sleep(Duration::from_millis(200));
    line.missed(Instant::now());
    assert!(line.trouble().is_some());
}

#[test]
fn nobody_waits_for_a_process_that_takes_nothing() {
    let (line, _starts) = line(Box::new(|socket| {
        std::mem::forget(socket);
        Ok(())
    }));
    let mut held = Vec::new();
    let told = loop {
        match line.connect() {
            Ok(socket) => held.push(socket),
            Err(told) => break told,
        }
    };
    assert!(held.len() > 50, "{}", held.len());
    assert!(told.contains("too many requests") || told.contains("out of reach"), "{told}");
}
