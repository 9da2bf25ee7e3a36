//! Things that wait under numbers.

use std::collections::BTreeMap;

/// The things, of which the oldest gives way where there are too many.
#[derive(Debug)]
pub(super) struct Numbered<T> {
    next: u64,
    most: usize,
    things: BTreeMap<u64, T>,
}

impl<T> Numbered<T> {
    /// Returns room for `most` things.
    pub(super) fn new(most: usize) -> Self {
        Self { next: 0, most, things: BTreeMap::new() }
    }

    /// Adds a thing. Returns its number, which no other had, and the oldest thing if that gives way.
    pub(super) fn put(&mut self, thing: T) -> (u64, Option<T>) {
        self.next += 1;
        self.things.insert(self.next, thing);
        let is_full = self.things.len() > self.most;
        let oldest = if is_full { self.things.pop_first() } else { None };
        (self.next, oldest.map(|(_, thing)| thing))
    }

    pub(super) fn take(&mut self, number: u64) -> Option<T> {
        self.things.remove(&number)
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        self.things.get_mut(&number)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.things.values_mut()
    }
}
