
use std::fs::File;
use std::io;
use std::io::ErrorKind;
use std::sync::Arc;

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::remote::MessagesAt;
use ctxfs_core::model::Component;
use ctxfs_store::message::{OtherMessages, Published};
use ctxfs_store::{Dir, FileMark, PUBLISHED, Stat, Store, read_full_at};

///+ Bytes of the first line, with its newline.
pub(super) const HEAD: usize = 256;

///+ Merged message logs of a store, as of the last pull of each conversation.
#[derive(Debug)]
pub struct PublishedMessages(Store);

///+ First line of the merged log: JSON, padded with blanks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    ///+ Version of the order: unchanged as long as the log only grows.
    pub(super) edition: u64,
    ///+ End of the published part of the local log.
    pub(super) own: MessagesAt,
}

impl Head {
    pub(super) fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).expect("a head can be JSON");
        line.resize(HEAD - 1, b' ');
        line.push(b'\n');
        line
    }

    fn read(file: &File) -> io::Result<Option<Self>> {
        let mut line = [0; HEAD];
        let count = read_full_at(file, 0, &mut line)?;
        Ok(serde_json::from_slice(&line[..count]).ok())
    }
}

impl PublishedMessages {
    ///+ Returns the merged logs of `store`. Opens nothing.
    pub fn of(store: &Store) -> Self {
        Self(store.clone())
    }
}

impl OtherMessages for PublishedMessages {
    fn published(
        &self,
        conversation: &Component,
        own: &Stat,
    ) -> io::Result<Option<Arc<Published>>> {
        let Some(file) = self.0.published_messages(conversation)? else { return Ok(None) };
        Ok(published(file, own)?.map(Arc::new))
    }
}

///+ Returns the merged log in `dir`, if it belongs to the local log with this `own` stat.
pub(super) fn published_in(dir: &Dir, own: &Stat) -> io::Result<Option<Published>> {
    match dir.open_file(PUBLISHED.as_ref(), OFlags::RDONLY) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        file => published(file?, own),
    }
}

fn published(file: File, own: &Stat) -> io::Result<Option<Published>> {
    let Some(head) = Head::read(&file)? else {
        tracing::warn!(
            "what other hosts said cannot be read: it is damaged; `ctxfs pull` makes it anew"
        );
        return Ok(None);
    };
    if !head.own.is_in(&FileMark::of(own)) {
        return Ok(None);
    }
    let end = file.metadata()?.len().max(HEAD as u64);
    Ok(Some(Published::new(Arc::new(file), HEAD as u64..end, head.edition, head.own.offset)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_has_its_length_whatever_it_says() {
        let own = MessagesAt { inode: u64::MAX, born: i64::MIN, offset: u64::MAX, chain: u64::MAX };
        for head in
            [Head { edition: u64::MAX, own }, Head { edition: 1, own: MessagesAt::default() }]
        {
            let line = head.line();
            assert_eq!((line.len(), line.last()), (HEAD, Some(&b'\n')));
            assert_eq!(serde_json::from_slice::<Head>(&line).unwrap(), head);
        }
    }
}
