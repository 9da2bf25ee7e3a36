//! Consistency check. It compares the records of a conversation with the objects in the bucket.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use bytes::Bytes;

use crate::bucket::{
    Blocks, BucketError, Deadline, Line, Listed, ObjectName, ObjectPart, ObjectPlace, Place,
    PutLine, object_of, objects_prefix, segment_key, unpack_member, unpack_parts,
};
use crate::remote::error::Unknown;
use crate::remote::look::look;
use crate::remote::{
    Downloads, Fetch as _, Fetcher, LookReport, Notes, Objects, RemoteError, Stored, StoredMessage,
    StoredSegment,
};
use crate::replica::{Claim, Entry, FileKey, FileVersion, Origin, SegmentId, State};

/// Result of a check: the numbers of living artifacts and of segments in the bucket, and the
/// problems found. `unnamed` are the objects that no living artifact uses. Unnamed objects do not
/// count as a problem, because a running push may have stored them. Garbage collection deletes
/// unnamed objects that are a week old.
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "described above")]
pub struct CheckReport {
    pub artifacts: usize,
    pub segments: usize,
    pub problems: Vec<CheckProblem>,
    pub unnamed: Vec<Listed>,
}

/// A problem in the bucket. `what` is a segment or the path of an artifact, and `why` describes the
/// problem.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub struct CheckProblem {
    pub what: String,
    pub why: String,
}

/// Check of one conversation. If `reads` is true, the check reads all bytes and compares their
/// digests, and calls `progress` with the number of bytes read since the last call. `deadline`
/// returns the deadline of a request that starts now.
#[expect(missing_docs, reason = "described above")]
pub struct Check<'a> {
    pub bucket: &'a dyn Objects,
    pub notes: &'a Notes,
    pub reads: bool,
    pub deadline: &'a dyn Fn() -> Deadline,
    pub progress: &'a dyn Fn(u64),
}

impl std::fmt::Debug for Check<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Check").field(self.notes).finish()
    }
}

type Present = BTreeMap<(ObjectName, ObjectPart), Listed>;

type Claims<'a> = Vec<(&'a Origin, &'a Claim<Stored>)>;

impl Check<'_> {
    /// Runs the check: a look, and then a list of the objects. If `reads` is true, also reads the
    /// bytes of all living artifacts. Segments that an earlier look refused as damaged or too new
    /// are fetched again.
    ///
    /// Fails if the bucket does not respond. Wrong content is reported in the result.
    pub fn run(&self) -> Result<CheckReport, RemoteError> {
        self.notes.forget_refusals()?;
        let mut looked = look(self.bucket, self.notes, self.deadline)?;
        let found = looked.pieces(self.notes)?;
        let state = State::of_all(found.pieces);
        let mut checked = CheckReport {
            artifacts: state.artifacts.len(),
            segments: looked.segments.len(),
            problems: problems_of_segments(&looked, &found.refused),
            unnamed: Vec::new(),
        };
        // An object is stored before the record that names it, so the list must follow the look.
        let present = self.present()?;
        for (segment, claims) in by_segment(&state) {
            self.check_segment(segment, &claims, &present, &state, &mut checked.problems)?;
        }
        let used: BTreeSet<_> =
            state.artifacts.values().filter_map(|c| c.artifact.object).collect();
        let unnamed = present.into_iter().filter(|((name, _), _)| !used.contains(name));
        checked.unnamed = unnamed.map(|(_, listed)| listed).collect();
        Ok(checked)
    }

    fn present(&self) -> Result<Present, RemoteError> {
        let prefix = objects_prefix(self.notes.conversation());
        let listed = self.bucket.list(&prefix, (self.deadline)())?;
        Ok(listed.into_iter().filter_map(|each| Some((object_of(&each.name)?, each))).collect())
    }

    fn check_segment(
        &self,
        id: SegmentId,
        claims: &Claims<'_>,
        present: &Present,
        state: &State<Stored, StoredMessage>,
        problems: &mut Vec<CheckProblem>,
    ) -> Result<(), RemoteError> {
        let segment = self.notes.open_segment(id)?;
        let bytes = if self.reads { self.segment_bytes(id, problems)? } else { None };
        for (origin, claim) in claims {
            let Line::Put(put) = segment.line(&claim.artifact.line)? else { continue };
            let mut why = missing(&put.place, present);
            if why.is_none() && self.reads {
                why = match (&put.place, &bytes) {
                    (Place::Inside { .. }, Some(bytes)) => wrong_inside(&segment, &put, bytes),
                    (Place::Object(_), bytes) => {
                        let parts =
                            bytes.as_ref().and_then(|bytes| wrong_parts(&segment, &put, bytes));
                        match self.wrong_object(**origin, claim, state)? {
                            None => parts,
                            why => why,
                        }
                    }
                    _ => None,
                };
                (self.progress)(claim.artifact.size);
            }
            problems.extend(why.map(|why| CheckProblem { what: claim.path.clone(), why }));
        }
        Ok(())
    }
}

fn by_segment(state: &State<Stored, StoredMessage>) -> BTreeMap<SegmentId, Claims<'_>> {
    let mut by_segment: BTreeMap<SegmentId, Claims<'_>> = BTreeMap::new();
    for (origin, claim) in &state.artifacts {
        by_segment.entry(claim.artifact.segment).or_default().push((origin, claim));
    }
    by_segment
}

fn problems_of_segments(
    looked: &LookReport,
    refused: &[(SegmentId, RemoteError)],
) -> Vec<CheckProblem> {
    let problem = |id: &SegmentId, why: String| CheckProblem { what: format!("segment {id}"), why };
    let refused = refused.iter().chain(&looked.refused);
    // Segments that the look refused are in both lists. The map keeps each only once.
    let refused: BTreeMap<_, _> = refused.map(|(id, error)| (id, error.to_string())).collect();
    let refused = refused.into_iter().map(|(id, why)| problem(id, why));
    let gone = looked.lost.iter().chain(&looked.missing);
    let gone =
        gone.map(|id| problem(id, "it is gone from the bucket, and nothing covers it".into()));
    let absent = looked.absent.iter().map(|id| problem(id, format!("it {}", Unknown::Absent)));
    let gaps =
        looked.gaps.iter().filter(|id| !looked.lost.contains(id) && !looked.missing.contains(id));
    let gaps =
        gaps.map(|id| problem(id, format!("it {}, and later ones are not", Unknown::Missing)));
    refused.chain(gone).chain(absent).chain(gaps).collect()
}

fn missing(place: &Place, present: &Present) -> Option<String> {
    let Place::Object(ObjectPlace { name, packed, size, .. }) = place else { return None };
    let table = Blocks::table_bytes(*size);
    let parts = [(ObjectPart::Bytes, *packed, "zst"), (ObjectPart::Blocks, table, "blocks")];
    parts.into_iter().find_map(|(part, size, end)| match present.get(&(*name, part)) {
        None => Some(format!("object `{name}.{end}` is missing")),
        Some(listed) if listed.size != size => {
            let there = listed.size;
            Some(format!("object `{name}.{end}` has {there} bytes, and should have {size}"))
        }
        Some(_) => None,
    })
}

const WRONG: &str = "its bytes in the bucket are not those of its digest";

impl Check<'_> {
    /// Returns the bytes of a segment in the bucket. If they differ from the local copy, reports a
    /// problem and returns `None`.
    fn segment_bytes(
        &self,
        id: SegmentId,
        problems: &mut Vec<CheckProblem>,
    ) -> Result<Option<Bytes>, RemoteError> {
        let key = segment_key(self.notes.conversation(), id);
        let there = match self.bucket.get(&key, None, (self.deadline)()) {
            // The look has already reported the segment as missing.
            Err(error) if error.is_absent() => return Ok(None),
            there => there?,
        };
        if there.starts_with(&self.notes.segment_bytes(id)?) {
            return Ok(Some(there));
        }
        let why = "its bytes in the bucket are others than those that came before".to_owned();
        problems.push(CheckProblem { what: format!("segment {id}"), why });
        Ok(None)
    }

    fn wrong_object(
        &self,
        origin: Origin,
        claim: &Claim<Stored>,
        state: &State<Stored, StoredMessage>,
    ) -> Result<Option<String>, RemoteError> {
        let (bucket, notes, deadline) = (self.bucket, self.notes, self.deadline);
        let fetcher = Fetcher::new(bucket, (notes, state), Downloads::Immediate, deadline);
        let (key, version) = (FileKey::Remote(origin), FileVersion::default());
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

/// Compares content with `digest`. Returns a description of the problem, or `None` if they match.
/// Fails if the content cannot be read.
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

fn passing(error: std::io::Error) -> Option<BucketError> {
    let error = error.into_inner()?.downcast::<BucketError>().ok()?;
    Some(*error).filter(BucketError::may_pass)
}

fn wrong_parts(segment: &StoredSegment, put: &PutLine, bytes: &[u8]) -> Option<String> {
    let parts = put.parts.as_ref()?;
    let unpacked = segment.head.range(parts.at, parts.packed).and_then(|range| {
        let frame = bytes.get(range.start as usize..range.end as usize);
        unpack_parts(frame.unwrap_or_default(), parts)
    });
    unpacked.err().map(|error| error.to_string())
}

fn wrong_inside(segment: &StoredSegment, put: &PutLine, bytes: &[u8]) -> Option<String> {
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

#[cfg(test)]
mod tests;
