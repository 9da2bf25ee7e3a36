
use tar::{EntryType, Header};

use crate::bucket::FormatError;

///+ Block size of tar.
const BLOCK: u64 = 512;
///+ End of a tar archive.
pub(super) const END: [u8; 2 * BLOCK as usize] = [0; 2 * BLOCK as usize];
///+ Permissions of unpacked members.
const MODE: u32 = 0o644;

#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: Vec<u8>,
    pub(super) content: Vec<u8>,
}

///+ Returns the length of a member with `size` bytes of content, or `None` on overflow.
pub(super) fn length(size: u64) -> Option<u64> {
    size.checked_next_multiple_of(BLOCK)?.checked_add(BLOCK)
}

///+ Returns a member without time and owner.
pub(super) fn bytes(name: &str, content: &[u8]) -> Vec<u8> {
    let mut header = Header::new_ustar();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(MODE);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(content.len() as u64);
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_cksum();
    let padding = content.len().next_multiple_of(BLOCK as usize) - content.len();
    [&header.as_bytes()[..], content, &END[..padding]].concat()
}

impl Member {
    pub(super) fn read(mut bytes: Vec<u8>) -> Result<Self, FormatError> {
        let found = name_and_size(&bytes);
        let (name, size) =
            found.ok_or_else(|| FormatError::damaged("a member is not as ctxfs writes it"))?;
        bytes.truncate((BLOCK + size) as usize);
        bytes.drain(..BLOCK as usize);
        Ok(Self { name, content: bytes })
    }

    pub(super) fn content_of(self, name: &str) -> Result<Vec<u8>, FormatError> {
        let wrong = || FormatError::damaged(format!("there should be `{name}`"));
        if self.name == name.as_bytes() { Ok(self.content) } else { Err(wrong()) }
    }
}

fn name_and_size(bytes: &[u8]) -> Option<(Vec<u8>, u64)> {
    let mut archive = tar::Archive::new(bytes);
    let entry = archive.entries().ok()?.raw(true).next()?.ok()?;
    let is_file = entry.header().entry_type() == EntryType::Regular;
    let fits = is_file && length(entry.size()) == Some(bytes.len() as u64);
    fits.then(|| (entry.header().path_bytes().into_owned(), entry.size()))
}
