//! Renders a shape as one line of text: `{total: int, items: [1240 of {id: str, tags?: [str]}]}`.
//!
//! | text | meaning |
//! |---|---|
//! | `key?` | some of the objects lack this key |
//! | `int\|str` | values of both types |
//! | `[3 of {...}]`, `[str]` | an array; a number is shown for a single array of objects only |
//! | `{5000 keys of int}` | an object that is used as a map |
//! | `str up to 18 kB` | strings; the longest has 18 kB as written (shown only above 1 kB) |
//! | `...` | omitted, because it is too deep or too long |

use std::fmt::Write as _;

use crate::materialize::json::shape::{Shape, ShapeNode};

// Maximum number of characters of a shape. A line of a stand-in has 500; the rest is for the text
// around the shape.
const CHARS: usize = 400;
// Length in bytes above which the length of a string is shown, because a reader may not want to
// read such a string whole.
const LONG_TEXT: u64 = 1000;
/// Maximum number of characters of a key in a shape. A longer key is cut and ends with [`KEY_CUT`].
pub const KEY_CHARS: usize = 40;
/// Marks a key that was cut: the key ends with this.
pub const KEY_CUT: &str = "...";
// Pairs of a number of levels and a number of keys per object, most detailed first. The shape is
// rendered with the first pair that makes it fit.
const DETAIL: [(usize, usize); 9] =
    [(8, 64), (5, 64), (4, 64), (3, 64), (3, 16), (2, 32), (2, 12), (1, 24), (1, 8)];

pub(super) fn text(shape: &Shape, prefix: &str) -> String {
    let mut text = String::new();
    for (levels, keys) in DETAIL {
        text.clear();
        text.push_str(prefix);
        let mut printer = ShapePrinter { shape, keys, text };
        if let Some(root) = shape.nodes.first() {
            printer.node(root, levels);
        }
        text = printer.text;
        if text.chars().count() <= CHARS {
            return text;
        }
    }
    let cut = text.char_indices().nth(CHARS - 3).map_or(text.len(), |(at, _)| at);
    text.truncate(cut);
    text.push_str("...");
    text
}

struct ShapePrinter<'a> {
    shape: &'a Shape,
    keys: usize,
    text: String,
}

impl ShapePrinter<'_> {
    fn node(&mut self, node: &ShapeNode, levels: usize) {
        let before = self.text.len();
        let [null, boolean, int, float] = node.scalars;
        self.word("bool", boolean, before);
        self.word(if float { "float" } else { "int" }, int || float, before);
        self.word("str", node.texts > 0, before);
        if node.longest > LONG_TEXT {
            let _ = write!(self.text, " up to {}", bytes(node.longest));
        }
        self.word("", node.arrays > 0, before);
        if node.arrays > 0 {
            self.array(node, levels);
        }
        self.word("", node.objects > 0, before);
        if node.objects > 0 {
            self.object(node, levels);
        }
        self.word("null", null, before);
        if self.text.len() == before {
            self.text.push_str("...");
        }
    }

    fn word(&mut self, word: &str, is_there: bool, before: usize) {
        if is_there {
            let bar = if self.text.len() > before { "|" } else { "" };
            self.text.push_str(bar);
            self.text.push_str(word);
        }
    }

    fn array(&mut self, node: &ShapeNode, levels: usize) {
        self.text.push('[');
        let item = node.item.map(|index| &self.shape.nodes[index]);
        if let Some(item) = item {
            if node.arrays == 1 && item.objects > 0 {
                let _ = write!(self.text, "{} of ", node.items);
            }
            self.inner(item, levels);
        } else if node.items > 0 || node.hidden {
            self.text.push_str("...");
        }
        self.text.push(']');
    }

    fn object(&mut self, node: &ShapeNode, levels: usize) {
        self.text.push('{');
        if let Some(rest) = node.rest {
            self.map(node, &self.shape.nodes[rest], levels);
        } else if levels > 0 {
            self.fields(node, levels);
        } else if node.keys > 0 || node.hidden {
            self.text.push_str("...");
        }
        self.text.push('}');
    }

    fn map(&mut self, node: &ShapeNode, value: &ShapeNode, levels: usize) {
        if node.objects == 1 {
            let _ = write!(self.text, "{} keys of ", node.keys);
        } else {
            self.text.push_str("many keys of ");
        }
        self.inner(value, levels);
    }

    fn fields(&mut self, node: &ShapeNode, levels: usize) {
        for (index, field) in node.fields.iter().take(self.keys).enumerate() {
            let value = &self.shape.nodes[field.node];
            self.text.push_str(if index > 0 { ", " } else { "" });
            self.text.push_str(&key(&field.key));
            self.text.push_str(if value.seen < node.objects { "?: " } else { ": " });
            self.inner(value, levels);
        }
        let printed = node.fields.iter().take(self.keys);
        let known: u64 = printed.map(|field| self.shape.nodes[field.node].seen).sum();
        if known < node.keys || node.hidden {
            self.text.push_str(if node.fields.is_empty() { "..." } else { ", ..." });
        }
    }

    fn inner(&mut self, node: &ShapeNode, levels: usize) {
        self.node(node, levels.saturating_sub(1));
    }
}

// Returns the key without quotes if it is an identifier, else in quotes. A long key is cut.
fn key(bytes: &[u8]) -> String {
    let whole = String::from_utf8_lossy(bytes);
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if !whole.is_empty()
        && whole.chars().all(bare)
        && !whole.starts_with(|c: char| c.is_ascii_digit())
    {
        return short(&whole);
    }
    format!("\"{}\"", short(&whole))
}

fn short(key: &str) -> String {
    match key.char_indices().nth(KEY_CHARS) {
        Some((at, _)) => format!("{}{KEY_CUT}", &key[..at]),
        None => key.to_owned(),
    }
}

// Returns a rounded-up size such as `18 kB` or `2.2 MB`.
fn bytes(count: u64) -> String {
    const KILO: u64 = 1000;
    if count < 1000 * KILO {
        return format!("{} kB", count.div_ceil(KILO));
    }
    let (unit, name) =
        if count < 1_000_000 * KILO { (1_000_000, "MB") } else { (1_000_000_000, "GB") };
    let tenths = count.div_ceil(unit / 10);
    format!("{}.{} {name}", tenths / 10, tenths % 10)
}
