//! The members of a JSON object of any size, by the offsets of their values.

use std::io;
use std::ops::Range;

use ctxfs_core::model::Content;

const BLOCK: usize = 256 << 10;
/// Bytes of a key that are compared. A longer key is none of those asked for, even if every
/// character of it is escaped.
const KEY_BYTES: usize = 128;

/// The ranges of the values of some members, in the order of the names asked for. If a member
/// occurs twice, the last one counts, as for most parsers.
pub(super) enum MemberRanges {
    Found(Vec<Option<Range<u64>>>),
    NotAnObject,
    OutOfTime,
}

/// Finds the members `names` of the value in `range`, which has to be JSON.
pub(super) fn members(
    content: &dyn Content,
    range: Range<u64>,
    names: &[&str],
    expired: &dyn Fn() -> bool,
) -> io::Result<MemberRanges> {
    let mut scan = Scan { found: vec![None; names.len()], names, ..Scan::default() };
    let mut offset = range.start;
    while offset < range.end && !scan.not_an_object {
        if expired() {
            return Ok(MemberRanges::OutOfTime);
        }
        let length = usize::try_from(range.end - offset).unwrap_or(BLOCK).min(BLOCK);
        let block = content.bytes(offset, length)?;
        if block.is_empty() {
            break;
        }
        scan.push(&block, offset);
        offset += block.len() as u64;
    }
    Ok(if scan.not_an_object { MemberRanges::NotAnObject } else { MemberRanges::Found(scan.found) })
}

#[derive(Default)]
struct Scan<'a> {
    names: &'a [&'a str],
    found: Vec<Option<Range<u64>>>,
    not_an_object: bool,
    depth: u64,
    in_text: bool,
    escaped: bool,
    // The key that was read last, as it is spelled.
    key: Vec<u8>,
    // The start of the value that is being read: the byte after the colon.
    value: Option<u64>,
}

impl Scan<'_> {
    fn push(&mut self, block: &[u8], offset: u64) {
        let mut at = 0;
        while at < block.len() && !self.not_an_object {
            if self.in_text {
                at += self.text(&block[at..]);
            } else {
                self.structure(block[at], offset + at as u64);
                at += 1;
            }
        }
    }

    /// Reads a part of a string, up to and including its closing quote or an escape. Returns its
    /// length.
    fn text(&mut self, rest: &[u8]) -> usize {
        let skipped = usize::from(self.escaped);
        let found = memchr::memchr2(b'"', b'\\', &rest[skipped..]).map(|at| at + skipped);
        let (used, last) = found.map_or((rest.len(), None), |at| (at + 1, Some(rest[at])));
        self.escaped = last == Some(b'\\');
        self.in_text = last != Some(b'"');
        if self.in_key() {
            let kept = &rest[..used - usize::from(!self.in_text)];
            let room = KEY_BYTES.saturating_sub(self.key.len());
            self.key.extend_from_slice(&kept[..kept.len().min(room)]);
        }
        used
    }

    fn structure(&mut self, byte: u8, offset: u64) {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => {}
            b'{' if self.depth == 0 => self.depth = 1,
            _ if self.depth == 0 => self.not_an_object = true,
            b'"' => {
                self.in_text = true;
                if self.in_key() {
                    self.key.clear();
                }
            }
            b'{' | b'[' => self.depth += 1,
            b':' if self.depth == 1 => self.value = Some(offset + 1),
            b',' if self.depth == 1 => self.end_member(offset),
            b'}' | b']' => {
                self.depth -= 1;
                if self.depth == 0 {
                    self.end_member(offset);
                }
            }
            _ => {}
        }
    }

    fn in_key(&self) -> bool {
        self.depth == 1 && self.value.is_none()
    }

    fn end_member(&mut self, end: u64) {
        let Some(start) = self.value.take() else { return };
        let quoted = [b"\"", self.key.as_slice(), b"\""].concat();
        let Ok(key) = serde_json::from_slice::<String>(&quoted) else { return };
        if let Some(index) = self.names.iter().position(|name| *name == key) {
            self.found[index] = Some(start..end);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    const NAMES: [&str; 3] = ["a", "status", "\u{e9}\"\\"];

    fn found(text: &str) -> Vec<Option<String>> {
        let content: Vec<u8> = text.into();
        match members(&content, 0..content.len() as u64, &NAMES, &|| false).unwrap() {
            MemberRanges::Found(found) => {
                let text =
                    |range: Range<u64>| text[range.start as usize..range.end as usize].trim();
                found.into_iter().map(|range| range.map(|range| text(range).to_owned())).collect()
            }
            MemberRanges::NotAnObject => Vec::new(),
            MemberRanges::OutOfTime => unreachable!(),
        }
    }

    fn values(a: Option<&str>, status: Option<&str>, odd: Option<&str>) -> Vec<Option<String>> {
        [a, status, odd].map(|value| value.map(str::to_owned)).to_vec()
    }

    #[test]
    fn values_are_found_by_key() {
        assert_eq!(found("{}"), values(None, None, None));
        assert_eq!(
            found(r#" {"x": {"a": 1}, "a" : [1, {"status": "}"}] , "status":"a\"b\\"}"#),
            values(Some(r#"[1, {"status": "}"}]"#), Some(r#""a\"b\\""#), None)
        );
        assert_eq!(
            found(r#"{"\u0061": 1, "\u00e9\"\\": -2.5e3}"#),
            values(Some("1"), None, Some("-2.5e3"))
        );
        assert_eq!(found("{\"a\": 1, \"a\": \n null \n}"), values(Some("null"), None, None));
    }

    #[test]
    fn other_values_are_no_objects() {
        for text in ["[1, {\"a\": 1}]", "\"{\"", "12", "true"] {
            assert_eq!(found(text), Vec::new(), "{text}");
        }
    }

    #[test]
    fn values_are_found_in_a_part_of_any_size() {
        let inner = format!("{{\"a\":\"{}\"}}", "\\\"x".repeat(BLOCK));
        let text = format!("[{inner}]");
        let content: Vec<u8> = text.clone().into();
        let range = 1..text.len() as u64 - 1;
        let found = members(&content, range, &["a"], &|| false).unwrap();
        let MemberRanges::Found(found) = found else { unreachable!() };
        assert_eq!(found, [Some(6..text.len() as u64 - 2)]);
    }

    #[test]
    fn time_can_run_out() {
        let out = members(&b"{}".to_vec(), 0..2, &NAMES, &|| true).unwrap();
        assert!(matches!(out, MemberRanges::OutOfTime));
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "\\PC{0,8}|[\"\\\\{}\\[\\],:]{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            let key = prop_oneof![Just("a".to_owned()), Just("status".to_owned()), "\\PC{0,4}"];
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::vec((key, inner), 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_found_is_what_a_parser_finds(value in value(), pretty in any::<bool>()) {
            let text = if pretty { format!("{value:#}") } else { value.to_string() };
            let found = found(&text);
            prop_assert_eq!(found.is_empty(), !value.is_object());
            for (name, range) in NAMES.iter().zip(found) {
                let parsed = range.map(|text| serde_json::from_str::<Value>(&text).unwrap());
                prop_assert_eq!(parsed.as_ref(), value.get(name));
            }
        }
    }
}
