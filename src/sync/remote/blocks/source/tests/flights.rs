//! Concurrent readers share one fetch.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

use crate::remote::blocks::source::*;

fn in_a_minute() -> Instant {
    Instant::now() + Duration::from_mins(1)
}

fn flight<K: Hash + Eq + Copy>(flights: &SingleFlight<K>, key: K) -> Arc<Flight> {
    let flight = flights.begin([key]).err().unwrap();
    assert!(Arc::ptr_eq(&flight, &flights.under_way(key).unwrap()));
    flight
}

#[test]
fn many_wait_for_one_fetch() {
    let (flights, waited) = (SingleFlight::default(), AtomicUsize::new(0));
    let duty = flights.begin(7..9).ok().unwrap();
    thread::scope(|scope| {
        for key in [7, 8, 7] {
            let (flight, waited) = (flight(&flights, key), &waited);
            scope.spawn(move || {
                flight.wait(in_a_minute()).unwrap();
                waited.fetch_add(1, SeqCst);
            });
        }
        assert_eq!(waited.load(SeqCst), 0);
        assert_eq!(duty.end(Ok("bytes")).unwrap(), "bytes");
    });
    assert_eq!(waited.load(SeqCst), 3);
    assert!(flights.0.lock().is_empty());
}

#[test]
fn a_fetch_ends_before_one_that_is_under_way() {
    let flights = SingleFlight::default();
    let later = flights.begin(4..6).ok().unwrap();
    assert_eq!(flights.begin(1..9).ok().unwrap().keys.len(), 3);
    drop(later);
    assert_eq!(flights.begin(1..9).ok().unwrap().keys.len(), 8);
}

#[test]
fn who_waits_gives_up_at_his_deadline() {
    let flights = SingleFlight::default();
    let duty = flights.begin([1]).ok().unwrap();
    let flight = flight(&flights, 1);
    let waited = flight.wait(Instant::now());
    assert_eq!(waited.unwrap_err().kind(), io::ErrorKind::TimedOut);
    drop(duty);
    assert_eq!(flight.wait(in_a_minute()).unwrap_err().to_string(), "a fetch was cut off");
}

#[test]
fn all_see_the_error() {
    let flights = SingleFlight::default();
    for error in [libc::ESTALE, libc::ENOSPC].map(io::Error::from_raw_os_error) {
        let (number, duty) = (error.raw_os_error(), flights.begin([1]).ok().unwrap());
        let flight = flight(&flights, 1);
        assert_eq!(duty.end::<()>(Err(error)).unwrap_err().raw_os_error(), number);
        assert_eq!(flight.wait(in_a_minute()).unwrap_err().raw_os_error(), number);
    }
    let (duty, other) = (flights.begin([1]).ok().unwrap(), io::Error::other("no network"));
    assert_eq!(duty.end::<()>(Err(other)).unwrap_err().to_string(), "no network");
}
