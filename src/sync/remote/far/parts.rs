
use std::io;
use std::sync::OnceLock;

use crate::bucket::Parts;
use crate::remote::FarArtifacts;
use crate::remote::blocks::ObjectContent;
use crate::replica::SegmentId;
use ctxfs_core::model::{Component, Content, LinesBefore, read_pieces};

///+ An object, some of whose bytes came with its record and are read without a request for the
///+ object. They are loaded on the first read; if that fails, the object is read instead. If the
///+ bucket is unreachable, only cached blocks of the object are: a reader must not wait for two time
///+ limits in a row.
pub(super) struct PartsContent {
    pub(super) far: FarArtifacts,
    pub(super) conversation: Component,
    pub(super) segment: SegmentId,
    pub(super) parts: Parts,
    pub(super) lines: Option<u64>,
    pub(super) last_line: Option<u64>,
    pub(super) kept: OnceLock<Option<Vec<u8>>>,
    pub(super) object: ObjectContent,
}

impl PartsContent {
    ///+ Returns the bytes from `offset` on that came with the record.
    fn part(&self, offset: u64) -> io::Result<Option<&[u8]>> {
        let Some((range, before)) = self.parts.around(offset) else { return Ok(None) };
        let mut away = None;
        let get = || {
            let got = self.far.parts(&self.conversation, self.segment, &self.parts);
            got.map_err(|error| away = error.may_pass().then_some(error)).ok()
        };
        let kept = self.kept.get_or_init(get).as_ref();
        if let Some(error) = away
            && !self.object.is_here(offset)
        {
            return Err(io::Error::other(error));
        }
        let start = before + offset - range.start;
        let end = before + range.end - range.start;
        Ok(kept.and_then(|kept| kept.get(start as usize..end as usize)))
    }
}

impl Content for PartsContent {
    fn len(&self) -> u64 {
        self.object.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        read_pieces(self.len(), offset, buffer, |at, buffer| match self.part(at)? {
            Some(part) => part.read_at(0, buffer),
            None => self.object.read_at(at, buffer),
        })
    }

    ///+ Knows the total number of lines from the record.
    fn lines_before(&self, offset: u64) -> io::Result<LinesBefore> {
        let length = self.len();
        match self.lines {
            Some(lines) if offset >= length && length > 0 => {
                let is_open = self.bytes(length - 1, 1)? != b"\n";
                let newlines = lines.saturating_sub(u64::from(is_open));
                Ok(LinesBefore { offset: length, newlines })
            }
            _ => self.object.lines_before(offset),
        }
    }

    fn last_line(&self) -> io::Result<Option<u64>> {
        Ok(self.last_line)
    }
}
