use crate::number::grouped;
use ctxfs_core::model::{Subject, Trouble};

// For all fields.
const CHARS: usize = 400;

// `trouble: .[].errorCount: 12 of 28 over 0; .items[].severity: 3 CRITICAL, 12 HIGH`
pub(super) fn line(subject: &Subject<'_>) -> Option<String> {
    let mut line = String::new();
    for field in subject.analysis.trouble.iter().map(told) {
        if line.chars().count() + field.chars().count() <= CHARS {
            line.push_str(if line.is_empty() { "trouble: " } else { "; " });
            line.push_str(&field);
        }
    }
    (!line.is_empty()).then_some(line)
}

fn told(trouble: &Trouble) -> String {
    let least = if trouble.least { "at least " } else { "" };
    let path = &trouble.path;
    let sum: u64 = trouble.counts.iter().map(|(_, count)| count).sum();
    let of = if sum < trouble.of { format!(" of {}", grouped(trouble.of)) } else { String::new() };
    if let [(word, count)] = trouble.counts.as_slice() {
        return format!("{path}: {least}{}{of} {}", grouped(*count), named(word));
    }
    let words =
        trouble.counts.iter().map(|(word, count)| format!("{} {}", grouped(*count), named(word)));
    format!("{path}: {least}{}{of}", words.collect::<Vec<String>>().join(", "))
}

// `CRITICAL`, `with 2`
fn named(word: &str) -> String {
    let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
    format!("{}{word}", if is_number { "with " } else { "" })
}
