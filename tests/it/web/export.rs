//! `ctxfs web --export`: a conversation as files.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use crate::support::TestStore;

fn links(text: &str) -> Vec<String> {
    let marks = ["href=\"", "src=\""];
    let of = |mark: &str| -> Vec<String> {
        text.split(mark).skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
    };
    marks.iter().flat_map(|mark| of(mark)).collect()
}

fn check_links(dir: &Path, page: &Path) -> usize {
    let text = fs::read_to_string(page).unwrap();
    let links = links(&text);
    for link in &links {
        let target = link.split('#').next().unwrap();
        assert!(!target.starts_with('/') && !target.contains("://"), "{link}");
        let there = target.is_empty() || page.parent().unwrap().join(target).exists();
        assert!(there, "{}: {link}", page.display());
    }
    assert!(!text.contains("<script") && text.contains("default-src 'none'"), "{}", page.display());
    assert!(dir.join("page.css").exists());
    links.len()
}

#[test]
fn the_files_open_without_a_server() {
    let store = Arc::new(TestStore::new());
    let long = (1..=12_000).map(|line| format!("line {line} <b>\n")).collect::<Vec<_>>().concat();
    store.put("c7", "call_1", long.as_bytes());
    store.put("c7", "a \"b\" <c>", b"short\n");
    store.put("c7", "bin", &[0, 159, 146, 150, 0, 1, 2]);
    let message = "{\"role\":\"tool\",\"tool_call_id\":\"call_1\",\"content\":\"<i>given</i>\"}\n";
    store.ctxfs("log", &["append", "c7"]).stdin(message).stdout();
    let dir = store.scratch("out").join("exported");
    let told = store.ctxfs("web", &["--export", dir.to_str().unwrap(), "c7"]).stdout();
    let index = dir.join("index.html");
    assert_eq!(String::from_utf8(told).unwrap().trim(), index.to_str().unwrap());
    assert!(check_links(&dir, &index) >= 6);
    let text = fs::read_to_string(&index).unwrap();
    assert!(text.contains("&lt;i&gt;given&lt;/i&gt;") && text.contains("short"));
    let mut pages = 0;
    for entry in fs::read_dir(dir.join("outputs")).unwrap() {
        check_links(&dir, &entry.unwrap().path());
        pages += 1;
    }
    assert_eq!(pages, 5, "three of the long one");
    let raw: Vec<_> =
        fs::read_dir(dir.join("raw")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(raw.iter().any(|path| fs::read(path).unwrap() == long.as_bytes()));
    let name = raw.iter().find(|path| path.to_str().unwrap().contains("call_1")).unwrap();
    let second =
        dir.join("outputs").join(format!("{}.2.html", name.file_name().unwrap().to_str().unwrap()));
    assert!(fs::read_to_string(second).unwrap().contains("id=\"L5001\""));
}

#[test]
fn nothing_is_written_over() {
    let store = Arc::new(TestStore::new());
    store.put("c7", "one", b"text\n");
    let dir = store.scratch("out");
    fs::write(dir.join("mine"), "text").unwrap();
    let refused = store.ctxfs("web", &["--export", dir.to_str().unwrap(), "c7"]).run();
    assert_eq!(refused.code, 2);
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 1);
    let other = store.scratch("other");
    let absent = store.ctxfs("web", &["--export", other.to_str().unwrap(), "none"]).run();
    assert_eq!(absent.code, 1);
    assert_eq!(store.ctxfs("web", &["--export", other.to_str().unwrap()]).run().code, 2);
}

#[test]
fn a_long_line_is_on_several_pages() {
    let store = Arc::new(TestStore::new());
    store.put("c7", "long", &vec![b'x'; 9 << 20]);
    let dir = store.scratch("out").join("exported");
    store.ctxfs("web", &["--export", dir.to_str().unwrap(), "c7"]).stdout();
    let pages: Vec<_> = fs::read_dir(dir.join("outputs")).unwrap().collect();
    assert_eq!(pages.len(), 3);
    let shown = |page: &fs::DirEntry| fs::read_to_string(page.path()).unwrap().matches('x').count();
    let sum: usize = pages.iter().map(|page| shown(page.as_ref().unwrap())).sum();
    assert!(sum >= 9 << 20, "{sum}");
}
