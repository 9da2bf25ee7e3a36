//! The records of JSON: `id` and `name` of each, or what stands for them.

use std::collections::HashSet;

use crate::clean::{TextBudget, shortened};
use crate::number::grouped;
use crate::scan;

// Fewest records that are worth a list.
const MIN_RECORDS: usize = 4;
// Maximum number of characters of a value.
const VALUE_CHARS: usize = 100;
// Bytes that are reserved for the number of the records that do not fit.
const REST_BYTES: usize = 16;
// Keys of what a program calls a record by, and of what a person calls it by, best first.
const IDS: [&[u8]; 8] = [b"id", b"uuid", b"key", b"number", b"iid", b"sha", b"slug", b"documentId"];
const NAMES: [&[u8]; 9] =
    [b"name", b"title", b"label", b"path", b"login", b"filename", b"subject", b"summary", b"url"];

#[derive(Default, Clone, Copy)]
struct Named<'a> {
    id: Option<(usize, &'a [u8])>,
    name: Option<(usize, &'a [u8])>,
}

/// Returns a line for each record in `bytes`, in their order, as many as fit. Returns nothing if there
/// are few. `bytes` may be the beginning of a document.
pub(super) fn records(bytes: &[u8], budget: TextBudget) -> Vec<String> {
    let found = objects(bytes);
    let has_ids = found.iter().any(|it| it.id.is_some() && it.name.is_some());
    let told = |it: &&Named<'_>| it.name.is_some() && (it.id.is_some() || !has_ids);
    let mut seen = HashSet::new();
    let lines: Vec<String> = found.iter().filter(told).map(Named::line).collect();
    let lines: Vec<String> = lines.into_iter().filter(|line| seen.insert(line.clone())).collect();
    let (mut left, mut shown) = (budget.bytes.saturating_sub(REST_BYTES), Vec::new());
    if lines.len() < MIN_RECORDS {
        return shown;
    }
    for line in lines.iter().take(budget.lines.saturating_sub(1)) {
        let Some(rest) = left.checked_sub(line.len() + 1) else { break };
        left = rest;
        shown.push(line.clone());
    }
    let more = lines.len() - shown.len();
    shown.extend((more > 0).then(|| format!("+{} more", grouped(more as u64))));
    shown
}

impl Named<'_> {
    fn line(&self) -> String {
        let text = |value: Option<(usize, &[u8])>| {
            shortened(value.map_or(b"", |(_, value)| value), VALUE_CHARS)
        };
        let id = if self.id.is_some() { text(self.id) + "  " } else { String::new() };
        id + &text(self.name)
    }
}

// Returns the objects in the order in which they begin, with their own identifiers and names.
fn objects(bytes: &[u8]) -> Vec<Named<'_>> {
    let (mut found, mut open): (Vec<Named<'_>>, Vec<usize>) = (Vec::new(), Vec::new());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'{' => {
                open.push(found.len());
                found.push(Named::default());
            }
            b'}' => _ = open.pop(),
            b'"' => {
                let Some(length) = scan::json_string_length(&bytes[at..]) else { break };
                let key = &bytes[at + 1..at + length - 1];
                at += length;
                let value =
                    bytes[at..].trim_ascii_start().strip_prefix(b":").map(<[u8]>::trim_ascii_start);
                if let (Some(value), Some(object)) = (value, open.last()) {
                    found[*object].add(key, value);
                    at = bytes.len() - value.len();
                }
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    found
}

impl<'a> Named<'a> {
    // Takes a member of the object, if its key is better than that of an earlier one.
    fn add(&mut self, key: &[u8], value: &'a [u8]) {
        for (kept, keys) in [(&mut self.id, &IDS[..]), (&mut self.name, &NAMES[..])] {
            let rank = keys.iter().position(|known| known.eq_ignore_ascii_case(key));
            let rank = rank.filter(|rank| kept.is_none_or(|(best, _)| *rank < best));
            if let Some((rank, value)) = rank.zip(scalar(value)) {
                *kept = Some((rank, value));
            }
        }
    }
}

// Returns the text of a string, or a number, at the start of `bytes`.
fn scalar(bytes: &[u8]) -> Option<&[u8]> {
    if bytes.first() == Some(&b'"') {
        let length = scan::json_string_length(bytes)?;
        return Some(&bytes[1..length - 1]).filter(|text| !text.is_empty());
    }
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'-').count();
    (digits > 0).then(|| &bytes[..digits])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(json: &str, bytes: usize) -> Vec<String> {
        records(json.as_bytes(), TextBudget { bytes, lines: 100 })
    }

    #[test]
    fn each_record_has_its_id_and_name() {
        let child = |n: usize| {
            format!(
                "{{\"at\": {{\"x\": {n}}}, \"id\": \"3:{n}\", \"title\": \"Part \\\"{n}\\\"\", \"url\": \"/{n}\"}}"
            )
        };
        let children = (0..9).map(child).collect::<Vec<_>>().join(",");
        let json = format!(
            "{{\"id\": 7, \"name\": \"Page\", \"of\": \"id\", \"children\": [{children}]}}"
        );
        let all = told(&json, 2000);
        assert_eq!(all.len(), 10);
        assert_eq!(&all[..2], ["7  Page", "3:0  Part \\\"0\\\""]);
        assert_eq!(told(&json, 80).last().unwrap(), "+6 more");
        // A document that was not read to its end.
        assert_eq!(told(&json[..json.len() / 2], 2000)[..2], all[..2]);
        assert_eq!(told("{\"id\": 1, \"name\": \"x\"}", 2000), [""; 0]);
        assert_eq!(told(&"{\"id\": 1}".repeat(9), 2000), [""; 0]);
        assert_eq!(told(&"}]\"\\".repeat(9), 2000), [""; 0]);
    }
}
