//! Outputs whose names may come from one name: they differ by digits of an origin alone.

use crate::{Conversation, StoreError};
use ctxfs_core::model::{RelPath, without_digits};

impl Conversation {
    /// Returns the outputs that are there and whose names may come from one name with that of the
    /// output at `path`, in the order of their names: `x~3f09ab.txt` for `x.txt`, and the other way
    /// round. Only who knows what other hosts wrote can tell whether they do.
    ///
    /// Costs one `stat` where there is none.
    pub fn alike(&self, path: &RelPath) -> Result<Vec<RelPath>, StoreError> {
        let mut alike = Vec::new();
        if !path.is_artifact() {
            return Ok(alike);
        }
        let text = path.to_text();
        for record in self.manifest().with_digits(&text)? {
            alike.extend(RelPath::from_text(&record?.path).ok());
        }
        alike.extend(without_digits(&text).and_then(|plain| RelPath::from_text(&plain).ok()));
        let mut there = Vec::new();
        for path in alike {
            if self.has_output(&path)? {
                there.push(path);
            }
        }
        there.sort_unstable();
        Ok(there)
    }

    /// Returns true if there is an output at `path`, wherever its bytes are.
    fn has_output(&self, path: &RelPath) -> Result<bool, StoreError> {
        let is_here = path.is_artifact() && self.dir().stat_at(path).is_ok();
        Ok(is_here || self.far(path)?.is_some())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{ArtifactWriter, Store};
    use ctxfs_core::model::{Component, Folder, Provenance};

    #[test]
    fn names_that_differ_by_digits_are_alike_while_their_outputs_are_there() {
        let temporary = tempfile::tempdir().unwrap();
        let store = Store::open(temporary.path()).unwrap();
        let conversation = store.create_conversation(&Component::new("c7").unwrap()).unwrap();
        for call in ["x", "x~3f09ab", "x~77aa01", "x~none", "y~3f09ab"] {
            let provenance = Provenance::default();
            let writer =
                ArtifactWriter::create_for_call(&conversation, Folder::Tool, call, provenance);
            writer.and_then(ArtifactWriter::seal).unwrap();
        }
        let at = |name: &str| RelPath::new(format!("artifacts/tool/{name}")).unwrap();
        let alike = |name: &str| {
            let found = conversation.alike(&at(name)).unwrap().into_iter();
            found.map(|path| path.file_name().to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(alike("x.txt"), ["x~3f09ab.txt", "x~77aa01.txt"]);
        assert_eq!(alike("x~77aa01.txt"), ["x.txt"]);
        for name in ["x~none.txt", "y~3f09ab.txt", "z.txt", "x~3f09ab.log"] {
            assert_eq!(alike(name), [""; 0], "{name}");
        }
        let tool = temporary.path().join("context/c7/artifacts/tool");
        fs::remove_file(tool.join("x~3f09ab.txt")).unwrap();
        assert_eq!(alike("x.txt"), ["x~77aa01.txt"]);
        fs::remove_file(tool.join("x.txt")).unwrap();
        assert_eq!(alike("x~77aa01.txt"), [""; 0]);
    }
}
