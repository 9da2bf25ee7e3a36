//! Fetches that are under way: many readers of one thing wait for one fetch.

use std::collections::HashMap;
use std::hash::Hash;
use std::io;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Condvar;
use parking_lot::Mutex;

/// What a fetch gave, for all who wait for it.
type Outcome = Result<Arc<Vec<u8>>, Arc<io::Error>>;

/// The fetches that are under way, each by what it fetches.
#[derive(Debug)]
pub(in crate::remote) struct Flights<K>(Mutex<HashMap<K, Arc<Flight>>>);

/// One of them.
#[derive(Debug, Default)]
struct Flight {
    outcome: Mutex<Option<Outcome>>,
    landed: Condvar,
}

/// The duty to end a fetch, also when it panics.
struct Duty<'a, K: Hash + Eq + Copy> {
    flights: &'a Flights<K>,
    key: K,
    flight: Arc<Flight>,
}

impl<K> Default for Flights<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Hash + Eq + Copy> Flights<K> {
    /// Returns what `fetch` gives, or what the fetch of another thread gives that began before and
    /// has not ended. Waits for that one until `deadline` at most.
    pub(in crate::remote) fn once(
        &self,
        key: K,
        deadline: Instant,
        fetch: impl FnOnce() -> io::Result<Arc<Vec<u8>>>,
    ) -> io::Result<Arc<Vec<u8>>> {
        let (flight, is_mine) = self.join(key);
        if !is_mine {
            return flight.wait(deadline);
        }
        let duty = Duty { flights: self, key, flight };
        let outcome = fetch().map_err(Arc::new);
        duty.end(outcome.clone());
        shared(outcome)
    }

    /// Returns the flight of `key`, and true if it begins now.
    fn join(&self, key: K) -> (Arc<Flight>, bool) {
        let mut flights = self.0.lock();
        if let Some(flight) = flights.get(&key) {
            return (Arc::clone(flight), false);
        }
        let flight = Arc::<Flight>::default();
        flights.insert(key, Arc::clone(&flight));
        (flight, true)
    }
}

impl Flight {
    fn wait(&self, deadline: Instant) -> io::Result<Arc<Vec<u8>>> {
        let mut outcome = self.outcome.lock();
        while outcome.is_none() {
            if self.landed.wait_until(&mut outcome, deadline).timed_out() && outcome.is_none() {
                let why = "the bucket did not answer in time; try again";
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
        }
        outcome.clone().map_or_else(|| Err(io::ErrorKind::Other.into()), shared)
    }
}

impl<K: Hash + Eq + Copy> Duty<'_, K> {
    fn end(self, outcome: Outcome) {
        *self.flight.outcome.lock() = Some(outcome);
    }
}

impl<K: Hash + Eq + Copy> Drop for Duty<'_, K> {
    fn drop(&mut self) {
        self.flights.0.lock().remove(&self.key);
        let mut outcome = self.flight.outcome.lock();
        let stopped = || Err(Arc::new(io::Error::other("a fetch was cut off")));
        outcome.get_or_insert_with(stopped);
        self.flight.landed.notify_all();
    }
}

fn shared(outcome: Outcome) -> io::Result<Arc<Vec<u8>>> {
    outcome.map_err(|error| io::Error::new(error.kind(), error.to_string()))
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

    #[test]
    fn many_wait_for_one_fetch() {
        let (flights, fetches) = (Flights::default(), AtomicUsize::new(0));
        thread::scope(|scope| {
            let first = scope.spawn(|| {
                flights.once(7, in_a_minute(), || {
                    while Arc::strong_count(&flights.0.lock()[&7]) < 5 {
                        thread::yield_now();
                    }
                    fetches.fetch_add(1, SeqCst);
                    Ok(Arc::new(vec![1]))
                })
            });
            while flights.0.lock().is_empty() {
                thread::yield_now();
            }
            let join = || {
                flights.once(7, in_a_minute(), || {
                    fetches.fetch_add(1, SeqCst);
                    Ok(Arc::new(vec![2]))
                })
            };
            let others: Vec<_> = (0..3).map(|_| scope.spawn(join)).collect();
            for thread in others.into_iter().chain([first]) {
                assert_eq!(*thread.join().unwrap().unwrap(), [1]);
            }
        });
        assert_eq!(fetches.load(SeqCst), 1);
        assert!(flights.0.lock().is_empty());
    }

    #[test]
    fn who_waits_gives_up_at_his_deadline() {
        let flights = Flights::default();
        let outcome = flights.once(1, in_a_minute(), || {
            let waited = flights.once(1, Instant::now(), || unreachable!("it is under way"));
            assert_eq!(waited.unwrap_err().kind(), io::ErrorKind::TimedOut);
            Err(io::Error::other("no network"))
        });
        assert_eq!(outcome.unwrap_err().to_string(), "no network");
        assert!(flights.0.lock().is_empty());
    }
}
