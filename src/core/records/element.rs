//! The elements of HTML and XML that are open at some place.

use std::fmt;

use crate::records::markup::{self, Token};

/// The name of an element, and the first of its classes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ElementKind {
    pub(super) name: Vec<u8>,
    pub(super) class: Vec<u8>,
}

/// Deeper elements are part of the element at this depth.
const MAX_DEPTH: usize = 256;
/// An end tag ends an open element up to this many levels above.
const MAX_UP: usize = 64;
/// Maximum number of bytes that are kept of a name.
const NAME_BYTES: usize = 64;

const VOID: [&[u8]; 14] = [
    b"area", b"base", b"br", b"col", b"embed", b"hr", b"img", b"input", b"link", b"meta", b"param",
    b"source", b"track", b"wbr",
];
type Names = &'static [&'static [u8]];
/// Elements that end open elements of some names, up to an element of some other names.
const IMPLIED: [(Names, Names, Names); 6] = [
    (&[b"li"], &[b"li"], &[b"ul", b"ol", b"menu"]),
    (&[b"tr", b"tbody", b"thead", b"tfoot"], &[b"tr"], &[b"table"]),
    (&[b"tbody", b"thead", b"tfoot"], &[b"tbody", b"thead", b"tfoot"], &[b"table"]),
    (&[b"td", b"th"], &[b"td", b"th"], &[b"tr", b"table"]),
    (&[b"dt", b"dd"], &[b"dt", b"dd"], &[b"dl"]),
    (&[b"option"], &[b"option"], &[b"select"]),
];
/// Elements that end an open paragraph.
const BLOCKS: [&[u8]; 16] = [
    b"p", b"div", b"ul", b"ol", b"table", b"section", b"article", b"h1", b"h2", b"h3", b"h4",
    b"h5", b"h6", b"pre", b"dl", b"form",
];

/// An open element. `attributes` is the number of its attributes that tell something.
#[derive(Debug, Default)]
pub(super) struct Element {
    pub(super) kind: ElementKind,
    pub(super) start: u64,
    pub(super) attributes: u64,
}

/// A change of the open elements, or a text that is not blank.
pub(super) enum Step<'e> {
    Opened(&'e Element),
    Text,
    /// The element has ended. It is no longer among the open elements.
    Closed(&'e Element),
}

/// The open elements, outermost first.
pub(super) struct ElementStack {
    is_html: bool,
    pub(super) open: Vec<Element>,
    /// Number of open elements that are too deep.
    deeper: usize,
    is_raw: bool,
}

impl ElementStack {
    pub(super) fn new(is_html: bool) -> Self {
        Self { is_html, open: Vec::new(), deeper: 0, is_raw: false }
    }

    /// Returns the name of the current element if its text has no tags.
    pub(super) fn raw(&self) -> Option<&[u8]> {
        self.open.last().filter(|_| self.is_raw).map(|element| &*element.kind.name)
    }

    /// Takes a token of `bytes` that begins at `start` in the content. Calls `step` with each change
    /// that it causes.
    pub(super) fn take(
        &mut self,
        bytes: &[u8],
        token: &Token,
        start: u64,
        mut step: impl FnMut(Step<'_>),
    ) {
        match token {
            Token::Open { name, attributes, is_closed } => {
                let kind = self.kind(&bytes[name.clone()], &bytes[attributes.clone()]);
                self.end_implied(&kind.name, &mut step);
                let is_void = *is_closed || self.is_html && VOID.contains(&&*kind.name);
                if self.open.len() >= MAX_DEPTH {
                    self.deeper += usize::from(!is_void);
                    return;
                }
                let telling = markup::attributes(&bytes[attributes.clone()]);
                let is_html = self.is_html;
                let telling =
                    telling.filter(|(name, value)| markup::tells(name, value, is_html)).count();
                let element = Element { kind, start, attributes: telling as u64 };
                step(Step::Opened(&element));
                if is_void {
                    step(Step::Closed(&element));
                    return;
                }
                self.is_raw = self.is_html && matches!(&*element.kind.name, b"script" | b"style");
                self.open.push(element);
            }
            Token::Close { name } => {
                self.is_raw = false;
                if self.deeper > 0 {
                    self.deeper -= 1;
                    return;
                }
                let name = self.name(&bytes[name.clone()]);
                let above = self.open.iter().rev().take(MAX_UP);
                let Some(up) = above.map(|it| &it.kind.name).position(|it| *it == name) else {
                    return;
                };
                self.close(up + 1, &mut step);
            }
            Token::Text { range, .. } => {
                if !self.is_raw && !bytes[range.clone()].trim_ascii().is_empty() {
                    step(Step::Text);
                }
            }
            Token::Other => {}
        }
    }

    fn close(&mut self, count: usize, step: &mut impl FnMut(Step<'_>)) {
        for _ in 0..count {
            if let Some(element) = self.open.pop() {
                step(Step::Closed(&element));
            }
        }
    }

    fn end_implied(&mut self, name: &[u8], step: &mut impl FnMut(Step<'_>)) {
        if !self.is_html {
            return;
        }
        for (opening, ended, limits) in IMPLIED {
            if !opening.contains(&name) {
                continue;
            }
            let above = self.open.iter().rev().take(MAX_UP).map(|it| &*it.kind.name);
            let mut above = above.take_while(|it| !limits.contains(it));
            if let Some(up) = above.position(|it| ended.contains(&it)) {
                self.close(up + 1, step);
            }
        }
        if BLOCKS.contains(&name) && self.open.last().is_some_and(|it| it.kind.name == b"p") {
            self.close(1, step);
        }
    }

    fn name(&self, name: &[u8]) -> Vec<u8> {
        let name = &name[..name.len().min(NAME_BYTES)];
        if self.is_html { name.to_ascii_lowercase() } else { name.to_vec() }
    }

    fn kind(&self, name: &[u8], attributes: &[u8]) -> ElementKind {
        let is_class = |(name, _): &(&[u8], &[u8])| name.eq_ignore_ascii_case(b"class");
        let class = if self.is_html { markup::attributes(attributes).find(is_class) } else { None };
        let first = |value: &[u8]| {
            let value = value.trim_ascii_start();
            let length = value.iter().position(u8::is_ascii_whitespace).unwrap_or(value.len());
            value[..length.min(NAME_BYTES)].to_vec()
        };
        ElementKind {
            name: self.name(name),
            class: class.map(|(_, value)| first(value)).unwrap_or_default(),
        }
    }
}

impl fmt::Display for ElementKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.name))?;
        if self.class.is_empty() {
            return Ok(());
        }
        write!(f, ".{}", String::from_utf8_lossy(&self.class))
    }
}
