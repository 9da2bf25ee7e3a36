//! The fields of a record that are worth printing, as a filter of jq.

use crate::materialize::json::events::Scalar;
use crate::materialize::json::roles::{CERTAIN, FieldRole, role};
use crate::materialize::json::shape::{Shape, ShapeNode};
use crate::materialize::json::steps::{is_bare, is_map, key};

/// Levels of a record that are searched for fields.
const LEVELS: usize = 4;
/// Characters of a string that are printed.
const MESSAGE_CHARS: u64 = 160;
const NAME_CHARS: u64 = 100;
/// Bytes of a number.
const NUMBER: u64 = 24;
/// Fields with messages that are printed.
const MESSAGES: usize = 2;
/// Most bytes of the fields of a record of which nothing is known.
const PLAIN_BYTES: u64 = 400;

/// A field with strings or numbers.
#[derive(Debug, Clone)]
pub(super) struct RecordField {
    /// The path from the record.
    path: String,
    /// Its own key, as written.
    key: Box<[u8]>,
    role: Option<(FieldRole, usize)>,
    depth: usize,
    longest: u64,
    /// True if it is certain to be a string.
    always: bool,
}

/// An object of jq's syntax, and the most bytes of the value that it makes.
#[derive(Debug, Default)]
pub(super) struct Projection {
    parts: Vec<String>,
    pub(super) bytes: u64,
}

/// Returns the fields of a record.
pub(super) fn fields(shape: &Shape, record: &ShapeNode) -> Vec<RecordField> {
    let mut fields = Vec::new();
    gather(shape, record, ("", 0), &mut fields);
    fields
}

/// Adds what is known of the fields by other records of the same kind.
pub(super) fn add(fields: &mut [RecordField], others: &[RecordField]) {
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

fn gather(
    shape: &Shape,
    object: &ShapeNode,
    (path, depth): (&str, usize),
    fields: &mut Vec<RecordField>,
) {
    for field in &object.fields {
        let Some(step) = key(&field.key) else { continue };
        let node = shape.node(field.node);
        let path = format!("{path}{step}");
        let inside = depth + 1 < LEVELS;
        let is_plain = node.texts == 0 && node.scalars[1..].iter().all(|seen| !seen);
        if has_scalars(node) {
            let always = depth == 0 && node.texts == object.objects && node.texts == node.seen;
            let longest = node.longest.max(NUMBER);
            let (key, role) = (field.key.clone(), role(&field.key));
            fields.push(RecordField { path, key, role, depth, longest, always });
        } else if inside && is_plain && node.arrays == 0 && !is_map(shape, node) {
            gather(shape, node, (&path, depth + 1), fields);
        } else if let Some(item) = node.item.filter(|_| inside && is_plain && node.objects == 0) {
            let item = shape.node(item);
            if item.objects == item.seen {
                gather(shape, item, (&format!("{path}[0]"), depth + 1), fields);
            }
        }
    }
}

/// Returns true if all values are strings, numbers, words or null, and one is not null.
fn has_scalars(node: &ShapeNode) -> bool {
    let words = [Scalar::Bool, Scalar::Int, Scalar::Float];
    let any = node.texts > 0 || words.iter().any(|scalar| node.scalars[*scalar as usize]);
    any && node.objects == 0 && node.arrays == 0
}

/// Returns the field that tells most in a role. Only a place may be that of the first item of an
/// array, and then a line is, too: what other items say is not about the record.
pub(super) fn best(fields: &[RecordField], wanted: FieldRole) -> Option<&RecordField> {
    let has_place = |field: &&RecordField| wanted == FieldRole::Place || !field.is_of_item();
    let told = fields.iter().filter(|field| field.role.is_some_and(|(role, _)| role == wanted));
    let of_item = wanted == FieldRole::Line
        && best(fields, FieldRole::Place).is_some_and(RecordField::is_of_item);
    told.filter(|field| of_item || has_place(field)).min_by_key(|field| {
        let is_end = field.path.to_ascii_lowercase().contains("end");
        let order = field.role.map_or(0, |(_, order)| order);
        (is_end, order >= CERTAIN, field.depth, order)
    })
}

impl Projection {
    /// Returns the fields that identify a record of trouble, with the field `told`, if it is to be
    /// among them, and the message.
    pub(super) fn of_trouble(fields: &[RecordField], told: Option<&str>) -> Self {
        let roles = [FieldRole::Place, FieldRole::Line, FieldRole::Kind];
        let known = roles.iter().filter_map(|role| best(fields, *role));
        let told = fields.iter().find(|field| Some(field.path.as_str()) == told);
        let mut all: Vec<&RecordField> = known.chain(told).collect();
        let message = |field: &&RecordField| field.is_message() && field.depth == 0;
        all.extend(best(fields, FieldRole::Message));
        all.extend(fields.iter().filter(message).take(MESSAGES));
        let mut made = Self::default();
        for field in all {
            made.add(field);
        }
        if made.parts.len() < 2 { Self::of_any(fields) } else { made }
    }

    /// Returns the first short fields, and those with a role.
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

    /// Returns the field that tells what the record is about alone.
    pub(super) fn of_place(fields: &[RecordField]) -> Option<Self> {
        let mut made = Self::default();
        made.add(best(fields, FieldRole::Place)?);
        Some(made)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    pub(super) fn has(&self, fields: &[RecordField], role: FieldRole) -> bool {
        best(fields, role).is_some_and(|field| self.parts.contains(&field.part()))
    }

    /// Returns `{file,line,message:.message[:160]}`.
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
    /// Returns true if it is a field of the first item of an array.
    fn is_of_item(&self) -> bool {
        self.path.contains("[0]")
    }

    /// Returns the most bytes of the field when it is printed, with its key.
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

    /// Returns `file`, `row:.location.row` or `message:.message[:160]`.
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
