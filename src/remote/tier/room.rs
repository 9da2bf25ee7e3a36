//! Letting local copies go.

use std::time::Duration;

use super::Inner;
use crate::model::Component;
use crate::model::LetGo;
use crate::model::RelPath;
use crate::remote::Agreement;
use crate::remote::RemoteError;
use crate::replica::Entry;
use crate::store::RemovalOutcome;

/// The time for which another process, or another thread that works on the conversation, is waited
/// for.
const WAIT: Duration = Duration::from_secs(2);

impl Inner {
    pub(super) fn let_go(&self, id: &Component, path: &RelPath) -> LetGo {
        let gone = self.noted(self.try_let_go(id, path));
        gone.unwrap_or(LetGo::Kept("the bucket does not have it as it should"))
    }

    fn try_let_go(&self, id: &Component, path: &RelPath) -> Result<LetGo, RemoteError> {
        let Some(known) = self.access.known()? else { return Ok(LetGo::NotShared) };
        let Some(conversation) = self.access.store.conversation(id)? else {
            return Ok(LetGo::NotShared);
        };
        let notes = known.home.conversation(id)?;
        if entry_of(&notes.agreement()?, path).is_none() {
            return Ok(LetGo::NotShared);
        }
        if self.weather.is_bad() {
            return Ok(LetGo::Kept("the bucket does not answer"));
        }
        let Some(_lock) = self.access.lock(&known, WAIT)? else {
            return Ok(LetGo::Kept("another process uses the bucket"));
        };
        let Some(_turn) = self.access.turn_within(id, WAIT) else {
            return Ok(LetGo::Kept("its conversation is being sent"));
        };
        let (agreement, clock) = (notes.agreement()?, self.access.store.clock());
        let entry = entry_of(&agreement, path);
        let gone = known.far.evict(&conversation, path, entry, clock)?;
        Ok(match gone {
            RemovalOutcome::Removed => LetGo::Gone,
            RemovalOutcome::Kept(why) => LetGo::Kept(why),
        })
    }
}

/// Returns what host and bucket agreed upon about the file at `path`, if they did.
fn entry_of<'a>(agreement: &'a Agreement, path: &RelPath) -> Option<&'a Entry> {
    let text = path.to_text();
    let mut entries = agreement.base.entries.iter();
    entries.find(|entry| entry.path == text && !entry.origins.is_empty())
}
