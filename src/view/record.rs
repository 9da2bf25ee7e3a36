//! `.records`: what the records of an output are. `.record/<number>`: one of them, as its fields.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::Write;
use std::ops::ControlFlow;
use std::{fmt, io};

use crate::number::{counted, grouped};
use crate::{RenderError, Rendered, range};
use ctxfs_core::model::Subject;
use ctxfs_core::records::{self, Record, RecordForm};

// Number of records whose fields are described, and maximum number of fields that are named.
const DESCRIBED_RECORDS: u64 = 200;
const MAX_NAMES: usize = 60;
// Maximum number of fields that are counted.
const MAX_FIELDS: usize = 4096;
// Number of values of a field that are shown as examples, and the characters of each.
const EXAMPLES: usize = 3;
const EXAMPLE_CHARS: usize = 40;
// Bytes that are reserved for a notice, not counting the path in it.
const NOTICE_BYTES: usize = 300;

/// The number of a record, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RecordNumber(u64);

impl RecordNumber {
    // Parses a canonical number.
    pub(super) fn parse(name: &OsStr) -> Option<Self> {
        range::number(name.to_str()?.trim()).map(Self)
    }
}

impl fmt::Display for RecordNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A record that was found, with all that its fields need.
struct FoundRecord {
    line: u64,
    start: u64,
    length: u64,
    text: Vec<u8>,
    header: Option<Vec<u8>>,
}

pub(super) fn render(
    subject: &Subject<'_>,
    number: RecordNumber,
    expired: &dyn Fn() -> bool,
    out: &mut dyn Write,
) -> Result<Rendered, RenderError> {
    let content = subject.content;
    let form = RecordForm::of(content)?;
    let mut found: Option<io::Result<FoundRecord>> = None;
    let late = records::each(content, &form, expired, &mut |record: &Record<'_>| {
        if record.number < number.0 {
            return ControlFlow::Continue(());
        }
        let parts = || -> io::Result<FoundRecord> {
            let Record { line, start, end, header, .. } = *record;
            let text = records::read(content, (start, end))?;
            let header = header.map(|place| records::read(content, place)).transpose()?;
            Ok(FoundRecord { line, start, length: end - start, text, header })
        };
        found = Some(parts());
        ControlFlow::Break(())
    })?;
    let Some(found) = found else {
        return match late {
            Some(offset) => Ok(Rendered::out_of_time_after(offset, content.len())),
            None => Err(RenderError::NotFound),
        };
    };
    let FoundRecord { line, start, length, text, header } = found?;
    let fields = form.fields((start, &text), header.as_deref(), &[]);
    let mut room = subject.view_bytes().saturating_sub(NOTICE_BYTES + subject.place.file().len());
    let mut shown = 0;
    for field in &fields {
        let line = format!("{field}\n");
        let Some(left) = room.checked_sub(line.len()) else { break };
        room = left;
        shown += 1;
        out.write_all(line.as_bytes())?;
    }
    let all = fields.len();
    let cut = if shown < all || length > text.len() as u64 {
        let of = counted(all as u64, "field");
        let lines = subject.place.of_view(&format!(".lines/{line}+20")).file();
        format!(": the first {} of {of}; the bytes: {lines}", grouped(shown as u64))
    } else {
        String::new()
    };
    let bytes = counted(length, "byte");
    Ok(Rendered::noted(format!("# record {number}, from line {line}, {bytes}{cut}\n")))
}

/// The values of one field in the first records. `last` is the number of the last record with the
/// field.
struct FieldValues {
    name: String,
    records: u64,
    last: u64,
    examples: Vec<String>,
}

/// The count of all records, the places of the first and last, and the fields of the first ones.
#[derive(Default)]
struct RecordOverview {
    count: u64,
    first: u64,
    last: u64,
    fields: Vec<FieldValues>,
    numbers: HashMap<String, usize>,
}

impl RecordOverview {
    fn add(&mut self, form: &RecordForm, record: &Record<'_>, header: Option<&[u8]>) {
        self.count += 1;
        self.first = if self.count == 1 { record.line } else { self.first.min(record.line) };
        self.last = self.last.max(record.line);
        if self.count > DESCRIBED_RECORDS {
            return;
        }
        for field in form.fields((record.start, record.text), header, record.inner) {
            let known = self.numbers.get(&field.name).copied();
            if field.name.is_empty() || known.is_none() && self.fields.len() == MAX_FIELDS {
                continue;
            }
            let number = known.unwrap_or_else(|| {
                let (name, number) = (field.name.clone(), self.fields.len());
                self.numbers.insert(name.clone(), number);
                self.fields.push(FieldValues { name, records: 0, last: 0, examples: Vec::new() });
                number
            });
            let values = &mut self.fields[number];
            if values.last < self.count {
                values.last = self.count;
                values.records += 1;
            }
            let example = crate::cleaned(&field.value, EXAMPLE_CHARS);
            let is_new = !example.is_empty() && !values.examples.contains(&example);
            if is_new && values.examples.len() < EXAMPLES {
                values.examples.push(example);
            }
        }
    }
}

pub(super) fn render_all(
    subject: &Subject<'_>,
    expired: &dyn Fn() -> bool,
    out: &mut dyn Write,
) -> Result<Rendered, RenderError> {
    let (content, place) = (subject.content, subject.place);
    let form = RecordForm::of(content)?;
    let mut overview = RecordOverview::default();
    let late = records::each(content, &form, expired, &mut |record| {
        let header = record.header.filter(|_| overview.count < DESCRIBED_RECORDS);
        let header = header.and_then(|place| records::read(content, place).ok());
        overview.add(&form, record, header.as_deref());
        ControlFlow::Continue(())
    })?;
    let RecordOverview { count, first, last, fields, .. } = overview;
    let at_least = if late.is_some() { "at least " } else { "" };
    writeln!(out, "{at_least}{}: {form}", counted(count, "record"))?;
    if count > 0 {
        writeln!(out, "lines: {} to {}", grouped(first), grouped(last))?;
    }
    if !fields.is_empty() {
        let of = count.min(DESCRIBED_RECORDS);
        let among =
            if of < count { format!(" of the first {}", grouped(of)) } else { String::new() };
        let at_least = if fields.len() == MAX_FIELDS { "at least " } else { "" };
        writeln!(out, "\n{at_least}{}{among}:", counted(fields.len() as u64, "field"))?;
    }
    let mut room = subject.view_bytes() / 2;
    for field in fields.iter().take(MAX_NAMES) {
        let few = if field.records < count.min(DESCRIBED_RECORDS) {
            format!(" (in {})", grouped(field.records))
        } else {
            String::new()
        };
        let name = crate::cleaned(&field.name, 2 * EXAMPLE_CHARS);
        let line = format!("  {name}{few}: {}\n", field.examples.join(" | "));
        let Some(left) = room.checked_sub(line.len()) else { break };
        room = left;
        out.write_all(line.as_bytes())?;
    }
    if fields.len() > MAX_NAMES {
        writeln!(out, "  ... and {} more", grouped((fields.len() - MAX_NAMES) as u64))?;
    }
    let one = place.of_view(".record/1").file();
    let find = place.of_view(".find/WORDS").file();
    writeln!(out, "\none record: {one}\nrecords with some words: {find}")?;
    Ok(match late {
        Some(offset) => Rendered::out_of_time_after(offset, content.len()),
        None => Rendered::plain(),
    })
}

#[cfg(test)]
mod tests {
    use crate::fixture::Fixture;
    use crate::{RenderError, View, ViewDir};
    use std::ffi::OsStr;

    const TABLE: &str = "id,name,note\n1,ann,\"two\nlines\"\n2,bob,\n3,cyd,x\n";

    fn record(text: &str, number: &str) -> String {
        Fixture::new(text).text(&ViewDir::Record.view(OsStr::new(number)).unwrap())
    }

    #[test]
    fn a_record_is_its_fields() {
        let want = "# record 1, from line 2, 17 bytes\nid: 1\nname: ann\nnote: two lines\n";
        assert_eq!(record(TABLE, "1"), want);
        assert_eq!(
            record(TABLE, "2"),
            "# record 2, from line 4, 6 bytes\nid: 2\nname: bob\nnote: \n"
        );
        assert_eq!(record("one\ntwo\n", "2"), "# record 2, from line 2, 3 bytes\ntwo\n");
    }

    #[test]
    fn there_are_no_others() {
        let view = |name: &str| ViewDir::Record.view(OsStr::new(name));
        let beyond = Fixture::new(TABLE).render(&view("4").unwrap());
        assert!(matches!(beyond, Err(RenderError::NotFound)));
        for name in ["0", "01", "-1", "", "x", "1.5"] {
            assert_eq!(view(name), None, "{name}");
        }
    }

    #[test]
    fn records_are_described() {
        let want = "\
3 records: rows of 3 columns
lines: 2 to 5

3 fields:
  id: 1 | 2 | 3
  name: ann | bob | cyd
  note: two lines | x

one record: /ctx/c7/artifacts/tool/9f3k.txt.record/1
records with some words: /ctx/c7/artifacts/tool/9f3k.txt.find/WORDS
";
        assert_eq!(Fixture::new(TABLE).text(&View::Records), want);
    }

    #[test]
    fn a_wide_row_is_cut_and_says_so() {
        let names: Vec<String> = (0..5000).map(|n| format!("column_{n}")).collect();
        let row: Vec<String> = (0..5000).map(|n| format!("value {n}")).collect();
        let text = format!("{}\n{}\n{}\n", names.join(","), row.join(","), row.join(","));
        let shown = record(&text, "2");
        assert!(shown.starts_with("# record 2, from line 3, 53,889 bytes: the first "), "{shown}");
        assert!(shown.contains("\ncolumn_17: value 17\n"), "{shown}");
    }
}
