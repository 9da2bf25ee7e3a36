//! An output as a language model may read it.

use std::ffi::OsString;
use std::path::Path;

use crate::{Result, Tree, show};
use ctxfs_core::model::{Content, Subject, handle};
use ctxfs_models::extract::{Document, DocumentError, DocumentFacts};

/// The most bytes of a view that are read: a model gets some lines of it.
const MOST: usize = 1 << 20;

impl Tree {
    /// Passes the output at `path`, as [`Tree::open`] has it, to `read`: its text without escape
    /// sequences, with masks for secrets. Analyses what of it is not analysed yet.
    pub fn with_document<T>(
        &self,
        path: &Path,
        read: impl FnOnce(&dyn Document) -> T,
    ) -> Result<T> {
        let file = self.source(path)?;
        show::with_subject(&self.engine, &*file, |subject| {
            read(&OutputDocument {
                tree: self,
                path,
                content: subject.content,
                facts: facts(subject),
            })
        })
    }
}

/// An output of the store.
struct OutputDocument<'a> {
    tree: &'a Tree,
    /// Where it is in the tree.
    path: &'a Path,
    content: &'a dyn Content,
    facts: DocumentFacts,
}

fn facts(subject: &Subject<'_>) -> DocumentFacts {
    let Subject { record, place, analysis, content, .. } = subject;
    let handle = handle(record, place.conversation(), place.path());
    let name = handle.rsplit('/').next().unwrap_or_default().to_owned();
    DocumentFacts {
        tool: record.provenance.tool_name().unwrap_or_default(),
        arguments: record.provenance.args.clone().unwrap_or_default(),
        handle,
        name,
        digest: analysis.digest.clone(),
        bytes: content.len(),
        lines: analysis.lines,
        tokens: analysis.tokens,
        is_binary: analysis.is_binary(),
    }
}

impl Document for OutputDocument<'_> {
    fn facts(&self) -> &DocumentFacts {
        &self.facts
    }

    fn content(&self) -> &dyn Content {
        self.content
    }

    fn view(&self, name: &str) -> std::result::Result<String, DocumentError> {
        let mut path = OsString::from(self.path);
        path.push(".");
        path.push(name);
        let failed = |why: String| DocumentError::View { view: name.to_owned(), why };
        let opened = self.tree.open(Path::new(&path)).map_err(|error| failed(error.to_string()))?;
        let bytes = opened.uncounted(MOST)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Engine, EngineOptions};
    use ctxfs_core::model::Component;
    use ctxfs_store::Store;

    #[test]
    fn an_output_is_read_without_escape_sequences() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        store.create_conversation(&Component::new("c7").unwrap()).unwrap();
        let path = dir.path().join("context/c7/artifacts/tool/x.txt");
        std::fs::write(path, "one\n\x1b[31mERROR\x1b[0m two\nthree/four\n").unwrap();
        let tree = Tree::new(Engine::new(store, EngineOptions::default()));
        tree.with_document(Path::new("c7/artifacts/tool/x.txt"), |document| {
            let all = document.content().bytes(0, 1000).unwrap();
            assert_eq!(String::from_utf8(all).unwrap(), "one\nERROR two\nthree/four\n");
            assert_eq!((document.facts().lines, &*document.facts().handle), (3, "c7/x.txt"));
            assert_eq!(document.view("lines/2").unwrap(), "ERROR two\n");
            assert_eq!(document.view("grep/-F -e three%2Ffour").unwrap(), "3:three/four\n");
            assert!(document.view("lines/9").is_err() && document.view("nothing").is_err());
        })
        .unwrap();
        let other = |path: &str| tree.with_document(Path::new(path), |_| ());
        assert!(
            other("c7/artifacts/tool").is_err() && other("c7/artifacts/tool/x.txt.tail").is_err()
        );
        Arc::clone(&tree.engine).finish();
    }
}
