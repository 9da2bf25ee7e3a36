//! The records of an output: rows of a table, elements that repeat in markup, stanzas of
//! `name: value` lines, entries of a log, items of a JSON array, or simply lines.
//!
//! [`RecordForm::of`] tells the form from the beginning of the content. [`each`] then walks over
//! all records in one pass, in bounded memory. If the form is not certain, the records are lines.

mod blocks;
mod element;
mod elements;
mod fields;
mod items;
mod kinds;
mod markup;
mod record;
mod rows;
mod window;

use std::fmt;
use std::io;
use std::ops::ControlFlow;

use crate::model::Content;
use crate::records::window::Window;

pub use fields::Field;
pub use kinds::ElementKinds;
pub use record::{RECORD_BYTES, Record};
pub use rows::RowForm;

/// Number of bytes at the beginning of the content that determine the form.
const SAMPLE_BYTES: usize = 1 << 20;

/// The form of the records of some content.
///
/// - `Lines`: each line is a record
/// - `Rows`: the rows of a table below a header
/// - `Elements`: elements of HTML or XML of kinds that repeat
/// - `Items`: the items of a JSON array, which begins at this offset
/// - `Stanzas`: blocks of `name: value` lines, separated by blank lines
/// - `Entries`: lines that begin with a time, each with the lines that continue it
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub enum RecordForm {
    Lines,
    Rows(RowForm),
    Elements(ElementKinds),
    Items(u64),
    Stanzas,
    Entries,
}

impl RecordForm {
    /// Returns the form of the records of `content`, as its beginning tells it.
    pub fn of(content: &dyn Content) -> io::Result<Self> {
        let sample = content.bytes(0, SAMPLE_BYTES)?;
        let whole = sample.len() as u64 == content.len();
        Ok(Self::of_sample(&sample, whole))
    }

    fn of_sample(sample: &[u8], whole: bool) -> Self {
        if let Some(kinds) = ElementKinds::of(sample, whole) {
            return Self::Elements(kinds);
        }
        if let Some(start) = items::start(sample) {
            return Self::Items(start as u64);
        }
        if items::is_json(sample) {
            return Self::Lines;
        }
        if let Some(rows) = RowForm::of(sample, whole) {
            return Self::Rows(rows);
        }
        if blocks::are_stanzas(sample, whole) {
            return Self::Stanzas;
        }
        if blocks::are_entries(sample) { Self::Entries } else { Self::Lines }
    }

    /// Returns the fields of the record that begins at `start` with the text `record`, in order. A
    /// line or entry has one field without a name. For a row of an HTML table, `header` is the text
    /// of its header row. The places in `skipped`, which are in order, have no fields.
    pub fn fields(
        &self,
        (start, record): (u64, &[u8]),
        header: Option<&[u8]>,
        skipped: &[(u64, u64)],
    ) -> Vec<Field> {
        match self {
            Self::Rows(rows) => rows.fields(record),
            Self::Elements(kinds) => {
                let within = |at: u64| usize::try_from(at - start).unwrap_or(usize::MAX);
                let skipped = skipped.iter().map(|(from, to)| (within(*from), within(*to)));
                fields::of_element(record, header, skipped, kinds.is_html())
            }
            Self::Items(_) => items::fields(record),
            Self::Stanzas => blocks::fields(record),
            Self::Lines if items::is_json(record) => items::fields(record),
            Self::Lines | Self::Entries => vec![Field::unnamed(record)],
        }
    }
}

impl fmt::Display for RecordForm {
    /// Names the records in the plural: `rows of 7 columns`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lines => f.write_str("lines"),
            Self::Rows(rows) => write!(f, "rows of {} columns", rows.names().len()),
            Self::Elements(kinds) => write!(f, "elements ({kinds})"),
            Self::Items(_) => f.write_str("items of a JSON array"),
            Self::Stanzas => f.write_str("stanzas of `name: value` lines"),
            Self::Entries => f.write_str("log entries"),
        }
    }
}

/// Calls `visit` with each record of `content`, in the order in which the records end, until
/// `visit` breaks. Asks `expired` for each block that is read. If time runs out, returns the offset
/// of the first byte that belongs to no visited record.
pub fn each(
    content: &dyn Content,
    form: &RecordForm,
    expired: &dyn Fn() -> bool,
    visit: &mut dyn FnMut(&Record<'_>) -> ControlFlow<()>,
) -> io::Result<Option<u64>> {
    let mut window = Window::new(content, expired);
    match form {
        RecordForm::Elements(kinds) => elements::each(&mut window, kinds, visit),
        RecordForm::Items(start) => items::each(&mut window, *start, visit),
        RecordForm::Lines => blocks::each(&mut window, &blocks::line, visit),
        RecordForm::Stanzas => {
            blocks::each(&mut window, &blocks::stanza, &mut numbered(|_| true, visit))
        }
        RecordForm::Entries => {
            blocks::each(&mut window, &blocks::entry, &mut numbered(|_| true, visit))
        }
        RecordForm::Rows(rows) => {
            let row = |bytes: &[u8], ends: bool| rows.row_length(bytes, ends);
            let is_row = |record: &Record<'_>| rows.is_row(record);
            blocks::each(&mut window, &row, &mut numbered(is_row, visit))
        }
    }
}

/// Returns the text of a record or header row that is at `place`: at most [`RECORD_BYTES`].
pub fn read(content: &dyn Content, (start, end): (u64, u64)) -> io::Result<Vec<u8>> {
    content.bytes(start, (end - start).min(RECORD_BYTES as u64) as usize)
}

/// Returns a function that visits the records for which `is_record` is true, unless they are empty,
/// and numbers them.
fn numbered<'v>(
    is_record: impl Fn(&Record<'_>) -> bool + 'v,
    visit: &'v mut dyn FnMut(&Record<'_>) -> ControlFlow<()>,
) -> impl FnMut(&Record<'_>) -> ControlFlow<()> + 'v {
    let mut number = 0;
    move |record| {
        if record.text.is_empty() || !is_record(record) {
            return ControlFlow::Continue(());
        }
        number += 1;
        visit(&Record { number, ..*record })
    }
}

#[cfg(test)]
mod tests;
