//! Views compared with the programs they replace, with and without a mount.

use std::fs;
use std::path::Path;

use crate::support::{Command, Mode, TestMount, log, need};

#[test]
fn a_search_is_what_ripgrep_prints() {
    need("rg", "ripgrep");
    let mount = TestMount::new(Mode::Passthrough);
    let path = mount.artifact("c7", "x.txt", &log(3000));
    let plain = mount.store().plain("c7", "x.txt");
    let queries: &[&[&str]] = &[
        &["ERROR"],
        &["-i", "error"],
        &["-C3", "request 1200 "],
        &["-A1", "-B2", "request 12[0-3]0 "],
        &["-F", "path=/api/v3"],
        &["-w", "-m5", "green"],
        &["-v", "INFO"],
        &["-c", "ERROR"],
        &["-o", "request 12\\d+"],
        &["-S", "error"],
        &["-m3", "^0{2,}"],
        &["(ERROR|INFO) +gr\u{fc}n request 21\\d"],
    ];
    for query in queries {
        let expected = Command::new("rg").args(["-n"]).args(*query).arg(&plain).run().stdout;
        let name = query.join(" ").replace('%', "%25").replace('/', "%2F");
        let view = format!("c7/artifacts/tool/x.txt.grep/{name}");
        let found = fs::read(mount.path().join(&view)).unwrap();
        let (found, expected) =
            [&found, &expected].map(|text| String::from_utf8_lossy(text)).into();
        assert_eq!(found, expected, "{query:?}");
    }
    drop(path);
}

#[test]
fn the_ends_are_what_head_and_tail_print() {
    let mount = TestMount::new(Mode::Passthrough);
    for (name, lines) in [("short.txt", 7), ("long.txt", 700), ("just.txt", 200)] {
        let path = mount.artifact("c7", name, &log(lines));
        for end in ["head", "tail"] {
            let plain = mount.store().plain("c7", name);
            let expected = Command::new(end).args(["-n", "200"]).arg(plain).stdout();
            let found = fs::read(path.with_file_name(format!("{name}.{end}"))).unwrap();
            assert!(found == expected, "{name}.{end}");
        }
    }
}

#[test]
fn a_cut_is_said_first() {
    let mount = TestMount::new(Mode::Passthrough);
    let text = "x".repeat(1000) + " ERROR\n";
    let path = mount.artifact("c7", "x.txt", text.repeat(2000).as_bytes());
    for view in ["tail", "head", "grep/ERROR"] {
        let found = fs::read_to_string(path.with_file_name(format!("x.txt.{view}"))).unwrap();
        assert!(found.starts_with("# "), "{view}: {found:.200}");
        assert!(found.len() <= 49_152, "{view}: {}", found.len());
        assert!(found.lines().next().unwrap().contains("/x.txt"), "{view}: {found:.400}");
    }
}

#[test]
fn with_and_without_a_mount_they_are_the_same() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        mount.artifact("c7", "x.txt", &log(5000));
        for view in [
            "tail",
            "head",
            "grep/ERROR",
            "lines/7-70",
            "lines/-3",
            "errors",
            "terms",
            "wrap",
            "shape",
        ] {
            let path = format!("c7/artifacts/tool/x.txt.{view}");
            let mounted = fs::read(mount.path().join(&path)).unwrap();
            assert!(mount.store().view(&path) == mounted, "{mode:?} {view}");
        }
    }
}

#[test]
fn a_summary_points_to_paths_that_exist() {
    let mount = TestMount::new(Mode::Passthrough);
    let path = mount.artifact("c7", "x.txt", &log(5000));
    let summary = fs::read_to_string(path.with_file_name("x.txt.summary")).unwrap();
    assert!(summary.starts_with("[ctxfs] The complete output is stored"), "{summary}");
    assert!(summary.len() <= 6144 && summary.lines().count() <= 200);
    let file = summary.lines().find_map(|line| line.strip_prefix("file:   ")).unwrap();
    let file = file.split("    ").next().unwrap();
    assert_eq!(Path::new(file), path);
    let names = summary.lines().take_while(|line| !line.starts_with("--- "));
    let names = names.filter_map(|line| line.get(8..)?.strip_prefix('.'));
    let mut seen = 0;
    for name in names.map(|name| name.split("    ").next().unwrap()) {
        for name in name.split(" to .") {
            assert!(fs::metadata(format!("{file}.{name}")).is_ok(), "{name}");
            seen += 1;
        }
    }
    assert!(seen >= 6, "{summary}");
}

#[test]
fn errors_are_what_ripgrep_prints_around_them() {
    need("rg", "ripgrep");
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.artifact("c7", "x.txt", &log(2000));
        let plain = mount.store().plain("c7", "x.txt");
        let found = fs::read_to_string(path.with_file_name("x.txt.errors")).unwrap();
        let expected = Command::new("rg").args(["-n", "-m1", "-C3", "ERROR"]).arg(&plain).stdout();
        let lines = found.split_inclusive('\n').filter(|line| !line.starts_with("# "));
        let context: String = lines.collect();
        assert!(context.as_bytes().starts_with(&expected), "{mode:?}\n{found}");
        assert!(found.starts_with("# 50 lines look like errors, of "), "{found}");
        let path = mount.artifact("c7", "z.txt", b"all is well\n");
        assert_eq!(fs::read(path.with_file_name("z.txt.errors")).unwrap(), b"");
    }
}

#[test]
fn terms_are_counted_as_ripgrep_counts_them() {
    need("rg", "ripgrep");
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.artifact("c7", "x.txt", &log(5000));
        let plain = mount.store().plain("c7", "x.txt");
        let found = fs::read_to_string(path.with_file_name("x.txt.terms")).unwrap();
        let (notice, terms) = found.split_once('\n').unwrap();
        assert!(notice.starts_with("# ") && notice.contains(" words in 5,000 lines; "), "{notice}");
        let mut words = Vec::new();
        for term in terms.lines().map(|term| term.split('\t').collect::<Vec<_>>()) {
            let [count, word, first] = term[..] else { panic!("{term:?}") };
            let matches = Command::new("rg").args(["-now", word]).arg(&plain).stdout();
            let matches = String::from_utf8(matches).unwrap();
            assert_eq!(matches.lines().count().to_string(), count, "{word}");
            assert!(matches.starts_with(&format!("{first}:")), "{word} {first}");
            words.push(word);
        }
        assert!(words.contains(&"ERROR") && words.contains(&"gr\u{fc}n"), "{words:?}");
        let search = notice.rsplit(' ').next().unwrap();
        assert!(!fs::read(search).unwrap().is_empty(), "{search}");
    }
}

#[test]
fn an_advertised_prefix_stands_in_every_path() {
    let store = std::sync::Arc::new(crate::support::TestStore::new());
    let mount = TestMount::of(&store, Mode::Passthrough, &["--advertise", "/ctx"]);
    let path = mount.artifact("c7", "x.txt", &log(5000));
    let summary = fs::read_to_string(path.with_file_name("x.txt.summary")).unwrap();
    assert!(summary.contains("\nfile:   /ctx/c7/artifacts/tool/x.txt  "), "{summary}");
    assert!(!summary.contains(mount.path().to_str().unwrap()), "{summary}");
}

#[test]
fn a_live_artifact_has_views_of_what_is_there() {
    use std::io::Write as _;
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.tool("c7").join("x.txt");
        let mut writer = fs::File::create(&path).unwrap();
        let mut so_far = String::new();
        for number in 1..=150 {
            let line = format!("line {number}\n");
            writer.write_all(line.as_bytes()).unwrap();
            so_far.push_str(&line);
            let tail = fs::read_to_string(path.with_file_name("x.txt.tail")).unwrap();
            assert_eq!(tail, so_far, "{mode:?}");
        }
        let found = fs::read_to_string(path.with_file_name("x.txt.grep/ 77$")).unwrap();
        assert_eq!(found, "77:line 77\n", "{mode:?}");
        drop(writer);
        let summary = fs::read_to_string(path.with_file_name("x.txt.summary")).unwrap();
        assert!(!summary.contains("INCOMPLETE"), "{summary}");
    }
}
