//! The analysers of the forms of lines.

use crate::materialize::block::Block;
use crate::materialize::prose::ProseFinder;
use crate::materialize::repeated::RepeatedLines;
use crate::materialize::sections::SectionDetector;
use crate::model::Unlike;

/// The analysers of the forms of lines.
#[derive(Clone)]
pub(super) struct LineForms {
    pub(super) repeated: RepeatedLines,
    pub(super) prose: ProseFinder,
    pub(super) sections: SectionDetector,
}

impl LineForms {
    pub(super) fn push(&mut self, block: Block<'_>) {
        self.repeated.push(block.bytes);
        self.prose.push(block.bytes);
        self.sections.push(block);
    }

    pub(super) fn unlike(&self) -> Vec<Unlike> {
        let prose = self.prose.finish();
        if prose.is_empty() { self.repeated.unlike() } else { prose }
    }
}

impl Default for LineForms {
    fn default() -> Self {
        let (repeated, sections) = (RepeatedLines::new(), SectionDetector::new());
        Self { repeated, prose: ProseFinder::default(), sections }
    }
}
