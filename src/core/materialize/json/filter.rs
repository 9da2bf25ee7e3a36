//! Parts of jq filters: paths through a shape, and projections of the fields of a record.

use crate::materialize::json::roles::{CERTAIN, FieldRole, role};
use crate::materialize::json::scan::{Events as _, Scalar};
use crate::materialize::json::shape::{Shape, ShapeNode};

// Minimum number of keys of an object that counts as a map although its keys are identifiers.
const MANY: usize = 4;

/// A path to values in a document. It consists of keys and steps. A step leads to each item of an
/// array or to each value of a map.
///
/// `segments` are the keys (as `.a.b`) before, between and after the steps. There is at least one
/// segment, and a segment may be empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ShapePath {
    segments: Vec<String>,
    // True if the path leads through a map whose values may be of different kinds.
    through_map: bool,
}

impl ShapePath {
    pub(super) fn root() -> Self {
        Self { segments: vec![String::new()], through_map: false }
    }

    pub(super) fn key(&self, step: &str) -> Self {
        let mut path = self.clone();
        if let Some(last) = path.segments.last_mut() {
            last.push_str(step);
        }
        path
    }

    pub(super) fn each(&self) -> Self {
        let mut path = self.clone();
        path.segments.push(String::new());
        path
    }

    pub(super) fn each_value(&self) -> Self {
        Self { through_map: true, ..self.each() }
    }

    // Returns true if some values on the path may be of another kind than the path requires.
    pub(super) fn is_vague(&self) -> bool {
        self.through_map && self.depth() > 1
    }

    pub(super) fn depth(&self) -> usize {
        self.segments.len() - 1
    }

    // Returns the path without its last keys. It leads to the item that contains these keys.
    pub(super) fn record(&self) -> Self {
        let mut path = self.clone();
        path.segments.pop();
        path.segments.push(String::new());
        path
    }

    /// Splits the path in two. The first part leads to the item around the innermost item, or to
    /// the root. The second part leads from there to the innermost item. Returns `None` if the path
    /// has no step.
    pub(super) fn split(&self) -> Option<(Self, Self)> {
        let at = self.depth().checked_sub(1)?;
        let mut outer = self.segments[..at].to_vec();
        outer.push(String::new());
        let inner = vec![self.segments[at].clone(), String::new()];
        let part = |segments| Self { segments, through_map: self.through_map };
        Some((part(outer), part(inner)))
    }

    pub(super) fn field(&self) -> &str {
        self.segments.last().map_or("", String::as_str)
    }

    pub(super) fn text(&self) -> String {
        rooted(self.segments.join("[]"))
    }

    // Returns the path as a filter. After the first `certain` steps, the filter skips values that
    // have no items.
    pub(super) fn filter(&self, certain: usize) -> String {
        let mut text = String::new();
        for (at, segment) in self.segments.iter().enumerate() {
            text.push_str(if at == 0 { "" } else { "[]" });
            text.push_str(if at > certain { "?" } else { "" });
            text.push_str(segment);
        }
        rooted(text)
    }

    // Returns the path as a filter that skips values of other kinds.
    pub(super) fn vague_filter(&self) -> String {
        let step = |segment: &String| match segment.as_str() {
            "" => "[]?".to_owned(),
            keys => format!("{keys}?[]?"),
        };
        let (_, before) = self.segments.split_last().expect("a path has a segment");
        rooted(before.iter().map(step).collect())
    }
}

fn rooted(path: String) -> String {
    if path.starts_with('.') { path } else { format!(".{path}") }
}

// Returns the step to a key, or `None` if the key was cut or is hard to write.
pub(super) fn key_step(written: &[u8]) -> Option<String> {
    let text = str::from_utf8(written).ok()?;
    if text.len() == Shape::KEY_BYTES || text.contains('\\') {
        return None;
    }
    Some(if is_bare(written) { format!(".{text}") } else { format!(".\"{text}\"") })
}

fn is_bare(key: &[u8]) -> bool {
    let bare = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    key.iter().all(bare) && key.first().is_some_and(|first| !first.is_ascii_digit())
}

/// Returns true if the keys of an object are data. This is so in three cases: the object has more
/// keys than a shape records; all values are objects or all are arrays, and some key is not an
/// identifier; the values are at least [`MANY`] objects that have a key in common.
pub(super) fn is_map(shape: &Shape, node: &ShapeNode) -> bool {
    if node.rest.is_some() {
        return true;
    }
    let values = || node.fields.iter().map(|field| &shape.nodes[field.node]);
    let objects = values().all(|value| value.objects == value.seen);
    let arrays = values().all(|value| value.arrays == value.seen);
    if node.fields.is_empty() || !(objects || arrays) {
        return false;
    }
    let named = node.fields.iter().all(|field| is_bare(&field.key));
    !named || (objects && node.fields.len() >= MANY && have_a_key(values()))
}

fn have_a_key<'s>(mut objects: impl Iterator<Item = &'s ShapeNode>) -> bool {
    let Some(first) = objects.next().and_then(|first| first.fields.first()) else { return false };
    objects.all(|object| object.fields.iter().any(|field| field.key == first.key))
}

const LEVELS: usize = 4;
const MESSAGE_CHARS: u64 = 160;
const NAME_CHARS: u64 = 100;
const NUMBER: u64 = 24;
const MESSAGES: usize = 2;
// Maximum number of bytes of the fields of a record without known roles.
const PLAIN_BYTES: u64 = 400;

/// A field of a record whose values are strings, numbers or booleans. `path` leads from the record
/// to the field. `key` is the key as written. `always` is true if the field is a direct member of
/// the record, and a string in every record.
#[derive(Debug, Clone)]
pub(super) struct RecordField {
    path: String,
    key: Box<[u8]>,
    role: Option<(FieldRole, usize)>,
    depth: usize,
    longest: u64,
    always: bool,
}

/// A jq object construction such as `{file,line,message:.message[:160]}`. `bytes` is the maximum
/// size of its result.
#[derive(Debug, Default)]
pub(super) struct Projection {
    pub(super) parts: Vec<String>,
    pub(super) bytes: u64,
}

pub(super) fn record_fields(shape: &Shape, record: &ShapeNode) -> Vec<RecordField> {
    let mut fields = Vec::new();
    gather_fields(shape, record, ("", 0), &mut fields);
    fields
}

/// Adapts `fields` so that a projection of them also fits `others`, the fields of other records of
/// the same kind.
pub(super) fn merge_fields(fields: &mut [RecordField], others: &[RecordField]) {
    for field in fields {
        match others.iter().find(|other| other.path == field.path) {
            Some(other) => {
                field.longest = field.longest.max(other.longest);
                field.always &= other.always;
            }
            None => field.always = false,
        }
    }
}

fn gather_fields(
    shape: &Shape,
    object: &ShapeNode,
    (path, depth): (&str, usize),
    fields: &mut Vec<RecordField>,
) {
    for field in &object.fields {
        let Some(step) = key_step(&field.key) else { continue };
        let node = &shape.nodes[field.node];
        let path = format!("{path}{step}");
        let inside = depth + 1 < LEVELS;
        let is_plain = node.texts == 0 && node.scalars[1..].iter().all(|seen| !seen);
        if has_scalars(node) {
            let always = depth == 0 && node.texts == object.objects && node.texts == node.seen;
            let longest = node.longest.max(NUMBER);
            let (key, role) = (field.key.clone(), role(&field.key));
            fields.push(RecordField { path, key, role, depth, longest, always });
        } else if inside && is_plain && node.arrays == 0 && !is_map(shape, node) {
            gather_fields(shape, node, (&path, depth + 1), fields);
        } else if let Some(item) = node.item.filter(|_| inside && is_plain && node.objects == 0) {
            let item = &shape.nodes[item];
            if item.objects == item.seen {
                gather_fields(shape, item, (&format!("{path}[0]"), depth + 1), fields);
            }
        }
    }
}

fn has_scalars(node: &ShapeNode) -> bool {
    let words = [Scalar::Bool, Scalar::Int, Scalar::Float];
    let any = node.texts > 0 || words.iter().any(|scalar| node.scalars[*scalar as usize]);
    any && node.objects == 0 && node.arrays == 0
}

/// Returns the most informative field with the role `wanted`. The fields of the first item of an
/// array describe the item and not the record, so they are skipped. There are two exceptions: a
/// `Place` in such an item, and a `Line` if the best `Place` is in such an item.
pub(super) fn best_field(fields: &[RecordField], wanted: FieldRole) -> Option<&RecordField> {
    let is_of_item = |field: &RecordField| field.path.contains("[0]");
    let has_place = |field: &&RecordField| wanted == FieldRole::Place || !is_of_item(field);
    let candidates =
        fields.iter().filter(|field| field.role.is_some_and(|(role, _)| role == wanted));
    let of_item =
        wanted == FieldRole::Line && best_field(fields, FieldRole::Place).is_some_and(is_of_item);
    candidates.filter(|field| of_item || has_place(field)).min_by_key(|field| {
        let is_end = field.path.to_ascii_lowercase().contains("end");
        let order = field.role.map_or(0, |(_, order)| order);
        (is_end, order >= CERTAIN, field.depth, order)
    })
}

impl Projection {
    /// Selects three kinds of fields: fields that identify a record with an error, the field
    /// `selected` if given, and the message.
    pub(super) fn of_trouble(fields: &[RecordField], selected: Option<&str>) -> Self {
        let roles = [FieldRole::Place, FieldRole::Line, FieldRole::Kind];
        let known = roles.iter().filter_map(|role| best_field(fields, *role));
        let selected = fields.iter().find(|field| Some(field.path.as_str()) == selected);
        let mut all: Vec<&RecordField> = known.chain(selected).collect();
        let message = |field: &&RecordField| field.is_message() && field.depth == 0;
        all.extend(best_field(fields, FieldRole::Message));
        all.extend(fields.iter().filter(message).take(MESSAGES));
        let mut made = Self::default();
        for field in all {
            made.add(field);
        }
        if made.parts.len() < 2 { Self::of_any(fields) } else { made }
    }

    // Selects the short fields first, then the others, as many as fit.
    pub(super) fn of_any(fields: &[RecordField]) -> Self {
        let mut made = Self::default();
        let short = |field: &&RecordField| field.longest <= MESSAGE_CHARS && field.depth == 0;
        let (first, others): (Vec<&RecordField>, Vec<&RecordField>) =
            fields.iter().partition(short);
        for field in first.into_iter().chain(others) {
            if made.bytes + field.bytes() <= PLAIN_BYTES {
                made.add(field);
            }
        }
        made
    }

    pub(super) fn of_place(fields: &[RecordField]) -> Option<Self> {
        let mut made = Self::default();
        made.add(best_field(fields, FieldRole::Place)?);
        Some(made)
    }

    pub(super) fn has(&self, fields: &[RecordField], role: FieldRole) -> bool {
        best_field(fields, role).is_some_and(|field| self.parts.contains(&field.part()))
    }

    // Returns the projection, such as `{file,line,message:.message[:160]}`.
    pub(super) fn text(&self) -> String {
        format!("{{{}}}", self.parts.join(","))
    }

    fn add(&mut self, field: &RecordField) {
        let part = field.part();
        let name = format!("{}:", field.name());
        let is_there =
            |other: &String| *other == field.name() || other.starts_with(&name) || *other == part;
        if !self.parts.iter().any(is_there) {
            self.bytes += field.bytes();
            self.parts.push(part);
        }
    }
}

impl RecordField {
    // Returns the maximum size in bytes of the printed field with its key.
    fn bytes(&self) -> u64 {
        self.longest.min(self.most_chars()) + self.key.len() as u64 + 6
    }

    fn is_message(&self) -> bool {
        self.role.is_some_and(|(role, _)| role == FieldRole::Message)
    }

    fn most_chars(&self) -> u64 {
        if self.is_message() { MESSAGE_CHARS } else { NAME_CHARS }
    }

    fn name(&self) -> String {
        let key = String::from_utf8_lossy(&self.key);
        if is_bare(&self.key) { key.into_owned() } else { format!("\"{key}\"") }
    }

    // Returns `file`, `row:.location.row` or `message:.message[:160]`, for example.
    fn part(&self) -> String {
        let (name, path, most) = (self.name(), &self.path, self.most_chars());
        if self.longest > most {
            let cut = if self.always { path.clone() } else { format!("({path}|tostring)") };
            return format!("{name}:{cut}[:{most}]");
        }
        let is_own = self.depth == 0 && is_bare(&self.key);
        if is_own { name } else { format!("{name}:{path}") }
    }
}
