//! Builds a jq filter that shows a part of a JSON value as an example: items of its largest array
//! or map.

use crate::materialize::json::filter::{Projection, ShapePath, is_map, key_step, record_fields};
use crate::materialize::json::scan::Events as _;
use crate::materialize::json::shape::{Shape, ShapeNode};
use crate::materialize::json::trouble::{RESULT_BYTES, RESULTS};

const LEVELS: usize = 6;
// Maximum size in bytes of a number, a boolean or null.
const WORD: u64 = 24;
// Maximum number of keys or items that are shown.
const KEYS: usize = 20;
const KEY_BYTES: u64 = Shape::KEY_BYTES as u64;
// Maximum number of items of an array for which an inner collection may be shown instead.
const FEW: u64 = 10;
const TEXT_CHARS: u64 = 80;

/// An array or map with `count` items or values. `item` is the node in which these items or values
/// are merged. `weight` is the number of values in the collection, at all levels.
struct Collection<'s> {
    path: ShapePath,
    item: &'s ShapeNode,
    is_map: bool,
    node: &'s ShapeNode,
    count: u64,
    weight: u64,
}

// Returns `None` for a lone string or an empty value.
pub(super) fn of_document(shape: &Shape) -> Option<String> {
    let root = shape.nodes.first()?;
    if root.seen == 0 || (root.items == 0 && root.keys == 0) {
        return None;
    }
    let mut found = Vec::new();
    collections(shape, root, &ShapePath::root(), LEVELS, &mut found);
    let largest =
        found.into_iter().reduce(|best, next| if next.weight > best.weight { next } else { best });
    Some(match largest {
        Some(largest) => largest.filter(shape),
        None => keys(".", root),
    })
}

pub(super) fn of_lines(shape: &Shape) -> Option<String> {
    let root = shape.nodes.first()?;
    if size(shape, root, 0) <= RESULT_BYTES {
        return Some("-m1 .".to_owned());
    }
    let made = Projection::of_any(&record_fields(shape, root));
    let is_object = root.objects == root.seen && !made.parts.is_empty();
    Some(if is_object { printed("", &made) } else { "-m1 keys[:20]".to_owned() })
}

fn collections<'s>(
    shape: &'s Shape,
    node: &'s ShapeNode,
    path: &ShapePath,
    levels: usize,
    found: &mut Vec<Collection<'s>>,
) {
    let weight = || weight(shape, node, LEVELS);
    if levels == 0 || node.arrays + node.objects != node.seen {
        return;
    }
    if node.objects == 0 {
        let item = node.item.map(|item| &shape.nodes[item]);
        found.extend(item.map(|item| Collection {
            path: path.clone(),
            item,
            is_map: false,
            node,
            count: node.items,
            weight: weight(),
        }));
    } else if node.arrays == 0 && node.keys > 1 && is_map(shape, node) {
        let value = node.fields.first().map(|field| &shape.nodes[field.node]);
        found.extend(value.map(|item| Collection {
            path: path.clone(),
            item,
            is_map: true,
            node,
            count: node.keys,
            weight: weight(),
        }));
    } else if node.arrays == 0 {
        for field in &node.fields {
            if let Some(step) = key_step(&field.key) {
                collections(shape, &shape.nodes[field.node], &path.key(&step), levels - 1, found);
            }
        }
    }
}

impl<'s> Collection<'s> {
    fn filter(self, shape: &'s Shape) -> String {
        let path = self.path.filter(1);
        if self.is_map {
            return keys(&path, self.node);
        }
        if let Some(inner) = self.inner(shape) {
            return inner.filter(shape);
        }
        let item = self.item;
        let first = format!("{}[0]", self.path.text());
        if self.path.depth() == 0 && size(shape, item, 0) <= RESULT_BYTES && item.seen > 0 {
            return if item.objects > 0 || item.arrays > 0 { first } else { list(&path, item) };
        }
        let made = Projection::of_any(&record_fields(shape, item));
        if item.objects == item.seen && !made.parts.is_empty() {
            return printed(&format!("{}|", self.path.each().filter(1)), &made);
        }
        let is_object = item.objects == item.seen && item.seen > 0;
        if is_object { keys(&first, item) } else { list(&path, item) }
    }

    // Returns the collection inside each item, if it contains most of the values. Returns `None`
    // otherwise.
    fn inner(&self, shape: &'s Shape) -> Option<Self> {
        let mut found = Vec::new();
        if self.item.objects == 0 || self.count > FEW {
            return None;
        }
        collections(shape, self.item, &self.path.each(), LEVELS, &mut found);
        let most = |inner: &Self| 10 * inner.weight >= 7 * self.weight;
        found.retain(|inner| !inner.is_map && most(inner) && inner.count >= 4 * self.count);
        found.pop()
    }
}

// Returns a filter such as `.items[]|{id,name}`. `-m` limits the number of results.
fn printed(path: &str, made: &Projection) -> String {
    let most = (RESULT_BYTES / (made.bytes + 4)).clamp(1, RESULTS);
    format!("-c -m{most} {path}{}", made.text())
}

fn keys(path: &str, object: &ShapeNode) -> String {
    let path = if path == "." { String::new() } else { format!("{path}|") };
    let long = object.fields.iter().any(|field| field.key.len() as u64 >= KEY_BYTES);
    let cut = if long { format!("|map(.[:{KEY_BYTES}])") } else { String::new() };
    format!("-c {path}keys[:{KEYS}]{cut}")
}

// Returns a filter for items that are not records.
fn list(path: &str, item: &ShapeNode) -> String {
    let dot = if path == "." { "." } else { path };
    if item.longest <= TEXT_CHARS && item.objects + item.arrays == 0 {
        return format!("-c {dot}[:{KEYS}]");
    }
    format!("-c {dot}[:{KEYS}]|map(tostring[:{TEXT_CHARS}])")
}

fn size(shape: &Shape, node: &ShapeNode, indent: u64) -> u64 {
    let inside = indent + 2;
    let array = node.item.map_or(0, |item| {
        let item = size(shape, &shape.nodes[item], inside);
        node.most.saturating_mul(item.saturating_add(inside + 2))
    });
    let field = |key: usize, value: usize| {
        size(shape, &shape.nodes[value], inside).saturating_add(inside + key as u64 + 6)
    };
    let named = node.fields.iter().map(|known| field(known.key.len(), known.node));
    let named = named.fold(0, u64::saturating_add);
    let rest = node.rest.map_or(0, |rest| node.most.saturating_mul(field(64, rest)));
    let hidden = if node.hidden { u64::MAX } else { 0 };
    let values = [node.longest + 2, WORD, array, named.saturating_add(rest), hidden];
    values.iter().max().copied().unwrap_or(0).saturating_add(indent + 3)
}

fn weight(shape: &Shape, node: &ShapeNode, levels: usize) -> u64 {
    if levels == 0 {
        return node.seen;
    }
    let fields = node.fields.iter().map(|field| field.node);
    let below = fields.chain(node.item).chain(node.rest);
    node.seen + below.map(|below| weight(shape, &shape.nodes[below], levels - 1)).sum::<u64>()
}
