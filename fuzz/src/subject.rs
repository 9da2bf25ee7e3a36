//! An artifact in memory, made of arbitrary bytes.

use ctxfs_core::materialize::{Analyzer, strip_escapes};
use ctxfs_core::model::{Analysis, Earlier, Limits, NoFilters, Place, Record, RelPath, Subject};
use ctxfs_view::{RenderError, View, render};

const PATH: &str = "artifacts/tool/9f3k.txt";

pub(super) struct Artifact {
    bytes: Vec<u8>,
    analysis: Analysis,
    record: Record,
    place: Place,
    limits: Limits,
}

impl Artifact {
    pub(super) fn new(bytes: &[u8]) -> Self {
        let mut analyzer = Analyzer::new();
        analyzer.push(bytes);
        let analysis = analyzer.finish();
        let text = analysis.plain.map_or_else(|| bytes.to_vec(), |_| strip_escapes(bytes));
        Self {
            bytes: text,
            analysis: analysis.of_text(),
            record: Record { path: PATH.to_owned(), generation: 1, ..Record::default() },
            place: Place::new("/ctx", "c7", &RelPath::new(PATH).expect("a path")),
            limits: Limits::default(),
        }
    }

    /// Returns the bytes that views show. For terminal output, these are the bytes of its plain
    /// text.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn analysis(&self) -> &Analysis {
        &self.analysis
    }

    /// Returns the content of `view`, including notices. Returns `None` if there is no such view.
    ///
    /// Asserts that a second rendering is equal.
    pub(super) fn show(&self, view: &View) -> Option<Vec<u8>> {
        let shown = self.once(view);
        assert_eq!(shown, self.once(view), "{view} differs the second time");
        shown
    }

    fn once(&self, view: &View) -> Option<Vec<u8>> {
        let subject = Subject {
            content: &self.bytes,
            analysis: &self.analysis,
            record: &self.record,
            place: &self.place,
            limits: &self.limits,
            same_name: &[],
            redacts: None,
            filters: &NoFilters,
            earlier: Earlier::None,
        };
        let mut out = Vec::new();
        match render(view, &subject, &|| false, &mut out) {
            Ok(rendered) => {
                assert!(rendered.whole, "{view} is not whole without a deadline");
                let notice = rendered.notice.unwrap_or_default();
                let lines = notice.lines().all(|line| line.starts_with("# "));
                assert!(lines && (notice.is_empty() || notice.ends_with('\n')), "{view}: {notice}");
                Some([notice.as_bytes(), &out].concat())
            }
            Err(RenderError::NotFound) => None,
            Err(RenderError::Io(error)) => panic!("{view}: {error}"),
        }
    }
}
