//! Filters: the output equals that of jq, and no filter harms the server.

use std::fmt::Write as _;
use std::fs;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use crate::support::{Command, Mode, TestMount, need};

const DEEP: &str = "# the filter recurses too deeply";
const LARGE: &str = "# the filter needs more than the 256 MiB of memory that it may have";
const LATE: &str = "# out of time, ";

fn document() -> String {
    let mut text = String::from(r#"{"total":900,"items":["#);
    for id in 0..900 {
        let even = id % 2 == 0;
        write!(text, r#"{{"id":{id},"name":"item {id}","even":{even},"tags":["a","b/c"]}},"#)
            .unwrap();
    }
    text.pop();
    text.push_str("]}\n");
    text
}

fn view(artifact: &Path, filter: &str) -> String {
    let name = artifact.file_name().unwrap().to_str().unwrap();
    let path = artifact.with_file_name(format!("{name}.jq/{}", filter.replace('/', "%2F")));
    let mut file = File::open(path).unwrap();
    let size = file.metadata().unwrap().len();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text.len() as u64, size, "{filter}");
    text
}

/// Where jq reads a text as it is, the results are equal. Otherwise they are those of what is JSON in
/// it, and the first line counts the rest.
#[test]
fn json_as_it_is_found() {
    need("jq", "jq");
    let mount = TestMount::new(Mode::Passthrough);
    let cases: &[(&str, &str, &str)] = &[
        ("\u{feff}{\"a\":1}\r\n", "\u{feff}{\"a\":1}\r\n", ""),
        ("{\"a\":1}{\"a\":2} [3]", "{\"a\":1}{\"a\":2} [3]", ""),
        ("{\n\"a\":1\n}\n{\n\"a\":2\n}\n", "{\"a\":1}{\"a\":2}", ""),
        ("{\"a\":1,\"a\":2}", "{\"a\":1,\"a\":2}", ""),
        ("[NaN, 12]", "[null, 12]", ""),
        ("// c\n{\"a\": [1, 2,], /* d */}\n", "{\"a\": [1, 2]}", ""),
        ("[\"\\ud800\", \"\\ud83d\\ude00\"]", "[\"\\ufffd\", \"\\ud83d\\ude00\"]", ""),
        (
            "INFO up\n{\n \"a\": 1\n}\nDone\n",
            "{\"a\":1}",
            "# 2 lines are not JSON, and left out; the first is line 1\n",
        ),
        (
            "{\"a\":1}\n{\"a\":\n{\"a\":3}\n{\"a\":4}\n",
            "{\"a\":1}{\"a\":3}{\"a\":4}",
            "# line 2 is not JSON, and left out\n",
        ),
    ];
    for (number, (found, plain, notice)) in cases.iter().enumerate() {
        let path = mount.artifact("c7", &format!("{number}.txt"), found.as_bytes());
        let file = mount.store().path().join("plain.json");
        fs::write(&file, plain).unwrap();
        let want = Command::new("jq").args(["-c", "."]).arg(&file).text();
        assert_eq!(view(&path, "-c %2E"), format!("{notice}{want}"), "{found}");
        let values = want.lines().count();
        let shape = fs::read_to_string(path.with_extension("txt.shape")).unwrap();
        assert!(values == 1 || shape.contains(&format!(" {values} values")), "{shape}");
        assert!(shape.contains(notice), "{shape}");
    }
    let path = mount.artifact("c7", "kept.txt", b"[-0, 1.000, 12345678901234567890123, 1e400]");
    assert_eq!(view(&path, "-c %2E"), "[-0.0,1.000,12345678901234567890123,1e400]\n");
}

#[test]
fn it_prints_what_jq_prints() {
    need("jq", "jq");
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.artifact("c7", "x.json", document().as_bytes());
        let plain = mount.store().plain("c7", "x.json");
        let filters: &[&[&str]] = &[
            &[".total"],
            &[".items[7]"],
            &["-c", ".items[10:13]"],
            &["-r", ".items[] | select(.id % 300 == 0) | .name"],
            &["-c", "[.items[] | select(.even)] | length"],
            &["-c", "[.items[].tags[]] | group_by(.) | map([.[0], length])"],
            &["-c", "-S", ".items[-1]"],
            &["-c", ".items[0].tags[1] | split(\"/\")"],
        ];
        for filter in filters {
            let expected = Command::new("jq").args(*filter).arg(&plain).text();
            assert_eq!(view(&path, &filter.join(" ")), expected, "{mode:?} {filter:?}");
        }
    }
}

#[test]
fn with_and_without_a_mount_it_is_the_same() {
    let mount = TestMount::new(Mode::Passthrough);
    let path = mount.artifact("c7", "x.json", document().as_bytes());
    for filter in [".items[3].name", "-c .items[]", "nothing", "error(\"x\")"] {
        let without = mount.store().view(&format!("c7/artifacts/tool/x.json.jq/{filter}"));
        assert_eq!(view(&path, filter).into_bytes(), without, "{filter}");
    }
}

/// Each of these ends a process that evaluates it, or never ends, or takes all memory.
#[test]
fn no_filter_harms_the_mount() {
    let mount = TestMount::new(Mode::Passthrough);
    let path = mount.artifact("c7", "x.json", document().as_bytes());
    let cases: [(&str, &[&str]); 6] = [
        ("def f: 1 + f; f", &[DEEP]),
        (".total, (def f: 1 + f; f)", &[DEEP]),
        ("reduce range(200000) as $x (.; [.]) | tojson", &[DEEP]),
        ("\"abc\" * 1000000000", &[LARGE]),
        ("[range(1000000000000)]", &[LARGE, LATE]),
        ("[limit(1000000000; repeat(1))] | length", &[LARGE, LATE]),
    ];
    for (filter, expected) in cases {
        let found = view(&path, filter);
        assert!(expected.iter().any(|start| found.starts_with(start)), "{filter}: {found:.300}");
        assert_eq!(
            found.ends_with("; what was found before follows\n900\n"),
            filter.starts_with('.')
        );
        assert_eq!(view(&path, ".total"), "900\n", "after {filter}");
    }
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    let deep = mount.artifact("c7", "deep.json", deep.as_bytes());
    assert!(view(&deep, "%2E").starts_with(DEEP));
}

#[test]
fn a_filter_that_never_ends_is_ended_and_others_go_on() {
    let mount = TestMount::new(Mode::Passthrough);
    let path = mount.artifact("c7", "x.json", document().as_bytes());
    let endless = path.with_file_name("x.json.jq/.total, last(range(1000000000000))");
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| fs::read_to_string(&endless).unwrap());
        loop {
            assert_eq!(fs::read(&path).unwrap(), document().as_bytes());
            assert!(fs::read(path.with_file_name("x.json.tail")).is_ok());
            assert_eq!(view(&path, ".total"), "900\n");
            if reading.is_finished() {
                break;
            }
        }
        let found = reading.join().unwrap();
        assert!(found.starts_with(LATE), "{found}");
        assert!(found.ends_with("; what was found before follows\n900\n"), "{found}");
    });
}

#[test]
fn a_filter_sees_its_input_and_nothing_else() {
    let mount = TestMount::new(Mode::Passthrough);
    let path = mount.artifact("c7", "x.json", b"{\"a\":1}\n");
    for filter in ["env", "$ENV", "now", "input_filename", "get_search_list"] {
        assert!(view(&path, filter).starts_with("# not a filter: there is no "), "{filter}");
    }
    assert!(view(&path, "import \"x\" as x; .").starts_with("# not a filter: modules cannot"));
    assert_eq!(view(&path, "0 | localtime | mktime"), "0\n");
}

#[test]
fn a_long_document_is_not_loaded() {
    let mount = TestMount::new(Mode::Passthrough);
    let mut text = String::from("{\"items\":[");
    for id in 0..600 {
        write!(text, "{{\"id\":{id},\"body\":\"{:050000}\"}},", 0).unwrap();
    }
    text.pop();
    text.push_str("],\"total\":600}");
    assert!(text.len() > 30_000_000);
    let path = mount.artifact("c7", "x.json", text.as_bytes());
    assert_eq!(view(&path, ".items[599].id"), "599\n");
    assert_eq!(view(&path, ".total"), "600\n");
    assert_eq!(view(&path, "-c .items[] | select(.id > 597) | .body | length"), "50000\n50000\n");
    let whole = view(&path, ".items | length");
    assert!(
        whole.starts_with("# the value on line 1 is left out: it has more than 16 MiB"),
        "{whole}"
    );
    let summary = fs::read_to_string(path.with_file_name("x.json.summary")).unwrap();
    assert!(!summary.contains("INCOMPLETE"));
}
