
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;
use object_store::path::Path;

use super::fault::Fault;
use super::retry::{Pauses, within};
use super::{Bucket, Deadline};
use crate::bucket::error::BucketError;

///+ Time limit of one request, which may delete 1000 objects.
const PATIENCE: Duration = Duration::from_secs(30);

impl Bucket {
    ///+ Deletes objects, batching keys where the store can: 1000 per request for S3. Returns each
    ///+ key with its outcome, in order. A missing object counts as deleted.
    pub fn delete(
        &self,
        keys: Vec<String>,
        deadline: Deadline,
    ) -> Vec<(String, Result<(), BucketError>)> {
        let mut outcomes = Vec::with_capacity(keys.len());
        for turn in keys.chunks(self.0.store.deletes()) {
            let deleted = match self.handle() {
                Ok(handle) => handle.block_on(self.deleting(turn, deadline)),
                Err(fault) => vec![Err(fault); turn.len()],
            };
            outcomes.extend(deleted);
        }
        let told = |(key, outcome): (String, Result<(), Fault>)| {
            let outcome = outcome.map_err(|fault| fault.into_error("delete", &key));
            (key, outcome)
        };
        keys.into_iter().zip(outcomes).map(told).collect()
    }

    ///+ Deletes one batch. Retries the keys that failed with a retryable fault.
    async fn deleting(&self, keys: &[String], deadline: Deadline) -> Vec<Result<(), Fault>> {
        let mut outcomes = Vec::with_capacity(keys.len());
        for key in keys {
            outcomes.push(within(PATIENCE.min(deadline.left()), self.begin(key)).await);
        }
        let mut pauses = Pauses::new();
        loop {
            let places = to_try(&outcomes);
            for (&place, outcome) in places.iter().zip(self.turn(keys, &places, deadline).await) {
                outcomes[place] = if outcome == Err(Fault::Absent) { Ok(()) } else { outcome };
            }
            let is_done = to_try(&outcomes).is_empty();
            if is_done || !pauses.wait(deadline, "some keys were not deleted").await {
                return outcomes;
            }
        }
    }

    ///+ Returns the outcome of a key that needs no request, or `Again` as the initial state of the
    ///+ others.
    async fn begin(&self, key: &str) -> Result<(), Fault> {
        if let Some(outcome) = self.remove_staged(key) {
            return outcome;
        }
        self.0.store.store_of(&self.path(key)?).await?;
        Err(Fault::Again("there was no time".to_owned()))
    }

    async fn turn(
        &self,
        keys: &[String],
        places: &[usize],
        deadline: Deadline,
    ) -> Vec<Result<(), Fault>> {
        let paths: Vec<Path> =
            places.iter().filter_map(|&place| self.path(&keys[place]).ok()).collect();
        if paths.is_empty() {
            return Vec::new();
        }
        let all = |fault: Fault| vec![Err(fault); places.len()];
        // The client panics if the response names a key that it did not send.
        let delete = AssertUnwindSafe(self.0.store.delete(paths)).catch_unwind();
        match tokio::time::timeout(PATIENCE.min(deadline.left()), delete).await {
            Ok(Ok(outcomes)) => outcomes,
            Ok(Err(_)) => all(Fault::Never("the answer names other keys".to_owned())),
            Err(_) => all(Fault::Again("no answer in time".to_owned())),
        }
    }
}

fn to_try(outcomes: &[Result<(), Fault>]) -> Vec<usize> {
    let is_open = |outcome: &Result<(), Fault>| matches!(outcome, Err(Fault::Again(_)));
    (0..outcomes.len()).filter(|&place| is_open(&outcomes[place])).collect()
}
