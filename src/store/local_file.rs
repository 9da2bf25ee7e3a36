//! Whether a record tells of the bytes of a file, and which file that is a copy of.

use crate::{Stat, Time};
use ctxfs_core::model::{ArtifactState, LocalFile, Record};

impl Stat {
    /// Returns it as the record of the file keeps it.
    pub fn local_file(&self) -> LocalFile {
        LocalFile {
            dev: self.dev,
            ino: self.ino,
            born: self.born.map(Time::as_nanos),
            changed: self.ctime.as_nanos(),
            copied: None,
        }
    }

    /// Returns true if the file has the bytes that `record` tells of: it is sealed, and has not
    /// been changed in any way since, nor replaced by a file that is not recorded.
    pub fn is_recorded(&self, record: &Record) -> bool {
        let changed = record.file.map(|file| file.copied.unwrap_or(file.changed));
        let is_sealed = match record.state {
            ArtifactState::Sealed | ArtifactState::Incomplete(_) => true,
            ArtifactState::Live | ArtifactState::Gone => false,
        };
        let moment = (record.size, record.modified, changed);
        is_sealed && moment == (self.size, self.mtime.as_nanos(), Some(self.ctime.as_nanos()))
    }

    /// Returns `record` now that attributes of the file were changed, which was as `before`, and
    /// nothing else: it tells of the same bytes. One that did not tell of them, or where somebody
    /// wrote meanwhile, is returned as it is. With `sets_time`, the time of the last write was
    /// changed, too.
    #[must_use]
    pub fn with_new_attributes(&self, before: &Self, sets_time: bool, record: Record) -> Record {
        let is_same = (self.ino, self.size) == (before.ino, before.size)
            && (sets_time || self.mtime == before.mtime);
        if !is_same || !before.is_recorded(&record) {
            return record;
        }
        let changed = self.ctime.as_nanos();
        let file = record.file.map(|file| match file.copied {
            Some(_) => LocalFile { copied: Some(changed), ..file },
            None => LocalFile { changed, ..file },
        });
        Record { modified: self.mtime.as_nanos(), file, ..record }
    }

    /// Returns the artifact in the bucket whose bytes the file has, if they came from there after
    /// it was known by its record alone. Whoever wrote it since has recorded another file.
    pub fn far_origin<'a>(&self, record: &'a Record) -> Option<&'a str> {
        record.file.filter(|file| file.copied.is_some())?;
        let far = record.far.as_ref().filter(|far| far.here && self.is_recorded(record))?;
        Some(&far.origin)
    }

    /// Returns false if the file cannot be a copy that took the place of another one: a copy is
    /// younger than its bytes. So most files are known to be none without their records.
    pub fn may_be_copy(&self) -> bool {
        self.born.is_some_and(|born| born > self.mtime)
    }

    /// Returns the attributes of the file that was sealed, if this one took its place as `record`
    /// says; else its own.
    #[must_use]
    pub fn original(&self, record: &Record) -> Self {
        match record.file.filter(|file| file.copied.is_some() && self.is_recorded(record)) {
            Some(LocalFile { dev, ino, born, changed, .. }) => Self {
                dev,
                ino,
                born: born.map(Time::from_nanos),
                ctime: Time::from_nanos(changed),
                ..*self
            },
            None => *self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn at(seconds: i64) -> Time {
        Time { seconds, nanos: 7 }
    }

    /// Returns a file that was sealed at 20 s.
    fn sealed() -> Stat {
        let (born, mtime, ctime) = (Some(at(10)), at(15), at(20));
        Stat { ino: 5, size: 3, born, mtime, ctime, ..Stat::imagined() }
    }

    fn record() -> Record {
        let (stat, state) = (sealed(), ArtifactState::Sealed);
        let (size, modified) = (stat.size, stat.mtime.as_nanos());
        Record { state, size, modified, file: Some(stat.local_file()), ..Record::default() }
    }

    /// Returns a copy that took its place at 40 s, and the record of that.
    fn copy() -> (Stat, Record) {
        let copy = Stat { ino: 6, born: Some(at(30)), ctime: at(40), ..sealed() };
        let mut record = record();
        record.file.as_mut().unwrap().copied = Some(copy.ctime.as_nanos());
        (copy, record)
    }

    #[test]
    fn a_file_has_the_recorded_bytes_until_anything_changes() {
        let stat = sealed();
        assert!(stat.is_recorded(&record()));
        for other in [
            Stat { size: 4, ..stat },
            Stat { mtime: at(16), ..stat },
            Stat { ctime: at(21), ..stat },
        ] {
            assert!(!other.is_recorded(&record()), "{other:?}");
        }
        for state in [ArtifactState::Live, ArtifactState::Gone] {
            assert!(!stat.is_recorded(&Record { state, ..record() }));
        }
        assert!(!stat.is_recorded(&Record { file: None, ..record() }));
    }

    #[test]
    fn a_recorded_copy_stands_for_the_file_that_was_sealed() {
        let (copy, record) = copy();
        assert!(copy.is_recorded(&record) && copy.may_be_copy());
        assert_eq!(copy.original(&record), sealed());
        assert!(!sealed().is_recorded(&record), "the record is about the copy now");
    }

    #[test]
    fn a_record_follows_attributes_and_nothing_else() {
        let (copy, of_copy) = copy();
        for (before, of_it) in [(sealed(), record()), (copy, of_copy)] {
            let after = Stat { ctime: at(50), ..before };
            let followed = after.with_new_attributes(&before, false, of_it.clone());
            assert!(after.is_recorded(&followed));
            assert_eq!(after.original(&followed).ino, sealed().ino);
            let touched = Stat { mtime: at(1), ..after };
            assert!(touched.is_recorded(&touched.with_new_attributes(
                &before,
                true,
                of_it.clone()
            )));
            let written = [touched, Stat { size: 4, ..after }, Stat { ino: 9, ..after }];
            for written in written {
                let kept = written.with_new_attributes(&before, false, of_it.clone());
                assert_eq!(kept, of_it);
            }
            let unknown = Stat { ctime: at(49), ..before };
            assert_eq!(after.with_new_attributes(&unknown, false, of_it.clone()), of_it);
        }
    }

    #[test]
    fn any_other_file_stands_for_itself() {
        let (copy, of_copy) = copy();
        assert_eq!(sealed().original(&record()), sealed());
        assert_eq!(copy.original(&record()), copy, "nobody has recorded it");
        let changed = Stat { ctime: at(41), ..copy };
        assert_eq!(changed.original(&of_copy), changed);
        assert!(!sealed().may_be_copy());
        assert!(!Stat { born: None, ..copy }.may_be_copy());
    }

    #[test]
    fn times_before_the_epoch_are_recorded_like_others() {
        for nanos in [-1, 0, 1, -SECOND, SECOND - 1, -SECOND - 1] {
            assert_eq!(Time::from_nanos(nanos).as_nanos(), nanos);
        }
    }
}
