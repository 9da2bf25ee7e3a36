//! A bucket whose requests can be made to fail, and whose clock can be moved.

use std::collections::BTreeMap;
use std::io::Read;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;

use crate::bucket::{
    Bucket, BucketError, BucketUrl, Created, Deadline, Identity, Listed, NameRange, NewNames,
    RequestCounts, StoreTime,
};
use crate::remote::Objects;

/// A deadline that no test reaches.
pub(crate) fn soon() -> Deadline {
    Deadline::after(Duration::from_mins(1))
}

/// A bucket that can be made to fail after a number of requests.
pub(crate) struct TestBucket {
    bucket: Bucket,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The requests so far, each starting with its kind.
    made: Vec<String>,
    /// Number of requests that still succeed. `None` if all do.
    left: Option<usize>,
    /// True if the first failing request still takes effect in the bucket.
    does_last: bool,
    /// Milliseconds by which the clock of the store was moved, now and at the time when each key
    /// was written.
    ahead: u64,
    written: BTreeMap<String, u64>,
    /// Milliseconds by which the responses are later than the times of objects, if they tell a time.
    later: Option<i64>,
    /// True if lists skip what they may skip.
    skips: bool,
    /// A key that is in lists but cannot be read.
    hidden: Option<String>,
    /// Objects that another host creates just before a host of the test creates the same key.
    others: BTreeMap<String, Bytes>,
}

impl TestBucket {
    pub(crate) fn new() -> Self {
        Self::at("memory:")
    }

    pub(crate) fn at(url: &str) -> Self {
        let bucket = Bucket::open(&BucketUrl::parse(url).unwrap(), []).unwrap();
        Self { bucket, state: Mutex::default() }
    }

    /// Lets `requests` more requests succeed, and fails the later ones. If `does_last` is true, the
    /// first failing request still takes effect.
    pub(crate) fn fail_after(&self, requests: usize, does_last: bool) {
        let mut state = self.state.lock();
        (state.left, state.does_last) = (Some(requests), does_last);
    }

    pub(crate) fn work(&self) {
        self.state.lock().left = None;
    }

    /// Makes a key that is in lists unreadable.
    pub(crate) fn hide(&self, key: Option<&str>) {
        self.state.lock().hidden = key.map(str::to_owned);
    }

    /// Makes lists skip all names that they may skip, but for the first name of each range.
    pub(crate) fn skip(&self) {
        self.state.lock().skips = true;
    }

    /// Moves the clock of the store.
    pub(crate) fn pass(&self, time: Duration) {
        self.state.lock().ahead += time.as_millis() as u64;
    }

    /// Makes responses tell a time that is later by `milliseconds` than the times of objects.
    pub(crate) fn answer_later(&self, milliseconds: i64) {
        self.state.lock().later = Some(milliseconds);
    }

    /// Returns the requests since the last call.
    pub(crate) fn made(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().made)
    }

    /// Returns the keys of all objects below a prefix.
    pub(crate) fn names(&self, prefix: &str) -> Vec<String> {
        let listed = self.bucket.list(prefix, soon()).unwrap();
        listed.into_iter().map(|each| each.name).collect()
    }

    /// Overwrites an object, which no correct host does.
    pub(crate) fn replace(&self, key: &str, bytes: &[u8]) {
        self.bucket.delete(vec![key.to_owned()], soon());
        self.bucket.create(key, &Bytes::copy_from_slice(bytes), soon()).unwrap();
    }

    /// Lets another host write an object just before a host of the test creates the same key.
    pub(crate) fn take_before(&self, key: &str, bytes: &[u8]) {
        self.state.lock().others.insert(key.to_owned(), Bytes::copy_from_slice(bytes));
    }

    fn ask<T>(
        &self,
        what: &str,
        request: impl FnOnce() -> Result<T, BucketError>,
    ) -> Result<T, BucketError> {
        let mut state = self.state.lock();
        state.made.push(what.to_owned());
        let away = || BucketError::Away { what: what.to_owned(), why: "test".to_owned() };
        let left = state.left;
        match left {
            Some(0) if state.does_last => {
                state.does_last = false;
                drop(state);
                request()?;
                return Err(away());
            }
            Some(0) => return Err(away()),
            Some(left) => state.left = Some(left - 1),
            None => {}
        }
        drop(state);
        request()
    }

    fn note(&self, key: &str) {
        let mut state = self.state.lock();
        let ahead = state.ahead;
        state.written.entry(key.to_owned()).or_insert(ahead);
    }

    fn ahead(&self, key: &str) -> u64 {
        self.state.lock().written.get(key).copied().unwrap_or_default()
    }
}

impl Objects for TestBucket {
    fn get(
        &self,
        key: &str,
        range: Option<Range<u64>>,
        deadline: Deadline,
    ) -> Result<Bytes, BucketError> {
        if self.state.lock().hidden.as_deref() == Some(key) {
            return Err(BucketError::Absent { key: key.to_owned() });
        }
        self.ask("get", || self.bucket.get(key, range, deadline))
    }

    fn create(&self, key: &str, bytes: &Bytes, deadline: Deadline) -> Result<Created, BucketError> {
        let other = self.state.lock().others.remove(key);
        self.ask("create", || {
            self.note(key);
            if let Some(other) = other {
                self.bucket.create(key, &other, deadline)?;
            }
            self.bucket.create(key, bytes, deadline)
        })
    }

    fn upload(
        &self,
        key: &str,
        source: &mut (dyn Read + Send),
        expected: u64,
        deadline: Deadline,
    ) -> Result<u64, BucketError> {
        self.ask("upload", || {
            self.note(key);
            self.bucket.upload(key, source, expected, deadline)
        })
    }

    fn list(&self, prefix: &str, deadline: Deadline) -> Result<Vec<Listed>, BucketError> {
        let mut listed = self.ask("list", || self.bucket.list(prefix, deadline))?;
        for each in &mut listed {
            each.modified_ms += self.ahead(&format!("{prefix}{}", each.name));
        }
        Ok(listed)
    }

    fn list_new(
        &self,
        prefix: &str,
        known: &[NameRange],
        deadline: Deadline,
    ) -> Result<NewNames, BucketError> {
        let mut listed = self.list(prefix, deadline)?;
        let skipped = if self.state.lock().skips { known.to_vec() } else { Vec::new() };
        let is_in = |range: &NameRange, name: &str| *range.first < *name && *name <= *range.last;
        listed.retain(|each| !skipped.iter().any(|range| is_in(range, &each.name)));
        Ok(NewNames { listed, skipped })
    }

    fn modified(&self, key: &str, deadline: Deadline) -> Result<StoreTime, BucketError> {
        let time = self.ask("modified", || self.bucket.modified(key, deadline))?;
        let written_ms = time.written_ms + self.ahead(key);
        let answered = |later: i64| written_ms.saturating_add_signed(later);
        Ok(StoreTime { written_ms, answered_ms: self.state.lock().later.map(answered) })
    }

    fn delete(
        &self,
        keys: Vec<String>,
        deadline: Deadline,
    ) -> Vec<(String, Result<(), BucketError>)> {
        let each = |key: String| {
            let outcome = self.ask("delete", || {
                let mut outcomes = self.bucket.delete(vec![key.clone()], deadline);
                outcomes.pop().map_or(Ok(()), |(_, outcome)| outcome)
            });
            (key, outcome)
        };
        keys.into_iter().map(each).collect()
    }

    fn list_dirs(
        &self,
        prefix: &str,
        limit: usize,
        deadline: Deadline,
    ) -> Result<Vec<String>, BucketError> {
        self.ask("list", || self.bucket.list_dirs(prefix, limit, deadline))
    }

    fn identity(&self, deadline: Deadline) -> Result<Option<Identity>, BucketError> {
        self.ask("get", || self.bucket.identity(deadline))
    }

    fn found(&self, write_once: bool, deadline: Deadline) -> Result<Identity, BucketError> {
        self.ask("create", || self.bucket.found(write_once, deadline))
    }

    fn met(&self, write_once: bool, deadline: Deadline) -> Result<Option<Identity>, BucketError> {
        self.ask("create", || self.bucket.met(write_once, deadline))
    }

    fn requests(&self) -> RequestCounts {
        self.bucket.requests()
    }
}
