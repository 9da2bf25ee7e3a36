
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

type Outcome = Result<(), Arc<io::Error>>;

///+ Fetches in flight, by key. Many readers of one key share one fetch. Clones share the state.
#[derive(Debug)]
pub(super) struct Flights<K>(Arc<Mutex<HashMap<K, Arc<Flight>>>>);

#[derive(Debug, Default)]
pub(super) struct Flight {
    outcome: Mutex<Option<Outcome>>,
    landed: Condvar,
}

///+ Obligation to run a fetch. Ends the fetch also when it is dropped by a panic.
pub(super) struct Duty<K: Hash + Eq + Copy> {
    flights: Flights<K>,
    keys: Vec<K>,
    flight: Arc<Flight>,
}

impl<K> Clone for Flights<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K> Default for Flights<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: Hash + Eq + Copy> Flights<K> {
    ///+ Starts a fetch of `keys`, up to the first one that another thread is fetching. If that is
    ///+ the first key, returns the other fetch to wait for.
    pub(super) fn begin(&self, keys: impl IntoIterator<Item = K>) -> Result<Duty<K>, Arc<Flight>> {
        let mut flights = self.0.lock();
        let (mut mine, flight) = (Vec::new(), Arc::<Flight>::default());
        for key in keys {
            match flights.entry(key) {
                Entry::Occupied(other) if mine.is_empty() => return Err(Arc::clone(other.get())),
                Entry::Occupied(_) => break,
                Entry::Vacant(free) => drop(free.insert(Arc::clone(&flight))),
            }
            mine.push(key);
        }
        Ok(Duty { flights: self.clone(), keys: mine, flight })
    }

    pub(super) fn under_way(&self, key: K) -> Option<Arc<Flight>> {
        self.0.lock().get(&key).cloned()
    }
}

impl Flight {
    ///+ Waits for the end of the fetch, at most until `deadline`.
    pub(super) fn wait(&self, deadline: Instant) -> io::Result<()> {
        let mut outcome = self.outcome.lock();
        while outcome.is_none() {
            if self.landed.wait_until(&mut outcome, deadline).timed_out() && outcome.is_none() {
                let why = "the bucket did not answer in time; try again";
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
        }
        match outcome.as_ref() {
            Some(Err(error)) => Err(copy(error)),
            _ => Ok(()),
        }
    }
}

impl<K: Hash + Eq + Copy> Duty<K> {
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    ///+ Ends the fetch with an outcome for all who wait.
    pub(super) fn end<T>(self, outcome: io::Result<T>) -> io::Result<T> {
        let (told, outcome) = match outcome {
            Ok(value) => (Ok(()), Ok(value)),
            Err(error) => {
                let error = Arc::new(error);
                (Err(Arc::clone(&error)), Err(error))
            }
        };
        *self.flight.outcome.lock() = Some(told);
        outcome.map_err(|error| copy(&error))
    }
}

impl<K: Hash + Eq + Copy> Drop for Duty<K> {
    fn drop(&mut self) {
        let mut flights = self.flights.0.lock();
        for key in &self.keys {
            flights.remove(key);
        }
        drop(flights);
        let mut outcome = self.flight.outcome.lock();
        let stopped = || Err(Arc::new(io::Error::other("a fetch was cut off")));
        outcome.get_or_insert_with(stopped);
        self.flight.landed.notify_all();
    }
}

///+ `io::Error` is not `Clone`. The errno survives: ESTALE stays ESTALE.
fn copy(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(number) => io::Error::from_raw_os_error(number),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::SeqCst;
    use std::thread;
    use std::time::Duration;

    use super::*;

    fn in_a_minute() -> Instant {
        Instant::now() + Duration::from_mins(1)
    }

    fn flight<K: Hash + Eq + Copy>(flights: &Flights<K>, key: K) -> Arc<Flight> {
        let flight = flights.begin([key]).err().unwrap();
        assert!(Arc::ptr_eq(&flight, &flights.under_way(key).unwrap()));
        flight
    }

    #[test]
    fn many_wait_for_one_fetch() {
        let (flights, waited) = (Flights::default(), AtomicUsize::new(0));
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
        let flights = Flights::default();
        let later = flights.begin(4..6).ok().unwrap();
        assert_eq!(flights.begin(1..9).ok().unwrap().len(), 3);
        drop(later);
        assert_eq!(flights.begin(1..9).ok().unwrap().len(), 8);
    }

    #[test]
    fn who_waits_gives_up_at_his_deadline() {
        let flights = Flights::default();
        let duty = flights.begin([1]).ok().unwrap();
        let flight = flight(&flights, 1);
        let waited = flight.wait(Instant::now());
        assert_eq!(waited.unwrap_err().kind(), io::ErrorKind::TimedOut);
        drop(duty);
        assert_eq!(flight.wait(in_a_minute()).unwrap_err().to_string(), "a fetch was cut off");
    }

    #[test]
    fn all_see_the_error() {
        let flights = Flights::default();
        for error in [libc::ESTALE, libc::ENOSPC].map(io::Error::from_raw_os_error) {
            let (number, duty) = (error.raw_os_error(), flights.begin([1]).ok().unwrap());
            let flight = flight(&flights, 1);
            assert_eq!(duty.end::<()>(Err(error)).unwrap_err().raw_os_error(), number);
            assert_eq!(flight.wait(in_a_minute()).unwrap_err().raw_os_error(), number);
        }
        let (duty, other) = (flights.begin([1]).ok().unwrap(), io::Error::other("no network"));
        assert_eq!(duty.end::<()>(Err(other)).unwrap_err().to_string(), "no network");
    }
}
