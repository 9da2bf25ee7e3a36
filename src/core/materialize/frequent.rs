//! Counts the most frequent keys in bounded memory.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

use foldhash::fast::FixedState;

/// Counts how often each key occurs, in bounded memory. When the table is full, the less frequent
/// half of the keys is dropped; among equally frequent keys, the newer ones. If a dropped key
/// occurs again, its count restarts at zero.
///
/// The count of a key that was never dropped is exact. For other keys, [`Count::missed`] is an
/// upper bound for the missing occurrences. The result depends only on the order of the keys.
#[derive(Debug, Clone)]
pub struct Frequent<K, V> {
    counts: HashMap<K, Count<V>, FixedState>,
    room: usize,
    begun: u64,
    // The highest count of any dropped key.
    forgotten: u64,
}

/// The count of one key. `times` is the number of counted occurrences. `missed` is an upper bound
/// for the occurrences that were lost because the key was dropped earlier. `value` was created at
/// the first counted occurrence.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "described above")]
pub struct Count<V> {
    pub times: u64,
    pub missed: u64,
    pub value: V,
    place: u64,
}

impl<K: Hash + Eq, V> Frequent<K, V> {
    /// Returns a table for at most `room` keys.
    pub fn new(room: usize) -> Self {
        Self { counts: HashMap::default(), room, begun: 0, forgotten: 0 }
    }

    /// Counts `times` occurrences of `key`. Calls `value` if the key is not in the table.
    pub fn add<Q>(&mut self, key: &Q, times: u64, value: impl FnOnce() -> V) -> &mut Count<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        if !self.counts.contains_key(key) {
            if self.counts.len() >= self.room {
                self.forget();
            }
            let count =
                Count { times: 0, missed: self.forgotten, value: value(), place: self.begun };
            self.begun += 1;
            self.counts.insert(key.to_owned(), count);
        }
        let count = self.counts.get_mut(key).expect("it was counted or has just been begun");
        count.times += times;
        count
    }

    /// Returns true if no key was dropped. All counts are then exact.
    pub fn is_complete(&self) -> bool {
        self.forgotten == 0
    }

    /// Returns the keys in the table and their counts.
    pub fn counts(&self) -> &HashMap<K, Count<V>, FixedState> {
        &self.counts
    }

    fn forget(&mut self) {
        let mut ranks: Vec<(u64, u64)> =
            self.counts.values().map(|count| (count.times, u64::MAX - count.place)).collect();
        let middle = ranks.len() / 2;
        let (_, limit, _) = ranks.select_nth_unstable(middle);
        let limit = *limit;
        let mut forgotten = self.forgotten;
        self.counts.retain(|_, count| {
            let stays = (count.times, u64::MAX - count.place) > limit;
            if !stays {
                forgotten = forgotten.max(count.times + count.missed);
            }
            stays
        });
        self.forgotten = forgotten;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(keys: impl IntoIterator<Item = u64>, room: usize) -> Frequent<u64, ()> {
        let mut frequent = Frequent::new(room);
        for key in keys {
            frequent.add(&key, 1, || ());
        }
        frequent
    }

    fn times(frequent: &Frequent<u64, ()>, key: u64) -> Option<(u64, u64)> {
        let count = frequent.counts().iter().find(|(counted, _)| **counted == key)?.1;
        Some((count.times, count.missed))
    }

    #[test]
    fn few_keys_are_counted_exactly() {
        let frequent = counted((0..1000).map(|n| n % 10), 10);
        assert!(frequent.is_complete());
        assert_eq!(frequent.counts().len(), 10);
        assert!((0..10).all(|key| times(&frequent, key) == Some((100, 0))));
    }

    #[test]
    fn a_frequent_key_stays_among_many_rare_ones() {
        let keys = (0..100_000).map(|n| if n % 20 == 0 { 7 } else { 1_000 + n });
        let frequent = counted(keys, 100);
        assert!(!frequent.is_complete());
        assert!(frequent.counts().len() <= 100);
        assert_eq!(times(&frequent, 7), Some((5000, 0)));
    }

    #[test]
    fn missed_occurrences_are_bounded() {
        let late = (0..50_000).chain((0..50_000).map(|n| if n % 4 == 0 { 7 } else { 100_000 + n }));
        let (times, missed) = times(&counted(late, 100), 7).unwrap();
        assert!(times <= 12_501 && 12_501 <= times + missed, "{times} {missed}");
    }

    #[test]
    fn the_newer_of_equally_rare_keys_are_dropped() {
        let frequent = counted(0..5, 4);
        let mut left: Vec<u64> = frequent.counts().keys().copied().collect();
        left.sort_unstable();
        assert_eq!(left, [0, 4]);
    }
}
