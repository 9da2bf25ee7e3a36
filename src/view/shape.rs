//! `.shape`: the structure of JSON, with one line for each path.
//!
//! The view reads the content each time. The analysis stores no shape, because records would grow
//! by kilobytes for a view that is rarely read, and the scanner processes a gigabyte in a second or
//! two.

mod outline;

use std::cell::Cell;
use std::io;
use std::io::Write;

use crate::number::{counted, grouped, portion};
use crate::rendered::notice;
use crate::shape::outline::{KEY_BYTES, MAX_LEVELS, PathNode, ShapeOutline};
use crate::values::{IgnoredEvents, PassedValue, ValueReader};
use crate::{RenderError, Rendered, values};
use ctxfs_core::model::{Limits, LooseJson, Subject};

// A longer value is added as it is read, even if it breaks off.
const WHOLE_BYTES: u64 = 64 << 10;
// Bytes that are reserved for notices, not counting the paths in them.
const NOTICE_BYTES: usize = 600;
// Paths are padded to at most this many columns.
const PATH_COLUMN: usize = 48;
// Types and counts are padded to at most this many columns.
const WORD_COLUMN: usize = 16;

/// Writes the shape. Each line has a path in jq's syntax, the types of the values at that path,
/// their number, and ranges and samples. Columns are separated by two or more spaces.
pub(super) fn render(
    subject: &Subject<'_>,
    expired: &dyn Fn() -> bool,
    out: &mut dyn Write,
) -> Result<Rendered, RenderError> {
    if !values::has_values(subject)? {
        return Ok(Rendered::noted(no_shape(subject)));
    }
    let (found, mut outline) = read_outline(subject, expired)?;
    if found.values == 0 && found.broken.is_none() && found.whole {
        return Ok(Rendered::noted(no_shape(subject)));
    }
    outline.settle();
    let file = subject.place.file();
    let budget = Limits::VIEW_BYTES.saturating_sub(NOTICE_BYTES + 2 * file.len());
    let printed = print(&outline, budget);
    out.write_all(printed.text.as_bytes())?;
    let opening =
        if found.whole { opening(subject, &found) } else { out_of_time(subject, found.read) };
    let lines = [
        Some(opening),
        values::left_out(found.bad, found.first_bad),
        repeated(&outline),
        left_out(&printed),
    ];
    Ok(Rendered { notice: notice(lines.into_iter().flatten()), whole: found.whole })
}

/// The values whose shape is shown. `bad` and `first_bad` are the number of lines that are not JSON
/// and the first of them. `broken` is the byte and line where a value breaks that is shown in part.
/// `read` is the offset up to which the content was read.
#[derive(Default)]
struct FoundValues {
    values: u64,
    bad: u64,
    first_bad: u64,
    broken: Option<(u64, u64)>,
    loose: LooseJson,
    read: u64,
    whole: bool,
}

fn read_outline(
    subject: &Subject<'_>,
    expired: &dyn Fn() -> bool,
) -> io::Result<(FoundValues, ShapeOutline)> {
    let is_late = Cell::new(false);
    let expired = || {
        is_late.set(is_late.get() || expired());
        is_late.get()
    };
    let mut reader = ValueReader::new(subject.content, &expired);
    let (mut found, mut outline) = (FoundValues::default(), ShapeOutline::default());
    let mut first_broken = None;
    while reader.skip_space()? {
        let start = reader.start();
        if !reader.may_begin()? {
            found.pass_over(start.line, 1);
            reader.skip_line()?;
            continue;
        }
        // A value is scanned before it is added, so that one that is broken adds nothing.
        let passed = reader.pass(&mut IgnoredEvents, WHOLE_BYTES, |_, _| Ok(()))?;
        let is_value = match passed {
            PassedValue::Whole(_) => {
                let broken = reader.start();
                let is_value = reader.is_value(start)?;
                reader.go_to(if is_value { start } else { broken });
                is_value
            }
            PassedValue::Long => {
                reader.values += 1;
                reader.go_to(start);
                true
            }
            PassedValue::Broken(_) => false,
            PassedValue::Stopped => break,
        };
        if is_value {
            match reader.pass(&mut outline, u64::MAX, |_, _| Ok(()))? {
                PassedValue::Broken(at) => {
                    found.broken = Some((at, reader.line));
                    break;
                }
                PassedValue::Stopped => break,
                PassedValue::Whole(_) | PassedValue::Long => continue,
            }
        }
        let broken = first_broken.get_or_insert((start, reader.at, reader.line));
        if let Some(lines) = reader.recover(start)? {
            found.pass_over(start.line, lines);
        } else {
            *broken = (start, reader.at, reader.line);
            reader.values = 0;
            break;
        }
    }
    found.whole = !is_late.get();
    found.values = reader.values;
    // What there is of a value without its end.
    if let Some((start, at, line)) = first_broken.filter(|_| reader.values == 0 && found.whole) {
        reader.go_to(start);
        reader.pass(&mut outline, u64::MAX, |_, _| Ok(()))?;
        found.broken = Some((at, line));
        (found.bad, found.first_bad) = (0, 0);
    }
    found.read = reader.at;
    found.loose = reader.loose;
    Ok((found, outline))
}

impl FoundValues {
    fn pass_over(&mut self, line: u64, lines: u64) {
        if self.bad == 0 {
            self.first_bad = line;
        }
        self.bad += lines;
    }
}

fn opening(subject: &Subject<'_>, found: &FoundValues) -> String {
    let paths = paths(subject);
    let with = found.loose.words().map(|words| format!(" {words}")).unwrap_or_default();
    match found.broken {
        Some((offset, _)) if offset == subject.content.len() => {
            format!("JSON that lacks its end; the shape of what is there follows. {paths}")
        }
        Some((offset, line)) => format!(
            "not JSON from line {} on (byte {}); the shape of what is before follows",
            grouped(line),
            grouped(offset),
        ),
        None if found.values == 1 => format!("JSON{with}. {paths}"),
        None => {
            let values = counted(found.values, "value");
            let name = if found.loose.joined { "JSON" } else { "JSON Lines" };
            format!("{name}, {values}{with}. {paths}")
        }
    }
}

// Tells of a key that some object has twice.
fn repeated(outline: &ShapeOutline) -> Option<String> {
    let key = outline.repeated()?;
    Some(format!("the key \"{key}\" occurs twice in one object; a filter sees its last value"))
}

fn out_of_time(subject: &Subject<'_>, read: u64) -> String {
    let portion = portion(read, subject.content.len());
    format!("out of time after {portion}; the shape of that follows. {}", paths(subject))
}

fn paths(subject: &Subject<'_>) -> String {
    format!("A path is a filter: {}.jq/PATH", subject.place.file())
}

fn left_out(printed: &PrintedShape) -> Option<String> {
    let deeper =
        printed.levels.map(|levels| format!("deeper than {}", counted(levels as u64, "level")));
    let missing = (printed.missing > 0).then(|| {
        let all = printed.lines + printed.missing;
        format!("{} of {} paths", grouped(printed.missing as u64), grouped(all as u64))
    });
    let hidden = printed.hidden.then(|| "what is marked `...`".to_owned());
    let parts: Vec<String> = [deeper, missing, hidden].into_iter().flatten().collect();
    let what = parts.join("; ");
    (!parts.is_empty()).then(|| format!("left out: {what}. Look into it with a path as filter"))
}

fn no_shape(subject: &Subject<'_>) -> String {
    format!(
        "# not JSON ({}, {}), so it has no shape. What it is: {}.summary\n",
        subject.analysis.mime,
        counted(subject.content.len(), "byte"),
        subject.place.file(),
    )
}

/// The lines that fit. `levels` is the deepest level shown if deeper levels were omitted to save
/// space. `missing` is the number of lines omitted at the end because not even the upper levels
/// fit. `hidden` is true if there are paths that the outline did not record.
struct PrintedShape {
    text: String,
    lines: usize,
    levels: Option<usize>,
    missing: usize,
    hidden: bool,
}

struct ShapeRow {
    path: String,
    types: String,
    count: String,
    values: String,
}

// Prints as many levels as fit into `budget` bytes, or as many lines of the first level.
fn print(outline: &ShapeOutline, budget: usize) -> PrintedShape {
    let mut printed = print_levels(outline, MAX_LEVELS, budget);
    for levels in (1..MAX_LEVELS).rev() {
        if printed.missing == 0 {
            break;
        }
        printed = PrintedShape { levels: Some(levels), ..print_levels(outline, levels, budget) };
    }
    printed
}

fn print_levels(outline: &ShapeOutline, levels: usize, budget: usize) -> PrintedShape {
    let mut rows = ShapeRows { outline, levels, all: Vec::new(), hidden: false };
    if let Some(root) = outline.root() {
        rows.add(root, ".", "", 0);
    }
    let widths = [
        widest(&rows.all, PATH_COLUMN, |row| &row.path),
        widest(&rows.all, WORD_COLUMN, |row| &row.types),
        widest(&rows.all, WORD_COLUMN, |row| &row.count),
    ];
    let mut text = String::new();
    let mut lines = 0;
    for row in &rows.all {
        let line = row.line(widths);
        if text.len() + line.len() >= budget {
            break;
        }
        text.push_str(&line);
        text.push('\n');
        lines += 1;
    }
    let missing = rows.all.len() - lines;
    PrintedShape { text, lines, levels: None, missing, hidden: rows.hidden }
}

fn widest(rows: &[ShapeRow], most: usize, column: impl Fn(&ShapeRow) -> &String) -> usize {
    rows.iter()
        .map(|row| column(row).chars().count())
        .filter(|width| *width <= most)
        .max()
        .unwrap_or(0)
}

impl ShapeRow {
    fn line(&self, [path, types, count]: [usize; 3]) -> String {
        let Self { path: at, types: what, count: often, values } = self;
        let line = format!("{at:path$}  {what:types$}  {often:count$}  {values}");
        line.trim_end().to_owned()
    }
}

struct ShapeRows<'a> {
    outline: &'a ShapeOutline,
    levels: usize,
    all: Vec<ShapeRow>,
    hidden: bool,
}

impl ShapeRows<'_> {
    // Adds the row of a node, and the rows of the nodes below it. `path` begins with `.`.
    fn add(&mut self, index: usize, path: &str, count: &str, level: usize) {
        let node = self.outline.node(index);
        self.all.push(ShapeRow {
            path: path.to_owned(),
            types: types(node),
            count: count.to_owned(),
            values: values(node),
        });
        self.hidden |= node.hidden;
        if level == self.levels {
            return;
        }
        for field in &node.fields {
            let value = self.outline.node(field.node);
            let often = if node.objects == 1 {
                String::new()
            } else {
                format!("{} of {}", grouped(value.seen), grouped(node.objects))
            };
            self.add(field.node, &joined(path, &key(&field.key)), &often, level + 1);
        }
        if let Some(each) = node.each {
            let seen = grouped(self.outline.node(each).seen);
            self.add(each, &joined(path, "[]"), &seen, level + 1);
        }
    }
}

// Joins a path and a step: `.a` and `.b` give `.a.b`, `.` and `.b` give `.b`, `.` and `[]` give
// `.[]`.
fn joined(path: &str, step: &str) -> String {
    let path = if path == "." && step.starts_with('.') { "" } else { path };
    format!("{path}{step}")
}

// Returns the step to a key in jq's syntax: `.name`, `."two words"`.
fn key(written: &[u8]) -> String {
    let text = String::from_utf8_lossy(written);
    if written.len() == KEY_BYTES {
        return format!(".\"{text}...\"");
    }
    // Escapes are decoded, because strings in jq do not support JSON's escapes of surrogate pairs.
    let decoded = serde_json::from_str(&format!("\"{text}\"")).unwrap_or(text.into_owned());
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if decoded.bytes().all(bare) && decoded.starts_with(|c: char| !c.is_ascii_digit()) {
        return format!(".{decoded}");
    }
    format!(".{}", serde_json::Value::String(decoded))
}

// Formats the types: `str`, or `str 12|null 3` if there are several.
fn types(node: &PathNode) -> String {
    let number = if node.floats > 0 { "float" } else { "int" };
    let all = [
        ("bool", node.bools),
        (number, node.ints + node.floats),
        ("str", node.texts),
        ("array", node.arrays),
        ("object", node.objects),
        ("null", node.nulls),
    ];
    let there: Vec<(&str, u64)> = all.into_iter().filter(|(_, count)| *count > 0).collect();
    match there.as_slice() {
        [(name, _)] => (*name).to_owned(),
        several => {
            let parts = several.iter().map(|(name, count)| format!("{name} {}", grouped(*count)));
            parts.collect::<Vec<String>>().join("|")
        }
    }
}

fn values(node: &PathNode) -> String {
    let sizes = [
        numbers(node).filter(|_| node.samples.more),
        node.lengths.shown(grouped).map(|range| unit(&range, "byte")),
        node.items.shown(grouped).map(|range| unit(&range, "item")),
        node.keys.shown(grouped).map(|range| unit(&range, "key")),
        node.hidden.then(|| "...".to_owned()),
        Some(node.samples.shown()).filter(|shown| !shown.is_empty()),
    ];
    sizes.into_iter().flatten().collect::<Vec<String>>().join("  ")
}

// Formats the range of numbers: `1..5000`. The numbers are exact if all are integers.
fn numbers(node: &PathNode) -> Option<String> {
    let mut all = node.numbers;
    match (all.0, node.whole.0) {
        (None, _) => node.whole.shown(|number| number.to_string()),
        (Some(_), whole) => {
            let (least, most) = whole.unzip();
            [least, most].into_iter().flatten().for_each(|end| all.push(end as f64));
            all.shown(|number| number.to_string())
        }
    }
}

// Adds the unit to a range: `3..18 items`, `1 item`.
fn unit(range: &str, unit: &str) -> String {
    let plural = if range == "1" { "" } else { "s" };
    format!("{range} {unit}{plural}")
}

#[cfg(test)]
mod tests;
