//! The fields of a record: its values, each with a name if it has one.

use std::fmt;

use crate::records::markup::{self, Token};

/// Elements of HTML that are parts of a text.
const INLINE: [&[u8]; 20] = [
    b"a", b"abbr", b"b", b"br", b"code", b"del", b"em", b"i", b"ins", b"kbd", b"mark", b"s",
    b"small", b"span", b"strong", b"sub", b"sup", b"time", b"u", b"wbr",
];
/// Maximum number of fields of an element.
const MAX_FIELDS: usize = 4096;

/// A value of a record.
///
/// - `name`: the name of its column, element, class, attribute or key, or empty
/// - `value`: the value on one line
/// - `start`, `end`: its place, as offsets in the text of the record
/// - `is_attribute`: true for an attribute of markup, which is not part of the text
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub struct Field {
    pub name: String,
    pub value: String,
    pub start: usize,
    pub end: usize,
    pub is_attribute: bool,
}

impl Field {
    pub(super) fn new(name: String, value: &[u8], (start, end): (usize, usize)) -> Self {
        let mut text = String::new();
        markup::push_text(value, true, &mut text);
        text.truncate(text.trim_end().len());
        Self { name, value: text, start, end, is_attribute: false }
    }

    /// Returns the only field of a record without names.
    pub(super) fn unnamed(record: &[u8]) -> Self {
        Self::new(String::new(), record, (0, record.len()))
    }

    /// Appends a further line of the value, which ends at `end`.
    pub(super) fn go_on(&mut self, line: &[u8], end: usize) {
        if !self.value.is_empty() {
            self.value.push(' ');
        }
        markup::push_text(line, true, &mut self.value);
        self.end = end;
    }
}

impl fmt::Display for Field {
    /// Prints the value after its name: `name: value`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.name.is_empty() {
            write!(f, "{}: ", self.name)?;
        }
        f.write_str(&self.value)
    }
}

/// An open element inside a record. `label` is the name that it gives to its text.
struct Open {
    name: Vec<u8>,
    label: String,
    breaks: bool,
}

/// The fields of an element that were read so far.
///
/// - `names`: the names of the columns of its table
/// - `column`: the number of the current cell, from 0
/// - `columns`: the texts of its own cells, by column
/// - `term`: the text of the last `<dt>`, which names the `<dd>` after it, or of the last header cell of
///   the row
struct ElementFields<'r> {
    record: &'r [u8],
    is_html: bool,
    names: Vec<String>,
    open: Vec<Open>,
    fields: Vec<Field>,
    text: Option<Field>,
    column: usize,
    columns: Vec<String>,
    term: String,
}

fn is_cell(name: &[u8]) -> bool {
    matches!(name, b"td" | b"th")
}

fn is_code(open: &Open) -> bool {
    matches!(&*open.name, b"script" | b"style")
}

/// Returns the fields of an element. `header` is the header row of its table.
pub(super) fn of_element(
    record: &[u8],
    header: Option<&[u8]>,
    skipped: impl Iterator<Item = (usize, usize)>,
    is_html: bool,
) -> Vec<Field> {
    let none = std::iter::empty();
    let columns = header.map(|header| ElementFields::new(header, is_html).read(none).columns);
    let mut reader = ElementFields::new(record, is_html);
    reader.names = columns.unwrap_or_default();
    reader.read(skipped).fields
}

impl<'r> ElementFields<'r> {
    fn new(record: &'r [u8], is_html: bool) -> Self {
        Self {
            record,
            is_html,
            names: Vec::new(),
            open: Vec::new(),
            fields: Vec::new(),
            text: None,
            column: 0,
            columns: Vec::new(),
            term: String::new(),
        }
    }

    fn read(mut self, skipped: impl Iterator<Item = (usize, usize)>) -> Self {
        let (mut at, mut skipped) = (0, skipped.peekable());
        while self.fields.len() < MAX_FIELDS {
            while let Some((_, end)) = skipped.next_if(|(start, _)| *start <= at) {
                self.finish();
                at = at.max(end);
            }
            let raw = self.open.last().filter(|open| self.is_html && is_code(open));
            let raw = raw.map(|open| &*open.name);
            let Some((token, end)) = markup::token(self.record, at, raw, true) else { break };
            self.take(&token, (at, end));
            at = end;
        }
        self.finish();
        self
    }

    fn take(&mut self, token: &Token, (at, end): (usize, usize)) {
        match token {
            Token::Open { name, attributes, is_closed } => {
                let (name, attributes) =
                    (self.record[name.clone()].to_vec(), &self.record[attributes.clone()]);
                if self.is_html && is_cell(&name.to_ascii_lowercase()) {
                    self.end_cell();
                }
                if self.is_html && name.eq_ignore_ascii_case(b"tr") {
                    self.term.clear();
                }
                let open = self.element(name, attributes);
                if open.breaks {
                    self.finish();
                }
                for (name, value) in markup::attributes(attributes) {
                    if markup::tells(name, value, self.is_html) {
                        let name = String::from_utf8_lossy(name).into_owned();
                        let mut text = String::new();
                        markup::push_text(value, false, &mut text);
                        let value = text.trim_end().to_owned();
                        // In XML, attributes are as good as texts.
                        let is_attribute = self.is_html;
                        self.fields.push(Field { name, value, start: at, end, is_attribute });
                    }
                }
                if open.name == b"br" {
                    self.push_text(b" ", true, (at, end));
                } else if !is_closed && open.name != b"img" {
                    self.open.push(open);
                }
            }
            Token::Close { name } => {
                let name = self.record[name.clone()].to_ascii_lowercase();
                let is_same = |open: &Open| open.name.eq_ignore_ascii_case(&name);
                let Some(at) = self.open.iter().rposition(is_same) else { return };
                if self.open[at..].iter().any(|open| open.breaks) {
                    self.finish();
                }
                self.open.truncate(at);
                self.column += usize::from(is_cell(&name));
            }
            Token::Text { range, is_raw } => {
                if !(self.is_html && self.open.last().is_some_and(is_code)) {
                    self.push_text(&self.record[range.clone()], *is_raw, (range.start, range.end));
                }
            }
            Token::Other => {}
        }
    }

    /// Ends an open cell, since HTML needs no end tag before the next cell.
    fn end_cell(&mut self) {
        let row = self.open.iter().rposition(|open| open.name == b"tr").map_or(0, |row| row + 1);
        if let Some(cell) = self.open[row..].iter().position(|open| is_cell(&open.name)) {
            self.finish();
            self.open.truncate(row + cell);
            self.column += 1;
        }
    }

    /// Returns an element that is being opened. Its label is its column in a table, the term of a
    /// definition list, or the name that an attribute gives it, else the name of an XML element.
    fn element(&self, name: Vec<u8>, attributes: &[u8]) -> Open {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if !self.is_html {
            let label = text(&name);
            return Open { name, label, breaks: true };
        }
        let name = name.to_ascii_lowercase();
        let given = |wanted: &str| {
            let mut all = markup::attributes(attributes);
            let found = all.find(|(name, _)| name.eq_ignore_ascii_case(wanted.as_bytes()));
            found.map(|(_, value)| text(value.trim_ascii())).filter(|value| !value.is_empty())
        };
        let class = || {
            let class = given("class")?;
            class.split_whitespace().next().map(str::to_owned)
        };
        let own = given("itemprop").or_else(|| given("data-label"));
        let column = || self.names.get(self.column).cloned();
        let term = || Some(self.term.clone()).filter(|term| !term.is_empty());
        let label = match &*name {
            b"th" => own.or_else(column).or_else(class),
            b"td" => own.or_else(column).or_else(term).or_else(class),
            b"dd" => own.or_else(term),
            _ => own.or_else(class),
        };
        // An inline element is a field if it has a label and begins a text. Code is one text.
        let is_in_code = || self.open.iter().any(|open| matches!(&*open.name, b"pre" | b"code"));
        let is_field = || label.is_some() && self.text.is_none() && !is_in_code();
        let breaks = !INLINE.contains(&&*name) || is_field();
        Open { label: label.filter(|_| breaks).unwrap_or_default(), name, breaks }
    }

    fn push_text(&mut self, text: &[u8], is_raw: bool, (start, end): (usize, usize)) {
        match &mut self.text {
            Some(field) => {
                markup::push_text(text, is_raw, &mut field.value);
                field.end = end;
            }
            None if text.trim_ascii().is_empty() => {}
            None => {
                let labels = self.open.iter().rev().take_while(|open| !open.breaks);
                let block = self.open.iter().rev().find(|open| open.breaks);
                let mut labels = labels.chain(block).map(|open| &open.label);
                let name = labels.find(|label| !label.is_empty()).cloned().unwrap_or_default();
                let mut value = String::new();
                markup::push_text(text, is_raw, &mut value);
                let start = start + (text.len() - text.trim_ascii_start().len());
                self.text = Some(Field { name, value, start, end, is_attribute: false });
            }
        }
    }

    /// Ends the current text.
    fn finish(&mut self) {
        let Some(mut field) = self.text.take() else { return };
        field.value.truncate(field.value.trim_end().len());
        if self.open.iter().any(|open| matches!(&*open.name, b"dt" | b"th")) {
            field.value.trim_end_matches(':').clone_into(&mut self.term);
        }
        if field.value.is_empty() {
            return;
        }
        if self.open.iter().any(|open| is_cell(&open.name)) {
            self.columns.resize(self.columns.len().max(self.column + 1), String::new());
            self.columns[self.column].clone_from(&field.value);
        }
        self.fields.push(field);
    }
}
