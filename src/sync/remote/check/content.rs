
use std::io;
use std::io::Read;

use bytes::Bytes;

use super::{Check, Flaw};
use crate::bucket::{BucketError, PutLine, segment_key, unpack_member, unpack_parts};
use crate::remote::{Fetch as _, Fetcher, RemoteError, Stored, StoredSegment, Told};
use crate::replica::{Claim, Entry, FileKey, FileVersion, Origin, SegmentId, State};

const WRONG: &str = "its bytes in the bucket are not those of its digest";

impl Check<'_> {
    ///+ Returns the bytes of a segment in the bucket. Returns `None`, and reports a flaw, if they
    ///+ differ from the local copy.
    pub(super) fn segment_bytes(
        &self,
        id: SegmentId,
        flaws: &mut Vec<Flaw>,
    ) -> Result<Option<Bytes>, RemoteError> {
        let key = segment_key(self.notes.conversation(), id);
        let there = match self.bucket.get(&key, None, (self.deadline)()) {
            // The look found it missing and reported that.
            Err(error) if error.is_absent() => return Ok(None),
            there => there?,
        };
        if there.starts_with(&self.notes.segment_bytes(id)?) {
            return Ok(Some(there));
        }
        let why = "its bytes in the bucket are others than those that came before".to_owned();
        flaws.push(Flaw { what: format!("segment {id}"), why });
        Ok(None)
    }

    pub(super) fn wrong_object(
        &self,
        origin: Origin,
        claim: &Claim<Stored>,
        state: &State<Stored, Told>,
    ) -> Result<Option<String>, RemoteError> {
        let (bucket, notes, deadline) = (self.bucket, self.notes, self.deadline);
        let fetcher = Fetcher::new(bucket, (notes, state), false, deadline);
        let (key, version) = (FileKey::Elsewhere(origin), FileVersion::default());
        let (path, origins, digest) = (claim.path.clone(), vec![origin], claim.digest.clone());
        let entry = Entry { path, asked: None, origins, key, version, digest };
        match fetcher.fetch(&entry) {
            Ok(Some(parcel)) => wrong_content(parcel.content, &claim.digest),
            Ok(None) => Ok(Some("its record is no record".to_owned())),
            Err(error) if error.may_pass() => Err(error),
            Err(error) => Ok(Some(error.to_string())),
        }
    }
}

///+ Returns the problem with content that should have this digest. Fails if the content is
///+ unavailable.
fn wrong_content(mut content: impl Read, digest: &str) -> Result<Option<String>, RemoteError> {
    let mut hasher = blake3::Hasher::new();
    match hasher.update_reader(&mut content) {
        Ok(hasher) => Ok((hasher.finalize().to_hex().as_str() != digest).then(|| WRONG.to_owned())),
        Err(error) => {
            let why = error.to_string();
            match passing(error) {
                Some(error) => Err(error.into()),
                None => Ok(Some(why)),
            }
        }
    }
}

///+ Returns the error of a request that may succeed later, if that is the cause.
fn passing(error: io::Error) -> Option<BucketError> {
    let error = error.into_inner()?.downcast::<BucketError>().ok()?;
    Some(*error).filter(BucketError::may_pass)
}

pub(super) fn wrong_parts(segment: &StoredSegment, put: &PutLine, bytes: &[u8]) -> Option<String> {
    let parts = put.parts.as_ref()?;
    let unpacked = segment.head.range_of_parts(parts).and_then(|range| {
        let frame = bytes.get(range.start as usize..range.end as usize);
        unpack_parts(frame.unwrap_or_default(), parts)
    });
    unpacked.err().map(|error| error.to_string())
}

pub(super) fn wrong_inside(segment: &StoredSegment, put: &PutLine, bytes: &[u8]) -> Option<String> {
    let range = match segment.head.range_of(&put.place) {
        Ok(range) => range?,
        Err(error) => return Some(error.to_string()),
    };
    let Some(frame) = bytes.get(range.start as usize..range.end as usize) else {
        return Some("its segment in the bucket ends before its bytes".to_owned());
    };
    match unpack_member(frame, put.place.size()) {
        Ok(content) => {
            let digest = blake3::hash(&content).to_hex();
            (put.digest() != Some(digest.as_str())).then(|| WRONG.to_owned())
        }
        Err(error) => Some(error.to_string()),
    }
}
