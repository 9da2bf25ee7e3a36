//! The logs of terminals: views see their text, without escape sequences.

use std::sync::Arc;

use crate::fs::Result;
use crate::fs::Shared;
use crate::fs::analysis::Found;
use crate::fs::file::FileNode;
use crate::fs::node::Node;
use crate::materialize::PlainText;
use crate::model::Analysis;
use crate::model::Content as _;
use crate::model::Errors;
use crate::model::Sections;
use crate::store::Artifact;
use crate::store::stat_file;

impl Shared {
    /// The text of `log`, a file of which `found` is known, where that is less than the log; what is
    /// known is then that of the text.
    ///
    /// The text ends where the analysis did.
    pub(crate) fn text_of(
        &self,
        file: &FileNode,
        log: &Artifact,
        found: &mut Found,
        expired: &dyn Fn() -> bool,
    ) -> Result<Option<PlainText<Artifact>>> {
        let bytes = found.analysis.bytes;
        if bytes == log.len() && !found.analysis.has_escapes() {
            return Ok(None);
        }
        if file.analysed() < bytes {
            // A recorded analysis has no marks; without some, the text is found all the same.
            file.analyse(log.file(), bytes, expired, &self.counters.bytes_analysed)?;
        }
        let log = Artifact::new(Arc::clone(log.file()), bytes);
        let text = PlainText::new(log, file.checkpoints())?;
        found.analysis = Arc::new(found.analysis.of_text());
        Ok(Some(text))
    }

    /// Bytes that the views of `node` are made of: of a log, those of its text.
    pub(crate) fn text_length(&self, node: &Node) -> Result<u64> {
        let file = node.as_file()?;
        if !file.is_terminal_log() {
            return Ok(file.stat()?.size);
        }
        let reader = file.reader()?;
        let record = self.record(node, &stat_file(&reader)?)?;
        let expired = crate::fs::views::until(self.options.view_deadline);
        let analysis = self.analysis(node, &reader, Some(&record), &expired)?.analysis;
        Ok(analysis.of_text().bytes)
    }
}

/// What is known of the first bytes of a log, for whoever sees its bytes: no place in the text.
pub(crate) fn without_places(analysis: &Analysis) -> Analysis {
    Analysis {
        plain: None,
        errors: Errors::default(),
        repeated: Vec::new(),
        sections: Sections::default(),
        ..analysis.clone()
    }
}
