
use bytes::Bytes;

use super::batch::Batch;
use super::uploads::Session;
use super::{DAY, Push, Pushed};
use crate::bucket::{Created, SegmentHead, segment_key};
use crate::remote::look::look;
use crate::remote::{Agreement, Intent, RemoteError};
use crate::replica::SegmentId;

enum Outcome {
    ///+ The bucket has the segment, or had it until it was merged.
    Sent,
    ///+ The bucket has a different segment of this name.
    Copied,
    ///+ The segment is too old to be sent.
    Old,
}

impl Push<'_> {
    ///+ Builds a segment from a batch, saves it, and sends it. Returns false if the caller must
    ///+ start over.
    pub(super) fn send(
        &self,
        batch: &Batch,
        session: &mut Session,
        pushed: &mut Pushed,
    ) -> Result<bool, RemoteError> {
        let agreement = self.notes.agreement()?;
        let Some(id) = self.next_id(&agreement)? else {
            self.become_another(session, pushed)?;
            return Ok(false);
        };
        let mut clock = agreement.clock;
        let now = (self.now)();
        let made = batch.make(id, &mut clock, now.micros()).map_err(RemoteError::of(id))?;
        let intent = Intent {
            segment: id,
            stamp: made.publication.segment.latest(),
            accepted: made.publication.accepted,
            messages: batch.messages.as_ref().map(|messages| messages.at),
            since: batch.since(&now),
            digest: blake3::hash(&made.bytes).to_hex().to_string(),
        };
        self.notes.keep_intent(&intent, &made.bytes)?;
        session.uploads.remove(batch.paths());
        self.finish(&intent, &made.bytes, session, pushed)
    }

    ///+ Returns the name of the next segment, or `None` if this host needs a new writer id. That is
    ///+ so if a segment of this name or a later one is known, since this is a restored backup; or if
    ///+ the segment before it is unknown, since the log ended and was deleted, and other hosts would
    ///+ wait for the gap.
    pub(crate) fn next_id(&self, agreement: &Agreement) -> Result<Option<SegmentId>, RemoteError> {
        let writer = self.home.writer()?;
        let number = if agreement.writer == Some(writer) { agreement.next } else { 1 };
        let is_later = |id: &SegmentId| id.writer == writer && id.number >= number;
        let (here, covered) = (self.notes.segments()?, self.notes.covered()?);
        let is_known = here.iter().any(is_later) || covered.ids().any(|id| is_later(&id));
        let before = SegmentId { writer, number: number.saturating_sub(1) };
        let follows = number <= 1 || here.contains(&before) || covered.contains(&before);
        Ok((follows && !is_known).then_some(SegmentId { writer, number }))
    }

    ///+ Sends an intent. Returns false if the caller must start over.
    pub(crate) fn finish(
        &self,
        intent: &Intent,
        bytes: &[u8],
        session: &mut Session,
        pushed: &mut Pushed,
    ) -> Result<bool, RemoteError> {
        let outcome =
            if self.is_accepted(intent)? { Outcome::Sent } else { self.outcome(intent, bytes)? };
        match outcome {
            Outcome::Sent => {
                self.accept(intent, bytes)?;
                pushed.segments.push(intent.segment);
                Ok(true)
            }
            Outcome::Copied => {
                if self.home.writer()? == intent.segment.writer {
                    self.become_another(session, pushed)?;
                }
                session.uploads.clear();
                self.notes.drop_intent()?;
                Ok(false)
            }
            Outcome::Old => {
                session.uploads.clear();
                self.notes.drop_intent()?;
                Ok(false)
            }
        }
    }

    ///+ Returns true if a crash came between the agreement and the removal of the intent.
    fn is_accepted(&self, intent: &Intent) -> Result<bool, RemoteError> {
        let Agreement { writer, next, .. } = self.notes.agreement()?;
        Ok(writer == Some(intent.segment.writer) && intent.segment.number < next)
    }

    fn outcome(&self, intent: &Intent, bytes: &[u8]) -> Result<Outcome, RemoteError> {
        if let Some(outcome) = self.outcome_by_merges(intent, bytes)? {
            return Ok(outcome);
        }
        let key = self.key(intent.segment);
        if (self.now)().since(&intent.since) > DAY {
            return self.outcome_of_old(intent, bytes);
        }
        let whole = Bytes::copy_from_slice(bytes);
        match self.bucket.create(&key, &whole, (self.deadline)())? {
            Created::New => Ok(Outcome::Sent),
            Created::Exists => self.compare(&key, bytes),
        }
    }

    ///+ An old segment is not sent, but may have been.
    fn outcome_of_old(&self, intent: &Intent, bytes: &[u8]) -> Result<Outcome, RemoteError> {
        let key = self.key(intent.segment);
        match self.compare(&key, bytes) {
            Err(RemoteError::Bucket(error)) if error.is_absent() => {}
            outcome => return outcome,
        }
        look(self.bucket, self.notes, (self.deadline)())?;
        Ok(self.outcome_by_merges(intent, bytes)?.unwrap_or(Outcome::Old))
    }

    ///+ Returns what merges say about a segment, if one covers its name: it was sent if its digest
    ///+ is theirs. A segment of the same name with other bytes may be gone, so there may be nothing
    ///+ to compare with.
    fn outcome_by_merges(
        &self,
        intent: &Intent,
        bytes: &[u8],
    ) -> Result<Option<Outcome>, RemoteError> {
        let (id, covered) = (intent.segment, self.notes.covered()?);
        if !covered.contains(&id) {
            return Ok(None);
        }
        let head = SegmentHead::read(bytes).map_err(RemoteError::of(id))?;
        let digest = head.and_then(|head| head.digest(bytes));
        let was_sent = digest.is_some_and(|digest| covered.has(id, digest) == Some(true));
        Ok(Some(if was_sent { Outcome::Sent } else { Outcome::Copied }))
    }

    fn compare(&self, key: &str, bytes: &[u8]) -> Result<Outcome, RemoteError> {
        let there = self.bucket.get(key, None, (self.deadline)())?;
        Ok(if there == bytes { Outcome::Sent } else { Outcome::Copied })
    }

    fn key(&self, id: SegmentId) -> String {
        segment_key(self.notes.conversation(), id)
    }

    ///+ Saves the agreement after a segment was sent. Each step can be repeated.
    fn accept(&self, intent: &Intent, bytes: &[u8]) -> Result<(), RemoteError> {
        if !self.is_accepted(intent)? {
            self.notes.keep_segment(intent.segment, bytes)?;
            let before = self.notes.agreement()?;
            self.notes.save(&before, &agreed(&before, intent))?;
        }
        self.notes.drop_intent()
    }
}

fn agreed(before: &Agreement, intent: &Intent) -> Agreement {
    let mut base = before.base.clone();
    base.accept(&intent.accepted);
    let mut clock = before.clock;
    clock.see(intent.stamp);
    let (writer, next) = (Some(intent.segment.writer), intent.segment.number + 1);
    let messages = intent.messages.unwrap_or(before.messages);
    Agreement { base, writer, next, clock, messages, unshared: before.unshared.clone() }
}
