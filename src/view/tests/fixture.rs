//! Subjects for the tests of views.

#![allow(
    dead_code,
    missing_debug_implementations,
    missing_docs,
    clippy::unwrap_used,
    reason = "a fixture, of which tests of other crates use a part"
)]

use std::ffi::OsStr;
use std::io;

use crate::catalog::CATALOG;
use crate::{Derived, RenderCost, RenderError, Rendered, View, ViewDir, render, run_filter};
use ctxfs_core::materialize::{analyze, decode, is_binary};
use ctxfs_core::model::{
    Analysis, Earlier, Encoding, Errors, Feed, FilterOutcome, Filters, Json, Limits, LooseJson,
    Place, Provenance, Reading, Record, Redactor, RelPath, Sections, Subject,
};
use ctxfs_core::redact::SecretRules;

/// Returns views of each type in the catalog. Directories have several views with different
/// arguments.
pub fn every_view() -> Vec<View> {
    let named = |derived: &Derived| match derived {
        Derived::File(view) => vec![view.clone()],
        Derived::Dir(dir) => {
            let views = arguments(*dir).iter().map(|name| dir.view(OsStr::new(name)).unwrap());
            views.collect()
        }
    };
    let rendered = CATALOG.iter().filter(|derived| derived.cost() != RenderCost::Model);
    rendered.flat_map(named).collect()
}

fn arguments(dir: ViewDir) -> &'static [&'static str] {
    match dir {
        ViewDir::Grep => &["e", "-v qqq", "-m0 -o .*", "-i -C3 [a-z]", "-c ."],
        ViewDir::Find => &["error e", "why is the value 2 late", "qqq"],
        ViewDir::Lines => &["1-400", "-50", "2"],
        ViewDir::Jq => &[".", "-r ..", "-c .", "-r .value|fromjson?|..", "-m0 -r .value"],
        ViewDir::Pages => &["0001", "0002"],
        ViewDir::Record => &["1", "2"],
        ViewDir::Extract => &["why?"],
        ViewDir::SinceRun => &["1"],
    }
}

/// Runs filters in this process. That is safe because the filters of tests do no harm.
pub struct InProcess;

impl Filters for InProcess {
    fn run(
        &self,
        feed: &Feed<'_>,
        expired: &dyn Fn() -> bool,
        take: &mut dyn FnMut(&[u8]) -> io::Result<bool>,
    ) -> io::Result<FilterOutcome> {
        let (mut input, mut output) = (Vec::new(), Vec::new());
        feed(&mut input, &|| false)?;
        run_filter(&mut input.as_slice(), &mut output)?;
        for piece in output.chunks(1000) {
            if expired() {
                return Ok(FilterOutcome::OutOfTime);
            }
            if !take(piece)? {
                return Ok(FilterOutcome::Enough);
            }
        }
        Ok(FilterOutcome::Done)
    }
}

/// An artifact, by default at `/ctx/c7/artifacts/tool/9f3k.txt`.
pub struct Fixture {
    pub bytes: Vec<u8>,
    pub analysis: Analysis,
    pub(super) record: Record,
    pub(super) place: Place,
    pub(super) limits: Limits,
    pub(super) same_name: Vec<String>,
    pub(super) redacts: Option<SecretRules>,
}

impl Fixture {
    /// Creates a fixture with a minimal analysis of `bytes`: no JSON, no errors.
    pub(super) fn new(bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        let analysis = analysis(&bytes);
        let record = Record { generation: 1, created: 1_763_755_200_000, ..Record::default() };
        let mut fixture = Self {
            bytes,
            analysis,
            record,
            place: place("artifacts/tool/9f3k.txt"),
            limits: Limits::default(),
            same_name: Vec::new(),
            redacts: None,
        };
        fixture.at("artifacts/tool/9f3k.txt");
        fixture
    }

    /// Creates a fixture with the real analysis of `bytes`. Its content is the decoded text that
    /// views show.
    pub fn analysed(bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = bytes.into();
        let analysis = analyze(&bytes).unwrap();
        let mut fixture = Self::new(decode(&bytes, analysis.reading));
        fixture.record.size = analysis.bytes;
        fixture.analysis = analysis.of_text();
        fixture
    }

    pub(super) fn at(&mut self, path: &str) {
        self.place = place(path);
        path.clone_into(&mut self.record.path);
    }

    pub(super) fn provenance(mut self, provenance: Provenance) -> Self {
        self.record.provenance = provenance;
        self
    }

    pub(super) fn subject(&self) -> Subject<'_> {
        Subject {
            content: &self.bytes,
            analysis: &self.analysis,
            record: &self.record,
            place: &self.place,
            limits: &self.limits,
            same_name: &self.same_name,
            redacts: self.redacts.as_ref().map(|rules| rules as &dyn Redactor),
            filters: &InProcess,
            earlier: Earlier::None,
        }
    }

    /// Renders `view`. Returns the text that was written, and the result of rendering.
    pub fn render(&self, view: &View) -> Result<(Vec<u8>, Rendered), RenderError> {
        self.render_until(view, &|| false)
    }

    pub(super) fn render_until(
        &self,
        view: &View,
        expired: &dyn Fn() -> bool,
    ) -> Result<(Vec<u8>, Rendered), RenderError> {
        let mut out = Vec::new();
        let rendered = render(view, &self.subject(), expired, &mut out)?;
        Ok((out, rendered))
    }

    /// Returns the whole text of the view as a reader sees it.
    pub(super) fn bytes(&self, view: &View) -> Vec<u8> {
        let (body, rendered) = self.render(view).unwrap();
        [rendered.notice.unwrap_or_default().into_bytes(), body].concat()
    }

    pub(super) fn text(&self, view: &View) -> String {
        String::from_utf8(self.bytes(view)).unwrap()
    }
}

fn place(path: &str) -> Place {
    Place::new("/ctx", "c7", &RelPath::new(path).unwrap())
}

fn analysis(bytes: &[u8]) -> Analysis {
    let text = String::from_utf8_lossy(bytes);
    let encoding = match (is_binary(bytes), bytes.is_ascii(), str::from_utf8(bytes)) {
        (true, ..) => Encoding::Binary,
        (_, true, _) => Encoding::Ascii,
        (.., Ok(_)) => Encoding::Utf8,
        (.., Err(_)) => Encoding::Broken,
    };
    let lines = text.split_inclusive('\n');
    let chars = |line: &str| line.trim_end_matches('\n').chars().count() as u64;
    Analysis {
        loose: LooseJson::default(),
        bytes: bytes.len() as u64,
        chars: text.chars().count() as u64,
        lines: lines.clone().count() as u64,
        longest_line: lines.map(chars).max().unwrap_or(0),
        encoding,
        tokens: text.chars().count() as u64 / 4,
        json: Json::No,
        errors: Errors::default(),
        digest: "00".repeat(32),
        mime: if encoding == Encoding::Binary { "application/octet-stream" } else { "text/plain" }
            .to_owned(),
        trouble: Vec::new(),
        unlike: Vec::new(),
        statuses: Vec::new(),
        repeated: Vec::new(),
        sections: Sections::default(),
        plain: None,
        reading: Reading::default(),
        charset: None,
        overdrawn: 0,
        shortcuts: None,
        version: Analysis::VERSION,
    }
}
