//! Repair of a bucket that lost segments or objects, because it was rolled back or emptied, or
//! because a lifecycle rule deleted them.
//!
//! A host stores its own segments completely and sends them again unchanged. It packs larger
//! artifacts again from local files, and stores them under the object names in their records.

use std::io;

use bytes::Bytes;

use crate::bucket::{
    BucketError, Created, Line, ObjectPlace, Place, PutLine, blocks_key, object_key,
    objects_prefix, segment_key,
};
use crate::remote::push::PackedFile;
use crate::remote::{
    LocalSource, LookReport, Notes, PushSource as _, RemoteError, Synchronizer, look,
};
use crate::replica::{Base, Entry, Origin, SegmentId};
use ctxfs_store::Conversation;

/// Result of a repair. `segments` are the segments that were sent again, and `objects` is the
/// number of objects that were sent again. `lost` are the paths of artifacts whose bytes this host
/// does not have. `taken` are keys under which the bucket has other bytes; these are not replaced.
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "described above")]
pub struct RepairReport {
    pub segments: Vec<SegmentId>,
    pub objects: usize,
    pub lost: Vec<String>,
    pub taken: Vec<String>,
}

impl Synchronizer<'_> {
    /// Sends segments of this host that the bucket lost, and the objects that they name. Skips
    /// artifacts whose bytes this host no longer has. Makes no request if `looked` reports no loss.
    pub fn resend(
        &self,
        conversation: &Conversation,
        looked: &LookReport,
    ) -> Result<RepairReport, RemoteError> {
        let mut resent = RepairReport::default();
        if looked.lost.is_empty() {
            return Ok(resent);
        }
        let notes = self.home.conversation(conversation.id())?;
        // A list in pages may miss both a merge and the segments that it covers. It is unlikely to
        // miss them twice, so look again.
        let lost = look(self.bucket, &notes, self.deadline)?.lost;
        let prefix = objects_prefix(conversation.id());
        let listed = self.bucket.list(&prefix, (self.deadline)())?;
        let there = listed.into_iter().map(|listed| format!("{prefix}{}", listed.name)).collect();
        let base = notes.agreement()?.base;
        let files = ResendFiles { conversation, base: &base, there };
        for id in lost {
            self.resend_segment(&notes, id, &files, &mut resent)?;
        }
        Ok(resent)
    }

    fn resend_segment(
        &self,
        notes: &Notes,
        id: SegmentId,
        files: &ResendFiles<'_>,
        resent: &mut RepairReport,
    ) -> Result<(), RemoteError> {
        let segment = notes.open_segment(id)?;
        for line in segment.head.lines(&segment.records) {
            let (origin, line, _) = line.map_err(RemoteError::of(id))?;
            if let Line::Put(put) = line
                && !self.resend_object(notes, origin, &put, files, resent)?
            {
                resent.lost.push(put.record.path.clone());
            }
        }
        let bytes = Bytes::from(notes.segment_bytes(id)?);
        if self.create_again(segment_key(notes.conversation(), id), &bytes, resent)? {
            resent.segments.push(id);
        }
        Ok(())
    }

    fn create_again(
        &self,
        key: String,
        bytes: &Bytes,
        resent: &mut RepairReport,
    ) -> Result<bool, RemoteError> {
        let created = self.bucket.create(&key, bytes, (self.deadline)())?;
        let is_there =
            created == Created::New || self.bucket.get(&key, None, (self.deadline)())? == *bytes;
        if !is_there {
            resent.taken.push(key);
        }
        Ok(is_there)
    }

    fn resend_object(
        &self,
        notes: &Notes,
        origin: Origin,
        put: &PutLine,
        files: &ResendFiles<'_>,
        resent: &mut RepairReport,
    ) -> Result<bool, RemoteError> {
        let Place::Object(object) = &put.place else { return Ok(true) };
        let id = notes.conversation();
        let (key, table) = (object_key(id, object.name), blocks_key(id, object.name));
        if files.there.contains(&key) && files.there.contains(&table) {
            return Ok(true);
        }
        let Some(table_bytes) = files.table_of(origin, object)? else { return Ok(false) };
        let Some(file) = files.open(origin)? else { return Ok(false) };
        let mut content = PackedFile::new(file);
        match self.bucket.upload(&key, &mut content, object.size, (self.deadline)()) {
            Err(BucketError::Exists { key }) => resent.taken.push(key),
            uploaded => {
                uploaded?;
                let is_there = self.create_again(table, &table_bytes, resent)?;
                resent.objects += usize::from(is_there);
            }
        }
        Ok(true)
    }
}

struct ResendFiles<'a> {
    conversation: &'a Conversation,
    base: &'a Base,
    there: std::collections::BTreeSet<String>,
}

impl ResendFiles<'_> {
    fn open(&self, origin: Origin) -> Result<Option<std::fs::File>, RemoteError> {
        let has = |entry: &&Entry| entry.origins.contains(&origin);
        let Some(entry) = self.base.entries.iter().find(has) else { return Ok(None) };
        let source = LocalSource::new(self.conversation);
        let opened = source.open(&entry.path, entry.key, entry.version)?;
        Ok(opened.map(|opened| opened.file))
    }

    fn table_of(&self, origin: Origin, object: &ObjectPlace) -> Result<Option<Bytes>, RemoteError> {
        let Some(file) = self.open(origin)? else { return Ok(None) };
        let mut content = PackedFile::new(file);
        if io::copy(&mut content, &mut io::sink()).is_err() {
            return Ok(None);
        }
        let done = content.done();
        let same =
            done.filter(|done| done.packed == object.packed && done.blocks_digest == object.blocks);
        Ok(same.map(|done| Bytes::from(done.blocks)))
    }
}

#[cfg(test)]
mod tests;
