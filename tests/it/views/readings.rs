//! Outputs in many encodings, and with other line ends than newlines: their views are those of the
//! text that other programs make of them.

use std::fs;
use std::path::Path;

use crate::support::{Command, Mode, TestMount, need};

/// An output. `text` is a shell command that reads it from standard input and prints its text.
struct Case {
    name: &'static str,
    bytes: Vec<u8>,
    text: &'static str,
    kind: &'static str,
}

fn case(
    name: &'static str,
    bytes: impl Into<Vec<u8>>,
    text: &'static str,
    kind: &'static str,
) -> Case {
    Case { name, bytes: bytes.into(), text, kind }
}

fn lines(end: &str) -> String {
    let line = |number: usize| match number % 50 {
        7 => format!("{number},ERROR: caf\u{e9} {number} is closed{end}"),
        _ => format!("{number},name{number},\u{41f}\u{440}\u{438}\u{432}\u{435}\u{442}{end}"),
    };
    (1..=4000).map(line).collect()
}

fn wide(text: &str, mark: bool) -> [Vec<u8>; 4] {
    let text = if mark { format!("\u{feff}{text}") } else { text.to_owned() };
    let units = || text.encode_utf16();
    let codes = || text.chars().map(u32::from);
    [
        units().flat_map(u16::to_le_bytes).collect(),
        units().flat_map(u16::to_be_bytes).collect(),
        codes().flat_map(u32::to_le_bytes).collect(),
        codes().flat_map(u32::to_be_bytes).collect(),
    ]
}

fn cases() -> Vec<Case> {
    let (lf, crlf, cr) = (lines("\n"), lines("\r\n"), lines("\r"));
    let [le, be, le32, be32] = wide(&crlf, true);
    let [bare_le, bare_be, bare_le32, _] = wide(&lf, false);
    let [cr_le, ..] = wide(&cr, true);
    let latin: Vec<u8> = crlf.chars().filter_map(|c| u8::try_from(u32::from(c)).ok()).collect();
    let entry = |number: u32| format!("./src/ERROR {number}.c\0");
    let list: String = (0..900).map(entry).collect();
    let few = lf.replace("\n77,", "\n77\0,").replace("\n3977,", "\n3977\0,");
    vec![
        case("crlf.txt", crlf.clone(), "cat", "text"),
        case("mac.csv", cr, "tr '\\r' '\\n'", "text, lines end in carriage returns"),
        case("open.csv", "id,name\r1,ERROR\r2,Joe", "tr '\\r' '\\n'", "carriage returns"),
        case("bom.txt", format!("\u{feff}{lf}"), "cat", "text in UTF-8 with byte order mark"),
        case("le.txt", le, "iconv -f UTF-16 -t UTF-8", "text in UTF-16LE"),
        case("be.txt", be, "iconv -f UTF-16 -t UTF-8", "text in UTF-16BE"),
        case("le32.txt", le32, "iconv -f UTF-32 -t UTF-8", "text in UTF-32LE"),
        case("be32.txt", be32, "iconv -f UTF-32 -t UTF-8", "text in UTF-32BE"),
        case("ble.txt", bare_le, "iconv -f UTF-16LE -t UTF-8", "text in UTF-16LE"),
        case("bbe.txt", bare_be, "iconv -f UTF-16BE -t UTF-8", "text in UTF-16BE"),
        case("ble32.txt", bare_le32, "iconv -f UTF-32LE -t UTF-8", "text in UTF-32LE"),
        case(
            "cr16.txt",
            cr_le,
            "iconv -f UTF-16 -t UTF-8 | tr '\\r' '\\n'",
            "text in UTF-16LE, lines end in carriage returns",
        ),
        case("latin.txt", latin, "cat", "text, probably in windows-1252"),
        case("list0.txt", list, "tr '\\0' '\\n'", "text, entries end in NUL bytes"),
        case("nul.txt", few, "cat", "text"),
    ]
}

fn output(command: &str) -> Vec<u8> {
    // `rg` exits with 1 if it finds nothing.
    Command::new("sh").args(["-c", &format!("{command} || true")]).stdout()
}

#[test]
fn views_are_those_of_the_text() {
    need("rg", "ripgrep");
    need("iconv", "libc-bin");
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let scratch = mount.store().scratch("text");
        for Case { name, bytes, text, kind } in cases() {
            let path = mount.artifact("c7", name, &bytes);
            let view = |view: &str| {
                fs::read(path.with_file_name(format!("{name}.{view}")))
                    .unwrap_or_else(|error| panic!("{name}.{view}: {error}"))
            };
            let plain = scratch.join(name);
            fs::write(&plain, &bytes).unwrap();
            fs::write(&plain, output(&format!("cat {} | {text}", plain.display()))).unwrap();
            check(&plain, &view);
            let summary = String::from_utf8(view("summary")).unwrap();
            let size = summary.lines().find(|line| line.starts_with("size: ")).unwrap();
            assert!(size.contains(kind), "{name}: {size}");
            assert!(summary.contains("ERROR"), "{name}: {summary}");
            let meta: serde_json::Value = serde_json::from_slice(&view("meta.json")).unwrap();
            let count = output(&format!("wc -l < {}", plain.display()));
            let newlines: u64 = String::from_utf8(count).unwrap().trim().parse().unwrap();
            let ends = fs::read(&plain).unwrap().ends_with(b"\n");
            assert_eq!(meta["analysis"]["lines"], newlines + u64::from(!ends), "{name}");
            assert_eq!(meta["size"], bytes.len(), "{name}");
            assert!(fs::read(&path).unwrap() == bytes, "{name}");
            let here = "c7/.grep/-c ERROR";
            let found = fs::read_to_string(mount.path().join(here)).unwrap();
            let count = output(&format!("rg -a -c ERROR {}", plain.display()));
            let count = String::from_utf8(count).unwrap();
            assert!(found.contains(&format!("/{name}:{count}")), "{name}: {found}");
        }
    }
}

/// Compares views with what other programs print of `plain`, which has the text.
fn check(plain: &Path, view: &dyn Fn(&str) -> Vec<u8>) {
    let plain = plain.display();
    for (name, command) in [
        ("head", format!("head -n 200 {plain}")),
        ("tail", format!("tail -n 200 {plain}")),
        ("lines/2-40", format!("sed -n 2,40p {plain}")),
        ("lines/-2", format!("tail -n 2 {plain}")),
        ("grep/ERROR", format!("rg -a -n ERROR {plain}")),
        ("grep/^2,", format!("rg -a -n ^2, {plain}")),
        ("grep/-c .", format!("rg -a -c . {plain}")),
        ("grep/-C2 77", format!("rg -a -n -C2 77 {plain}")),
    ] {
        let (found, wanted) = (view(name), output(&command));
        let is_same = found == wanted;
        let [found, wanted] = [&found, &wanted].map(|text| String::from_utf8_lossy(text));
        assert!(is_same, "{plain}.{name}\n{found:.500}\n--- wanted ---\n{wanted:.500}");
    }
    let find = String::from_utf8_lossy(&view("find/ERROR")).into_owned();
    assert!(find.contains(':') && find.contains("ERROR"), "{plain}: {find}");
}

/// Whether an output is text is the same for all of its views, however far into it they look.
#[test]
fn nul_bytes_far_into_a_text_do_not_hide_it() {
    let mount = TestMount::new(Mode::Passthrough);
    let mut late: Vec<u8> =
        (1..=20_000).flat_map(|n| format!("step {n} ok\n").into_bytes()).collect();
    late.extend_from_slice(b"middle \0 byte\nERROR disk full\nend\n");
    let path = mount.artifact("c7", "late.txt", &late);
    let view =
        |view: &str| fs::read_to_string(path.with_file_name(format!("late.txt.{view}"))).unwrap();
    assert!(view("tail").ends_with("middle \0 byte\nERROR disk full\nend\n"));
    assert_eq!(view("lines/20001-20002"), "middle \0 byte\nERROR disk full\n");
    assert_eq!(view("grep/middle|disk full"), "20001:middle \0 byte\n20002:ERROR disk full\n");
    for name in ["summary", "errors", "find/disk full", "head"] {
        let text = view(name);
        assert!(!text.contains("not text"), "{name}: {text}");
        assert!(name == "head" || text.contains("disk full"), "{name}: {text}");
    }
    let mut noise: Vec<u8> =
        (0..200_000_u32).flat_map(|n| n.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    noise.extend_from_slice(b"\nERROR disk full\n");
    let path = mount.artifact("c7", "noise.bin", &noise);
    for name in
        ["tail", "head", "lines/1-2", "grep/ERROR", "find/disk full", "errors", "pages/0001"]
    {
        let text = fs::read_to_string(path.with_file_name(format!("noise.bin.{name}"))).unwrap();
        assert!(text.starts_with("# not text ("), "{name}: {text:.300}");
    }
}
