//! Tests.

use std::io::Read as _;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// Called by a test in place of starting the process.
type Start = Box<dyn Fn(UnixStream) -> io::Result<()> + Send + Sync>;

fn line(start: Start) -> (SupervisedProcess, Arc<AtomicUsize>) {
    let starts = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&starts);
    let starter: Starter = Box::new(move |socket: OwnedFd| {
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
    assert_eq!(line.0.state.lock().pause, 2 * FIRST_PAUSE);
}

#[test]
fn the_pauses_grow_to_a_minute_and_begin_anew() {
    let (line, _starts) = line(Box::new(|_| Ok(())));
    let control = Arc::new(UnixStream::pair().unwrap().0);
    let mut state = line.0.state.lock();
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
    line.0.state.lock().started = before(Duration::from_mins(2));
    line.0.state.lock().heard = before(Duration::from_mins(1));
    line.heard();
    line.missed(before(Duration::from_mins(1)));
    assert_eq!(line.trouble(), None, "it answered after that request");
    line.0.state.lock().heard = before(Duration::from_mins(1));
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
    line.0.state.lock().started = since;
    line.0.state.lock().heard = since;
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
