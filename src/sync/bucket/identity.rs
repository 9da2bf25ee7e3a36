//! Identity of a bucket. The first host writes it to `ctxfs.json`.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::bucket::error::BucketError;
use crate::bucket::name::MARK;

/// Newest bucket format that this version reads, and the one that it writes.
const FORMAT: u64 = 1;

/// Random id of a bucket. Two buckets have different ids, even at the same URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BucketId(u128);

impl fmt::Display for BucketId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl std::str::FromStr for BucketId {
    type Err = BucketError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let id = u128::from_str_radix(text, 16).ok();
        let id = id.filter(|_| text.len() == 32 && text.bytes().all(is_hex));
        id.map(Self).ok_or_else(|| odd("its id has not 32 hexadecimal digits".to_owned()))
    }
}

/// Identity of a bucket. The first host stores `format`, `id` and `write_once` in `ctxfs.json`. If
/// `write_once` is true, hosts neither replace nor remove anything. All hosts of a bucket must
/// agree on `write_once`: see [`Self::agreeing`].
///
/// `conditional` is not stored. It is true if the object store refuses to create an object under a
/// key that is taken, which `Objects::found` tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub struct Identity {
    pub format: u64,
    pub id: BucketId,
    pub write_once: bool,
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

/// Parses the mark. Reads the format first, because a newer mark may have other fields.
pub(super) fn read_mark(bytes: &[u8]) -> Result<Identity, BucketError> {
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

pub(super) fn new_mark(write_once: bool) -> Bytes {
    let id = BucketId(uuid::Uuid::new_v4().as_u128()).to_string();
    let mark = MarkFile { format: FORMAT, id, write_once };
    let mut text = serde_json::to_vec(&mark).expect("a mark has plain fields");
    text.push(b'\n');
    text.into()
}

#[cfg(test)]
mod tests;
