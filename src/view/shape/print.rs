use crate::number::grouped;
use crate::shape::KEY_BYTES;
use crate::shape::outline::{LEVELS, Outline, PathNode};

// Paths are padded to at most this many columns.
const PATH_COLUMN: usize = 48;
// Types and counts are padded to at most this many columns.
const WORD_COLUMN: usize = 16;

/// The lines that fit. `levels` is the deepest level that is shown if deeper ones were left out to
/// save space; `missing` counts the lines left out at the end because not even the upper levels
/// fit; `hidden` is true if there are paths that the outline did not keep.
pub(super) struct PrintedShape {
    pub(super) text: String,
    pub(super) lines: usize,
    pub(super) levels: Option<usize>,
    pub(super) missing: usize,
    pub(super) hidden: bool,
}

struct ShapeRow {
    path: String,
    types: String,
    count: String,
    values: String,
}

/// Prints as many levels as fit into `budget` bytes, or as many lines of the first level.
pub(super) fn print(outline: &Outline, budget: usize) -> PrintedShape {
    let mut printed = print_levels(outline, LEVELS, budget);
    for levels in (1..LEVELS).rev() {
        if printed.missing == 0 {
            break;
        }
        printed = PrintedShape { levels: Some(levels), ..print_levels(outline, levels, budget) };
    }
    printed
}

fn print_levels(outline: &Outline, levels: usize, budget: usize) -> PrintedShape {
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
    outline: &'a Outline,
    levels: usize,
    all: Vec<ShapeRow>,
    hidden: bool,
}

impl ShapeRows<'_> {
    // Adds the row of a node, and those of the nodes below it. `path` begins with `.`.
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

// `.a` and `.b` are `.a.b`, `.` and `.b` are `.b`, `.` and `[]` are `.[]`.
fn joined(path: &str, step: &str) -> String {
    let path = if path == "." && step.starts_with('.') { "" } else { path };
    format!("{path}{step}")
}

// The step to a key in jq's syntax: `.name`, `."two words"`
fn key(written: &[u8]) -> String {
    let text = String::from_utf8_lossy(written);
    if written.len() == KEY_BYTES {
        return format!(".\"{text}...\"");
    }
    // jq's strings do not have the surrogate escapes of JSON, so escapes are decoded.
    let decoded = serde_json::from_str(&format!("\"{text}\"")).unwrap_or(text.into_owned());
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if decoded.bytes().all(bare) && decoded.starts_with(|c: char| !c.is_ascii_digit()) {
        return format!(".{decoded}");
    }
    format!(".{}", serde_json::Value::String(decoded))
}

// `str`, or `str 12|null 3` if there are several types
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
        numbers(node).filter(|_| !node.samples.are_all()),
        node.lengths.shown(grouped).map(|range| unit(&range, "byte")),
        node.items.shown(grouped).map(|range| unit(&range, "item")),
        node.keys.shown(grouped).map(|range| unit(&range, "key")),
        node.hidden.then(|| "...".to_owned()),
        Some(node.samples.shown()).filter(|shown| !shown.is_empty()),
    ];
    sizes.into_iter().flatten().collect::<Vec<String>>().join("  ")
}

// `1..5000`. The numbers are exact if all are integers.
fn numbers(node: &PathNode) -> Option<String> {
    let mut all = node.numbers;
    match (all.ends(), node.whole.ends()) {
        (None, _) => node.whole.shown(|number| number.to_string()),
        (Some(_), whole) => {
            let (least, most) = whole.unzip();
            [least, most].into_iter().flatten().for_each(|end| all.push(end as f64));
            all.shown(|number| number.to_string())
        }
    }
}

// `3..18 items`, `1 item`
fn unit(range: &str, unit: &str) -> String {
    let plural = if range == "1" { "" } else { "s" };
    format!("{range} {unit}{plural}")
}
