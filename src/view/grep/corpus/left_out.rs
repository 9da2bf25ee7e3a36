//! The artifacts below a directory, as searches see them, and those that a search leaves out.

use crate::ClosedToReader;
use crate::grep::corpus::Corpus;
use crate::number::counted;

// For the names of artifacts in one notice.
const NAMES_BYTES: usize = 1000;

/// The artifacts and places that a search leaves out. Closed artifacts, which the reader may not
/// read, are counted without their names.
#[derive(Default)]
pub(crate) struct LeftOut {
    pub(crate) closed: u64,
    pub(crate) binary: NameList,
    pub(crate) unreadable: NameList,
    closed_directories: u64,
    unlisted: NameList,
}

// Their number, and the first of their names.
#[derive(Default)]
pub(crate) struct NameList {
    count: u64,
    shown: Vec<String>,
}

impl LeftOut {
    /// Adds the places that `corpus` leaves out itself.
    pub(crate) fn of(self, corpus: &dyn Corpus) -> Self {
        let unlisted = NameList::of(corpus.unlisted());
        Self { closed_directories: corpus.closed_directories(), unlisted, ..self }
    }

    /// Returns true if another attempt would leave out the same.
    pub(crate) fn is_final(&self) -> bool {
        self.unreadable.count() == 0 && self.unlisted.count() == 0
    }

    /// Returns the lines of the notice that name what is left out.
    pub(crate) fn lines(&self) -> Vec<String> {
        let lines =
            [self.closed_line(), self.binary_line(), self.unreadable_line(), self.unlisted_line()];
        lines.into_iter().flatten().collect()
    }

    fn closed_line(&self) -> Option<String> {
        let closed =
            ClosedToReader { artifacts: self.closed, directories: self.closed_directories };
        Some(format!("{}, and not searched", closed.text()?))
    }

    fn binary_line(&self) -> Option<String> {
        let names = some(&self.binary)?;
        let verb = if names.count() == 1 { "is" } else { "are" };
        let artifacts = counted(names.count(), "artifact");
        Some(format!("{artifacts} {verb} not text, and not searched: {}", names.text()))
    }

    fn unreadable_line(&self) -> Option<String> {
        let names = some(&self.unreadable)?;
        let artifacts = counted(names.count(), "artifact");
        Some(format!("{artifacts} could not be read: {}", names.text()))
    }

    fn unlisted_line(&self) -> Option<String> {
        let names = some(&self.unlisted)?;
        let places = counted(names.count(), "place");
        Some(format!("{places} could not be read, and not searched: {}", names.text()))
    }
}

fn some(names: &NameList) -> Option<&NameList> {
    Some(names).filter(|names| names.count() > 0)
}

impl NameList {
    /// Creates a list of `count` names, of which the first are given.
    pub(crate) fn of((count, first): (u64, Vec<String>)) -> Self {
        let mut names = Self::default();
        for name in first {
            names.push(name);
        }
        Self { count, ..names }
    }

    pub(crate) fn push(&mut self, name: String) {
        self.count += 1;
        let bytes: usize = self.shown.iter().map(String::len).sum();
        if bytes + name.len() <= NAMES_BYTES && self.shown.len() as u64 == self.count - 1 {
            self.shown.push(name);
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Returns `a, b and 3 more`.
    pub(crate) fn text(&self) -> String {
        let shown = self.shown.join(", ");
        match self.count - self.shown.len() as u64 {
            0 => shown,
            more if shown.is_empty() => format!("{more} with long names"),
            more => format!("{shown} and {more} more"),
        }
    }
}
