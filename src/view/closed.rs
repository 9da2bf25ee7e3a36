use crate::number::counted;

/// The number of artifacts and directories that a text about many artifacts leaves out because its
/// reader may not read them. A directory stands for everything below it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClosedToReader {
    /// Artifacts in directories that the reader may read.
    pub artifacts: u64,
    /// Directories that the reader may not read.
    pub directories: u64,
}

impl ClosedToReader {
    /// Returns `2 artifacts and 1 directory are closed to you`, or `None` if nothing is.
    pub(super) fn text(self) -> Option<String> {
        let artifacts = counted(self.artifacts, "artifact");
        let directories = match self.directories {
            1 => "1 directory".to_owned(),
            more => format!("{more} directories"),
        };
        let verb = if self.artifacts + self.directories == 1 { "is" } else { "are" };
        let what = match (self.artifacts, self.directories) {
            (0, 0) => return None,
            (_, 0) => artifacts,
            (0, _) => directories,
            _ => format!("{artifacts} and {directories}"),
        };
        Some(format!("{what} {verb} closed to you"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_how_many() {
        for (artifacts, directories, want) in [
            (0, 0, None),
            (1, 0, Some("1 artifact is closed to you")),
            (0, 2, Some("2 directories are closed to you")),
            (1200, 1, Some("1,200 artifacts and 1 directory are closed to you")),
        ] {
            let closed = ClosedToReader { artifacts, directories };
            assert_eq!(closed.text().as_deref(), want);
        }
    }
}
