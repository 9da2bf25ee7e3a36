use std::fmt;

use crate::position::TextPosition;
use crate::range;
use ctxfs_core::model::RelPath;

/// A place in one of many artifacts: `x.txt:5821`, `x.txt:5821@77`.
///
/// The path is the text of a `RelPath`, with `%20` for a blank and `%25` for `%`. `shown` is the
/// number of matching lines of the artifact that were shown before and count for `-m`:
/// `x.txt:5821+3`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ResumePoint {
    pub(crate) artifact: RelPath,
    pub(crate) at: TextPosition,
    pub(crate) shown: u64,
}

impl ResumePoint {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (artifact, at) = text.rsplit_once(':').filter(|(artifact, _)| !artifact.is_empty())?;
        let (at, shown) = match at.split_once('+') {
            Some((at, shown)) => (at, range::number(shown)?),
            None => (at, 0),
        };
        // In this order, because the `%` of `%25` begins no other escape.
        let artifact = artifact.replace("%20", " ").replace("%25", "%");
        Some(Self {
            artifact: RelPath::from_text(&artifact).ok()?,
            at: TextPosition::parse(at)?,
            shown,
        })
    }
}

impl fmt::Display for ResumePoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let artifact = self.artifact.to_text().replace('%', "%25").replace(' ', "%20");
        write!(f, "{artifact}:{}", self.at)?;
        if self.shown > 0 { write!(f, "+{}", self.shown) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    use proptest::prelude::*;

    use super::*;

    fn mark(artifact: &[u8], line: u64, column: u64, shown: u64) -> Option<ResumePoint> {
        let artifact = RelPath::new(OsStr::from_bytes(artifact)).ok()?;
        Some(ResumePoint { artifact, at: TextPosition { line, column }, shown })
    }

    #[test]
    fn forms() {
        let cases = [
            ("x.txt:5821", mark(b"x.txt", 5821, 1, 0)),
            ("tool/x.txt:5@77", mark(b"tool/x.txt", 5, 77, 0)),
            ("x.txt:5+3", mark(b"x.txt", 5, 1, 3)),
            ("x.txt:5@77+3", mark(b"x.txt", 5, 77, 3)),
            ("a%20b%25:c:1", mark(b"a b%:c", 1, 1, 0)),
            ("%2520:1", mark(b"%20", 1, 1, 0)),
            ("gr\u{fc}n\\xff:1", mark(b"gr\xc3\xbcn\xff", 1, 1, 0)),
        ];
        for (text, want) in cases {
            assert_eq!(want.as_ref().unwrap().to_string(), text);
            assert_eq!(ResumePoint::parse(text), want);
        }
        assert_eq!(ResumePoint::parse("5%+:1"), mark(b"5%+", 1, 1, 0));
        for text in
            ["", "x", "5", ":5", "x:", "x:0", "x:05", "x:1+", "x:1+0", "x:1@", "x:-1", "../x:1"]
        {
            assert_eq!(ResumePoint::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn marks_come_back(
            artifact in proptest::collection::vec(any::<u8>(), 1..20),
            line in 1u64.., column in 1u64.., shown in 0u64..,
        ) {
            if let Some(mark) = mark(&artifact, line, column, shown) {
                prop_assert_eq!(ResumePoint::parse(&mark.to_string()), Some(mark));
            }
        }
    }
}
