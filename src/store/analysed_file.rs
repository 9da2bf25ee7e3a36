//! A file that is analysed while it is written.

use std::fs::File;
use std::io;
use std::io::Write;

use ctxfs_core::materialize::Analyzer;
use ctxfs_core::model::Analysis;

/// A file whose bytes are analysed on their way to it.
///
/// The analysis covers the bytes that were written through this, from the first one on.
pub struct AnalysedFile {
    file: File,
    analyzer: Analyzer,
}

impl AnalysedFile {
    /// Returns a writer to the empty `file`.
    pub fn new(file: File, analyzer: Analyzer) -> Self {
        Self { file, analyzer }
    }

    /// Returns the file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Returns the number of bytes written so far.
    pub fn written(&self) -> u64 {
        self.analyzer.seen()
    }

    /// Returns the analysis of the bytes written so far.
    pub fn analysis(&self) -> Analysis {
        self.analyzer.finish()
    }

    /// Returns the file and the analysis of its bytes.
    pub fn into_parts(self) -> (File, Analysis) {
        let analysis = self.analysis();
        (self.file, analysis)
    }
}

impl Write for AnalysedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.analyzer.push(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl std::fmt::Debug for AnalysedFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AnalysedFile").field("file", &self.file).finish_non_exhaustive()
    }
}
