
use std::collections::HashMap;
use std::time::Duration;

use super::Inner;
use crate::remote::notes::Derived;
use crate::remote::{Agreement, Notes, RemoteError};
use crate::replica::Entry;
use ctxfs_core::model::{Component, LetGo, RelPath};
use ctxfs_store::RemovalOutcome;

///+ Time limit for waiting for the push lock, and for the conversation.
const WAIT: Duration = Duration::from_secs(2);

///+ A round of evicting local copies of a conversation. Reads the agreement once.
pub(super) struct Room<'a> {
    inner: &'a Inner,
    id: Component,
    agreed: Option<Derived<Entries>>,
}

///+ Published entries by path.
type Entries = HashMap<String, Entry>;

fn entries(agreed: Agreement) -> Entries {
    let published = agreed.base.entries.into_iter().filter(|entry| !entry.origins.is_empty());
    published.map(|entry| (entry.path.clone(), entry)).collect()
}

impl<'a> Room<'a> {
    pub(super) fn new(inner: &'a Inner, id: &Component) -> Self {
        Self { inner, id: id.clone(), agreed: None }
    }

    pub(super) fn let_go(&mut self, path: &RelPath) -> LetGo {
        let tried = self.try_let_go(path);
        let gone = self.inner.noted(tried);
        gone.unwrap_or(LetGo::Kept("the bucket does not have it as it should"))
    }

    fn try_let_go(&mut self, path: &RelPath) -> Result<LetGo, RemoteError> {
        let (inner, id) = (self.inner, self.id.clone());
        let access = &inner.access;
        let Some(known) = access.known()? else { return Ok(LetGo::NotShared) };
        let Some(conversation) = access.store.conversation(&id)? else {
            return Ok(LetGo::NotShared);
        };
        let notes = known.home.conversation(&id)?;
        let text = path.to_text();
        if !self.entries(&notes)?.contains_key(&text) {
            return Ok(LetGo::NotShared);
        }
        if inner.weather.is_bad() {
            return Ok(LetGo::Kept("the bucket does not answer"));
        }
        if access.is_directory() && access.greeted()?.is_none() {
            return Ok(LetGo::Kept("the bucket is not there"));
        }
        let Some(_lock) = access.lock(&known, WAIT)? else {
            return Ok(LetGo::Kept("another process uses the bucket"));
        };
        let Some(_turn) = access.turn_within(&id, WAIT) else {
            return Ok(LetGo::Kept("its conversation is being sent"));
        };
        let clock = access.store.clock();
        let entry = self.entries(&notes)?.get(&text);
        let gone = known.far.evict(&conversation, path, entry, clock)?;
        Ok(match gone {
            RemovalOutcome::Removed => LetGo::Gone,
            RemovalOutcome::Kept(why) => LetGo::Kept(why),
        })
    }

    fn entries(&mut self, notes: &Notes) -> Result<&Entries, RemoteError> {
        let agreed = Derived::current(self.agreed.take(), notes, entries)?;
        Ok(&self.agreed.insert(agreed).value)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::remote::files::tests::scene::{TOOL, soon};
    use crate::remote::tier::tests::{Host, bucket};
    use ctxfs_core::model::OtherHosts as _;

    /// Lets it go, once no process that another test starts has copies of all descriptors.
    fn let_go(round: &mut Room<'_>, call: &str) -> LetGo {
        let path = RelPath::new(format!("{TOOL}/{call}.txt")).unwrap();
        soon(|| {
            let gone = round.let_go(&path);
            (gone != LetGo::Kept("it is being written")).then_some(gone)
        })
    }

    #[test]
    fn a_round_reads_the_agreement_once_and_again_when_it_changes() {
        let bucket = bucket();
        let one = Host::new(&bucket);
        for call in ["a", "b", "c"] {
            one.put(call, "some bytes\n");
        }
        one.send();
        let mut round = Room::new(&one.tier.0, one.id());
        assert_eq!(let_go(&mut round, "a"), LetGo::Gone);
        assert_eq!(let_go(&mut round, "d"), LetGo::NotShared);
        one.put("d", "some bytes\n");
        one.send();
        assert_eq!(let_go(&mut round, "d"), LetGo::Gone);
        let known = one.tier.0.access.known().unwrap().unwrap();
        let remote = one.scene.store.root().join("remote").join(known.id.to_string());
        let agreement = remote.join("conversations/c7/agreement.jsonl");
        // Nothing tells this from the file that was read.
        let (size, modified) = {
            let found = fs::metadata(&agreement).unwrap();
            (found.len(), found.modified().unwrap())
        };
        let file = fs::File::options().write(true).open(&agreement).unwrap();
        fs::write(&agreement, "\n".repeat(size as usize)).unwrap();
        file.set_modified(modified).unwrap();
        assert_eq!(let_go(&mut round, "b"), LetGo::Gone);
        let mut next = one.tier.letting_go(one.id());
        let path = RelPath::new(format!("{TOOL}/c.txt")).unwrap();
        assert!(matches!(next(&path), LetGo::Kept(_)), "it cannot be read");
        assert!(one.file("c").exists());
    }
}
