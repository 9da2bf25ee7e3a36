//! Resolves references in arguments. `{"$ctx": REF}` in the arguments of a call stands for stored
//! text, so a result can be passed to another tool without the model repeating it.

use std::io;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::context::location::Location;
use crate::raw_object::{RawObject, elements, quoted, text};
use crate::shelf::GatewayConversation;
use ctxfs_core::model::Content;

pub(crate) const MEMBER: &str = "$ctx";
// Maximum number of bytes that all references of a call may resolve to.
const MAX_BYTES: u64 = 16 << 20;
// Maximum depth at which references are found.
const MAX_DEPTH: usize = 100;
const BLOCK: usize = 64 * 1024;

/// Resolves the references in the arguments of a call. All calls of a batch share one resolver and
/// its limit.
pub(crate) struct Resolver {
    open: GatewayConversation,
    left: u64,
}

/// A reference in arguments. `to` names a stored output. `part` selects the whole output, some
/// lines, or a value.
struct Reference<'a> {
    to: std::borrow::Cow<'a, str>,
    part: ReferencePart,
}

enum ReferencePart {
    Whole,
    Filter(String),
    Lines(u64, u64),
}

impl Resolver {
    pub(crate) fn new(open: GatewayConversation) -> Self {
        Self { open, left: MAX_BYTES }
    }

    /// Returns the arguments with all references resolved. Errors are worded for the model.
    pub(crate) fn resolved(&mut self, arguments: &RawValue) -> Result<String, String> {
        let mut out = String::new();
        self.value(arguments, 0, &mut out)?;
        Ok(out)
    }

    fn value(&mut self, value: &RawValue, depth: usize, out: &mut String) -> Result<(), String> {
        let written = value.get();
        if depth > MAX_DEPTH || !written.contains(MEMBER) {
            out.push_str(written);
        } else if written.starts_with('[') {
            out.push('[');
            for (index, element) in elements(value).unwrap_or_default().into_iter().enumerate() {
                out.push_str(if index == 0 { "" } else { "," });
                self.value(element, depth + 1, out)?;
            }
            out.push(']');
        } else if let Some(object) = RawObject::parse(value) {
            match Reference::of(&object)? {
                Some(reference) => out.push_str(&self.text(&reference)?),
                None => self.members(&object, depth, out)?,
            }
        } else {
            out.push_str(written);
        }
        Ok(())
    }

    fn members(
        &mut self,
        object: &RawObject<'_>,
        depth: usize,
        out: &mut String,
    ) -> Result<(), String> {
        out.push('{');
        for (index, (name, value)) in object.0.iter().enumerate() {
            out.push_str(if index == 0 { "" } else { "," });
            out.push_str(&quoted(name));
            out.push(':');
            self.value(value, depth + 1, out)?;
        }
        out.push('}');
        Ok(())
    }

    fn text(&mut self, reference: &Reference<'_>) -> Result<String, String> {
        let place = Location::find(&self.open, &reference.to)?;
        let bytes = match &reference.part {
            ReferencePart::Whole => read(&place.open()?, self.left, &mut |_| true),
            ReferencePart::Lines(first, last) => {
                read(&place.open()?, self.left, &mut |line| (*first..=*last).contains(&line))
            }
            ReferencePart::Filter(filter) => {
                let view =
                    format!("jq/-c -m0 -- {}", filter.replace('%', "%25").replace('/', "%2F"));
                read(&place.view(&view).open()?, self.left, &mut |_| true)
            }
        };
        let bytes = bytes.map_err(|error| format!("`{}`: {error}", place.name()))?;
        self.left -= bytes.len() as u64;
        let text = String::from_utf8(bytes)
            .map_err(|_| format!("`{}` is not text, and cannot be an argument", place.name()))?;
        let is_filter = matches!(reference.part, ReferencePart::Filter(_));
        Ok(match serde_json::from_str::<&RawValue>(text.trim()) {
            // A message must be one line. Outside of JSON strings, newlines are white space and can
            // be replaced.
            Ok(value) if is_filter => value.get().replace(['\n', '\r'], " "),
            _ if is_filter && text.starts_with("# ") => return Err(text),
            _ => Value::from(text).to_string(),
        })
    }
}

impl<'a> Reference<'a> {
    fn of(object: &RawObject<'a>) -> Result<Option<Self>, String> {
        let Some(to) = object.get(MEMBER) else { return Ok(None) };
        if object.0.iter().any(|(name, _)| ![MEMBER, "jq", "lines"].contains(&&**name)) {
            return Ok(None);
        }
        let to = text(to).ok_or("`$ctx` is a string: the reference of a stored output")?;
        let part = match (object.text("jq"), object.text("lines")) {
            (None, None) => ReferencePart::Whole,
            (Some(filter), None) => ReferencePart::Filter(filter.into_owned()),
            (None, Some(lines)) => {
                let range = lines
                    .split_once('-')
                    .and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
                let (first, last) = range.ok_or_else(|| format!("`{lines}` are no lines `A-B`"))?;
                ReferencePart::Lines(first, last)
            }
            (Some(_), Some(_)) => return Err("`jq` and `lines` exclude each other".to_owned()),
        };
        Ok(Some(Self { to, part }))
    }
}

fn read(file: &dyn Content, most: u64, takes: &mut dyn FnMut(u64) -> bool) -> io::Result<Vec<u8>> {
    let (mut kept, mut line, mut offset) = (Vec::new(), 1, 0);
    loop {
        let block = file.bytes(offset, BLOCK)?;
        if block.is_empty() {
            return Ok(kept);
        }
        offset += block.len() as u64;
        for part in block.split_inclusive(|byte| *byte == b'\n') {
            if takes(line) {
                kept.extend_from_slice(part);
            }
            line += u64::from(part.ends_with(b"\n"));
        }
        if kept.len() as u64 > most {
            let text = format!("the references of a call stand for more than {MAX_BYTES} bytes");
            return Err(io::Error::other(text));
        }
    }
}
