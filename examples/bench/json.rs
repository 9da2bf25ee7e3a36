//! Views of a document of 300 MB on one line, compared with programs on the plain file.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::measures::seconds;
use crate::place::{Kind, Place};
use crate::table::Table;

/// Bytes of the document.
const SIZE: usize = 300_000_000;
/// A word in one value of the document.
const NEEDLE: &str = "needle";

/// Name, view, and command on the plain file, for each row.
const ROWS: [(&str, &str, &str); 7] = [
    (
        "300 MB of JSON: `.summary` right after close (plain: `jq type`)",
        ".summary",
        "jq type \"$0\"",
    ),
    ("300 MB of JSON: `.shape` (plain: `jq '.items[0]'`)", ".shape", "jq '.items[0]' \"$0\""),
    (
        "300 MB of JSON: `.pretty.grep/` first (plain: `jq .` into `rg -n`)",
        ".pretty.grep/needle",
        "jq . \"$0\" | rg -n needle",
    ),
    ("300 MB of JSON: `.pretty.grep/` again", ".pretty.grep/needle", "jq . \"$0\" | rg -n needle"),
    (
        "300 MB of JSON: `.pretty.lines/` (plain: `python3 -m json.tool` into `sed -n`)",
        ".pretty.lines/1000000-1000010",
        "python3 -m json.tool \"$0\" | sed -n 1000000,1000010p",
    ),
    (
        "300 MB of JSON: `.grep/` on the line itself (plain: `rg -o`)",
        ".grep/-o needle",
        "rg -o needle \"$0\"",
    ),
    ("300 MB of JSON: `.jq/.items[0]` (plain: `jq`)", ".jq/.items[0]", "jq '.items[0]' \"$0\""),
];

/// Measures one round, in the plain directory or a mount with passthrough.
pub(crate) fn document(place: &Place, table: &mut Table) {
    if place.is_bare() || place.kind == Kind::Cached {
        return;
    }
    let path = place.fresh("json").join("x.json");
    write(&path);
    for (row, view, command) in ROWS {
        let command = if place.has_views() { "cat \"$0\"" } else { command };
        let view = if place.has_views() { view } else { "" };
        let path = format!("{}{view}", path.display());
        table.add(row, "s", place.kind, seconds(|| run(command, &path)));
    }
    place.clear("json");
}

fn write(path: &Path) {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path).unwrap());
    let mut written = 0;
    write!(file, "{{\"total\":1,\"items\":[").unwrap();
    for number in 0.. {
        let comma = if number > 0 { "," } else { "" };
        let title = if number == 1_000_000 { NEEDLE } else { "an ordinary title" };
        let item = format!(
            "{comma}{{\"id\":\"item-{number}\",\"title\":\"{title}\",\"score\":{number}.25,\
             \"labels\":[\"bug\",\"backend\"],\"open\":true,\"body\":\"{}\"}}",
            "some text of the usual kind, ".repeat(number % 7)
        );
        file.write_all(item.as_bytes()).unwrap();
        written += item.len();
        if written >= SIZE {
            break;
        }
    }
    write!(file, "],\"next\":null}}").unwrap();
    file.into_inner().unwrap();
}

/// Runs a line of shell and reads its output through a pipe, as an agent does.
fn run(command: &str, path: &str) {
    let mut shell = Command::new("sh");
    let output = shell.args(["-c", command, path]).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{shell:?}: {}", output.stderr.escape_ascii());
    assert!(!output.stdout.is_empty(), "{shell:?}");
}
