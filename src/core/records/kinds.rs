//! The kinds of elements that are records: elements that repeat inside one parent.

use std::collections::HashMap;
use std::fmt;

use crate::records::element::{ElementKind, ElementStack, Step};
use crate::records::markup;

/// Elements of these names are records even if they have only one text.
const ROWS: [&[u8]; 4] = [b"tr", b"li", b"item", b"entry"];
/// Elements of HTML that are parts of a text, or of a record.
const PARTS: [&[u8]; 40] = [
    b"a", b"abbr", b"b", b"body", b"br", b"button", b"code", b"dd", b"del", b"dt", b"em", b"h1",
    b"h2", b"h3", b"h4", b"h5", b"h6", b"head", b"html", b"i", b"img", b"input", b"ins", b"label",
    b"link", b"meta", b"option", b"p", b"path", b"script", b"small", b"span", b"strong", b"style",
    b"sub", b"sup", b"svg", b"td", b"th", b"u",
];
/// Maximum number of bytes before the first tag, such as the headers of an HTTP response.
const BEFORE_TAG: usize = 4 << 10;
/// Maximum number of kinds that are counted in one parent.
const MAX_KINDS: usize = 64;

/// The kinds of elements that are records. The kind of an element is its name, with the first of
/// its classes in HTML.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElementKinds {
    is_html: bool,
    /// Sorted.
    kinds: Vec<ElementKind>,
}

/// The elements of one kind: how many are in one parent at most, and the number of texts and
/// attributes in all of them.
#[derive(Debug, Default)]
struct KindCount {
    siblings: u64,
    elements: u64,
    facts: u64,
}

/// An open element of the sample, with the number of its children of each kind.
#[derive(Default)]
struct Parent {
    children: HashMap<ElementKind, u64>,
    facts: u64,
}

impl ElementKinds {
    /// Returns the kinds in `sample`, the beginning of some content. Returns `None` if the content
    /// is no markup, or if no element repeats.
    pub(super) fn of(sample: &[u8], whole: bool) -> Option<Self> {
        let (start, is_html) = begin(sample)?;
        let mut counts: HashMap<ElementKind, KindCount> = HashMap::new();
        let mut parents = vec![Parent::default()];
        let mut stack = ElementStack::new(is_html);
        let mut at = start;
        while let Some((token, end)) = markup::token(sample, at, stack.raw(), whole) {
            stack.take(sample, &token, at as u64, |step| match step {
                Step::Opened(element) => {
                    let facts = element.attributes;
                    parents.push(Parent { facts, ..Parent::default() });
                }
                Step::Text => {
                    if let Some(parent) = parents.last_mut() {
                        parent.facts += 1;
                    }
                }
                Step::Closed(element) => close(&mut parents, &mut counts, &element.kind),
            });
            at = end;
        }
        // The sample may end inside a long list.
        while let Some(element) = stack.open.pop() {
            close(&mut parents, &mut counts, &element.kind);
        }
        let is_record = |(kind, count): &(ElementKind, KindCount)| {
            let is_part = is_html && PARTS.contains(&&*kind.name);
            let is_row = ROWS.contains(&&*kind.name);
            count.siblings >= 2 && !is_part && (is_row || count.facts >= 2 * count.elements)
        };
        let kinds = counts.into_iter().filter(is_record).map(|(kind, _)| kind);
        let mut kinds: Vec<ElementKind> = kinds.collect();
        kinds.sort_unstable();
        (!kinds.is_empty()).then_some(Self { is_html, kinds })
    }

    /// Returns true for HTML, and false for XML.
    pub fn is_html(&self) -> bool {
        self.is_html
    }

    pub(super) fn has(&self, kind: &ElementKind) -> bool {
        self.kinds.binary_search(kind).is_ok()
    }
}

fn close(
    parents: &mut Vec<Parent>,
    counts: &mut HashMap<ElementKind, KindCount>,
    kind: &ElementKind,
) {
    let Some(Parent { facts, .. }) = parents.pop() else { return };
    let Some(parent) = parents.last_mut() else { return };
    parent.facts += facts;
    if parent.children.len() >= MAX_KINDS && !parent.children.contains_key(kind) {
        return;
    }
    let siblings = parent.children.entry(kind.clone()).or_default();
    *siblings += 1;
    let count = counts.entry(kind.clone()).or_default();
    count.siblings = count.siblings.max(*siblings);
    count.elements += 1;
    count.facts += facts;
}

/// Returns the offset of the first tag, and true for HTML. Returns `None` if `sample` is no markup.
fn begin(sample: &[u8]) -> Option<(usize, bool)> {
    let start = &sample[..sample.len().min(BEFORE_TAG)];
    let text = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start);
    let first = text.trim_ascii_start();
    let begins = |text: &[u8], mark: &str| {
        text.get(..mark.len()).is_some_and(|it| it.eq_ignore_ascii_case(mark.as_bytes()))
    };
    let at = start.len() - first.len();
    if begins(first, "<?xml") {
        return Some((at, memchr::memmem::find(start, b"<html").is_some()));
    }
    // A document may stand below the headers of a response.
    let mut tags = memchr::memchr_iter(b'<', start);
    let html =
        tags.find(|at| begins(&start[*at..], "<!doctype html") || begins(&start[*at..], "<html"));
    if let Some(html) = html.filter(|html| *html == 0 || start[html - 1].is_ascii_whitespace()) {
        return Some((html, true));
    }
    let is_tag = first.first() == Some(&b'<')
        && first.get(1).is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'!');
    let closes = || memchr::memmem::find(sample, b"</").is_some();
    if !is_tag || !closes() {
        return None;
    }
    let is_part = |name: &[u8]| {
        let more: [&[u8]; 8] =
            [b"div", b"ul", b"ol", b"table", b"section", b"article", b"main", b"nav"];
        PARTS.contains(&name) || more.contains(&name)
    };
    let name: Vec<u8> = first[1..]
        .iter()
        .take_while(|byte| byte.is_ascii_alphanumeric())
        .map(u8::to_ascii_lowercase)
        .collect();
    Some((at, is_part(&name)))
}

impl fmt::Display for ElementKinds {
    /// Names up to four of the kinds: `article.card, tr`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<String> = self.kinds.iter().take(4).map(ToString::to_string).collect();
        let more = if self.kinds.len() > kinds.len() { ", ..." } else { "" };
        write!(f, "{}{more}", kinds.join(", "))
    }
}
