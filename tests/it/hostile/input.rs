//! Bytes that are hard to show.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use crate::support::{Mode, TestMount};

/// All views, with the most bytes that each may have.
const VIEWS: &[(&str, usize)] = &[
    ("summary", 6144),
    ("tail", 49_152),
    ("head", 49_152),
    ("grep/a", 49_152),
    ("lines/1-1", 49_152),
    ("lines/-1", 49_152),
    ("wrap", usize::MAX),
    ("shape", 49_152),
    ("jq/.items[0]", 49_152),
    ("jq/[.]", 49_152),
    ("meta.json", 49_152),
    ("ref.json", 49_152),
    ("envelope.json", 120_000),
    ("handle", 6144),
    ("preview", 6144),
];

#[test]
fn two_megabytes_of_json_on_one_line() {
    let mut text = String::from(r#"{"total":9000,"items":["#);
    for number in 0..20_000 {
        write!(text, r#"{{"id":{number},"title":"needle {number}","body":"{:060}"}},"#, 0).unwrap();
    }
    text.pop();
    text.push_str(r#"],"next":null}"#);
    assert!(text.len() > 2_000_000);
    each_mode(text.as_bytes(), |dir| {
        let summary = read(dir, "x.txt.summary");
        assert!(summary.contains("JSON, valid"), "{summary}");
        assert!(summary.contains("shape: {total: int, items: [20"), "{summary}");
        assert!(summary.contains("1 line"), "{summary}");
        assert!(summary.contains("query: .jq/.items[0]\n"), "{summary}");
        assert!(read(dir, "x.txt.jq/.items[0]").starts_with("{\n  \"id\": 0,\n"));
        assert!(
            read(dir, "x.txt.shape")
                .contains("\n.items[].id     int     20,000 of 20,000  0..19999")
        );
        let found = read(dir, "x.txt.grep/needle 19999");
        assert!(found.starts_with("# "), "the match is cut, and says so: {found:.200}");
        assert!(found.contains("needle 19999"), "{found:.600}");
        assert!(found.lines().all(|line| line.chars().count() < 700), "{found:.1000}");
        assert!(read(dir, "x.txt.tail").contains(r#""next":null}"#));
    });
}

#[test]
fn one_long_line_of_text() {
    let mut text = "word ".repeat(40_000);
    text.push_str("the answer is 42");
    each_mode(text.as_bytes(), |dir| {
        let summary = read(dir, "x.txt.summary");
        assert!(summary.contains("word word"), "a preview is never empty: {summary}");
        assert!(summary.contains("the answer is 42"), "nor without its end: {summary}");
        assert!(summary.lines().all(|line| line.chars().count() <= 500), "{summary}");
        let tail = read(dir, "x.txt.tail");
        assert!(tail.starts_with("# ") && tail.trim_end().ends_with("the answer is 42"));
        assert!(read(dir, "x.txt.grep/answer").contains("the answer is 42"));
    });
}

#[test]
fn nothing_at_all() {
    each_mode(b"", |dir| {
        let summary = read(dir, "x.txt.summary");
        assert!(summary.contains("0 bytes"), "{summary}");
        assert!(!summary.contains("INCOMPLETE"), "{summary}");
        for view in ["tail", "head", "grep/a"] {
            assert_eq!(read(dir, &format!("x.txt.{view}")), "", "{view}");
        }
        assert!(!dir.join("x.txt.lines/1-1").exists());
    });
}

#[test]
fn nothing_but_nul() {
    each_mode(&vec![0; 300_000], |dir| {
        let summary = read(dir, "x.txt.summary");
        assert!(summary.contains("300,000 bytes") && summary.contains("binary"), "{summary}");
    });
}

#[test]
fn an_image() {
    let mut image = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    image.extend((0..200).flat_map(|_| 0..=255));
    each_mode(&image, |dir| {
        let reference = read(dir, "x.txt.ref.json");
        assert!(reference.contains("image/png"), "{reference}");
    });
}

#[test]
fn bytes_that_are_not_utf8() {
    let mut text = b"good line\nbad \xff\xfe\xc3( line a\nlast line\n".to_vec();
    text.extend(b"cut \xe2\x82");
    each_mode(&text, |dir| {
        assert!(read(dir, "x.txt.summary").contains("bad \u{fffd}"));
        assert!(read(dir, "x.txt.grep/last").starts_with("3:last line"));
        assert!(read(dir, "x.txt.grep/line a").contains("line a"));
    });
}

#[test]
fn ends_of_lines_of_other_systems_and_colours() {
    let text = "one\r\ntwo\r\n\x1b[31m 10%\x1b[0m\r100%\n\x1b[31mred a\x1b[0m\rother\n";
    each_mode(text.as_bytes(), |dir| {
        assert_eq!(fs::read(dir.join("x.txt")).unwrap(), text.as_bytes());
        assert_eq!(read(dir, "x.txt.tail"), "one\ntwo\n100%\nred a\rother\n");
        assert!(read(dir, "x.txt.summary").ends_with("\none\ntwo\n100%\nred a\u{240d}other\n"));
    });
}

#[test]
fn a_stand_in_that_is_written_back() {
    let mount = TestMount::new(Mode::Passthrough);
    let path = mount.artifact("c7", "x.txt", "line of text\n".repeat(9000).as_bytes());
    let summary = fs::read(path.with_file_name("x.txt.summary")).unwrap();
    let again = mount.artifact("c7", "y.txt", &summary);
    assert_eq!(fs::read(&again).unwrap(), summary);
    let second = read(path.parent().unwrap(), "y.txt.summary");
    assert!(second.contains("ctx://c7/artifacts/tool/x.txt"), "{second}");
}

/// Makes the checks for every input, then `right` for this one.
fn each_mode(bytes: &[u8], right: impl Fn(&Path)) {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.artifact("c7", "x.txt", bytes);
        let dir = path.parent().unwrap();
        assert!(fs::read(&path).unwrap() == bytes, "every byte is kept");
        let binary = bytes.contains(&0);
        for (view, most) in VIEWS {
            let path = dir.join(format!("x.txt.{view}"));
            if !path.exists() {
                assert!(bytes.is_empty() && view.starts_with("lines"), "{view}");
                continue;
            }
            let size = fs::metadata(&path).unwrap().len();
            let text = fs::read(&path).unwrap();
            assert_eq!(text.len() as u64, size, "{view}");
            assert!(text.len() <= *most, "{view}: {} bytes", text.len());
            assert!(!binary || !text.contains(&0), "{view} prints raw bytes");
        }
        for view in ["meta.json", "ref.json", "envelope.json"] {
            let text = fs::read(dir.join(format!("x.txt.{view}"))).unwrap();
            serde_json::from_slice::<serde_json::Value>(&text).unwrap();
        }
        let summary = read(dir, "x.txt.summary");
        let first = summary.lines().next().unwrap();
        assert!(first.starts_with("[ctxfs] The complete output is stored"), "{first}");
        right(dir);
    }
}

fn read(dir: &Path, name: &str) -> String {
    String::from_utf8_lossy(&fs::read(dir.join(name)).unwrap()).into_owned()
}

/// Its readers are gone, and so is the file, before all of it could be looked at.
#[test]
fn a_line_without_an_end_keeps_nobody_waiting() {
    let mount = TestMount::new(Mode::ALL[0]);
    let dir = mount.tool("c7");
    for number in 0..4 {
        let mut file = fs::File::create(dir.join(format!("{number}.txt"))).unwrap();
        file.write_all("line\n".repeat(20_000).as_bytes()).unwrap();
        file.set_len(1 << 40).unwrap();
    }
    let readers: Vec<_> = (0..4)
        .map(|number| {
            let path = dir.join(format!("{number}.txt.find/line"));
            std::thread::spawn(move || fs::read_to_string(path).unwrap())
        })
        .collect();
    for reader in readers {
        let shown = reader.join().unwrap();
        assert!(shown.lines().take(2).any(|line| line.contains("out of time")), "{shown}");
        assert!(shown.contains("1:line"), "what was found before is shown: {shown}");
    }
    for number in 0..4 {
        fs::remove_file(dir.join(format!("{number}.txt"))).unwrap();
    }
    fs::write(dir.join("o.txt"), "hello\n".repeat(100_000)).unwrap();
    assert!(fs::read_to_string(dir.join("o.txt.find/hello")).unwrap().contains("1:hello"));
}
