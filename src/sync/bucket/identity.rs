//! Identity of a bucket. The first host writes it to `ctxfs.json`.

use std::str::FromStr;
use std::time::Duration;
use std::{fmt, thread};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::bucket::access::{Bucket, Created, Deadline};
use crate::bucket::error::BucketError;
use crate::bucket::name::MARK;
use crate::bucket::objects::Objects as _;

/// Newest bucket format that this version reads, and the one that it writes.
const FORMAT: u64 = 1;
/// Pause before another read of a mark that another host is writing.
const AGAIN: Duration = Duration::from_millis(100);
const MOST: u64 = 64 << 10;

/// Random id of a bucket. Two buckets have different ids, even at the same URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BucketId(u128);

impl fmt::Display for BucketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for BucketId {
    type Err = BucketError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let id = u128::from_str_radix(text, 16).ok();
        let id = id.filter(|_| text.len() == 32 && text.bytes().all(is_hex));
        id.map(Self).ok_or_else(|| odd("its id has not 32 hexadecimal digits".to_owned()))
    }
}

/// Properties that the first host stored in `ctxfs.json`, and a property of the store. All hosts of
/// a bucket must agree on `write_once`: see [`Self::agreeing`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Format of the bucket.
    pub format: u64,
    /// Id of the bucket.
    pub id: BucketId,
    /// True if hosts may neither replace nor remove anything.
    pub write_once: bool,
    /// True if the store has refused to create a second object under one key. [`Bucket::found`]
    /// tests this. It is not stored in the bucket.
    pub conditional: bool,
}

#[derive(Serialize, Deserialize)]
struct MarkFile {
    format: u64,
    id: String,
    write_once: bool,
}

#[derive(Deserialize)]
struct MarkFormat {
    format: u64,
}

impl Identity {
    /// Checks that a host with the setting `write_once` may use the bucket. Either all hosts of a
    /// bucket are write-once or none is.
    pub fn agreeing(self, write_once: bool) -> Result<Self, BucketError> {
        match (self.write_once, write_once) {
            (true, false) => Err(BucketError::WriteOnce),
            (false, true) => Err(BucketError::NotWriteOnce),
            (true, true) | (false, false) => Ok(self),
        }
    }
}

impl Bucket {
    /// Reads the identity of the bucket, and sets `conditional` to false. Returns `None` if the
    /// bucket is not initialized.
    pub fn identity(&self, deadline: Deadline) -> Result<Option<Identity>, BucketError> {
        Ok(self.mark(deadline)?.map(|(identity, _)| identity))
    }

    /// Reads the identity of the bucket, and initializes the bucket first if needed. Fails if
    /// `write_once` differs from the setting of the first host.
    ///
    /// If two hosts initialize the bucket at the same time, one of them writes the mark and both
    /// get the same identity.
    ///
    /// Tests whether the store refuses a second object under one key, by creating the mark again
    /// with the same bytes. Nothing is lost if the store does not refuse. With read-only
    /// credentials, the store counts as one that does not refuse.
    pub fn found(&self, write_once: bool, deadline: Deadline) -> Result<Identity, BucketError> {
        if let Some(identity) = self.met(write_once, deadline)? {
            return Ok(identity);
        }
        self.make_directory()?;
        loop {
            self.create(MARK, &new_mark(write_once), deadline)?;
            if let Some(mark) = self.mark(deadline)? {
                return self.agreed(mark, write_once, deadline);
            }
            // A store may refuse the second of two concurrent writes before the first is visible.
            if deadline.left() < AGAIN {
                let what = format!("read `{MARK}`");
                let why = "the store says that it is there and that it is not".to_owned();
                return Err(BucketError::Away { what, why });
            }
            thread::sleep(AGAIN);
        }
    }

    /// Does what [`Self::found`] does, except that it returns `None` instead of initializing the
    /// bucket.
    pub fn met(
        &self,
        write_once: bool,
        deadline: Deadline,
    ) -> Result<Option<Identity>, BucketError> {
        let mark = self.mark(deadline)?;
        mark.map(|mark| self.agreed(mark, write_once, deadline)).transpose()
    }

    fn agreed(
        &self,
        (identity, bytes): (Identity, Bytes),
        write_once: bool,
        deadline: Deadline,
    ) -> Result<Identity, BucketError> {
        let identity = identity.agreeing(write_once)?;
        let conditional = match self.create(MARK, &bytes, deadline) {
            Ok(created) => created == Created::Exists && !self.lacks_conditional_create(),
            Err(BucketError::Refused { .. }) => false,
            Err(error) => return Err(error),
        };
        Ok(Identity { conditional, ..identity })
    }

    fn mark(&self, deadline: Deadline) -> Result<Option<(Identity, Bytes)>, BucketError> {
        let bytes = match self.get_at_most(MARK, None, MOST, deadline) {
            Ok(bytes) => bytes,
            Err(error) if error.is_absent() => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(Some((read_mark(&bytes)?, bytes)))
    }
}

/// Parses the mark. Reads the format first, because a newer mark may have other fields.
fn read_mark(bytes: &[u8]) -> Result<Identity, BucketError> {
    let any: MarkFormat = serde_json::from_slice(bytes).map_err(|error| odd(error.to_string()))?;
    if any.format > FORMAT {
        return Err(BucketError::Newer { format: any.format });
    }
    if any.format == 0 {
        return Err(odd("its format is 0".to_owned()));
    }
    let mark: MarkFile = serde_json::from_slice(bytes).map_err(|error| odd(error.to_string()))?;
    let id = mark.id.parse()?;
    Ok(Identity { format: mark.format, id, write_once: mark.write_once, conditional: false })
}

fn odd(why: String) -> BucketError {
    BucketError::NotCtxfs { key: MARK.to_owned(), why }
}

fn new_mark(write_once: bool) -> Bytes {
    let id = BucketId(Uuid::new_v4().as_u128()).to_string();
    let mark = MarkFile { format: FORMAT, id, write_once };
    let mut text = serde_json::to_vec(&mark).expect("a mark has plain fields");
    text.push(b'\n');
    text.into()
}

#[cfg(test)]
mod tests;
