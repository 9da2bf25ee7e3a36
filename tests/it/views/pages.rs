//! A reader that can fetch 6 KB at a time reaches every byte.

use std::fs;
use std::path::Path;

use rustix::io::Errno;

use crate::support::{Command, Mode, TestMount, errno, listing, log};

/// Returns three megabytes of lines, some of them long and some not ASCII.
fn large() -> Vec<u8> {
    let long = "gr\u{fc}n \u{20ac} ".repeat(2000) + "\n";
    let mut text = Vec::new();
    while text.len() < 3_000_000 {
        text.extend(log(5000));
        text.extend(long.as_bytes());
    }
    text
}

/// Returns all pages in the order of the listing. Checks that none is too large.
fn rebuilt(folder: &Path) -> Vec<u8> {
    let mut names = listing(folder);
    assert!(names.is_sorted());
    names.sort_unstable();
    let page = |name: &String| {
        let page = fs::read(folder.join(name)).unwrap();
        assert!((1..=6144).contains(&page.len()), "{name}: {} bytes", page.len());
        assert!(str::from_utf8(&page).is_ok(), "{name}");
        page
    };
    names.iter().flat_map(page).collect()
}

#[test]
fn the_pages_are_the_artifact() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let text = large();
        let path = mount.artifact("c7", "x.txt", &text);
        let folder = path.with_file_name("x.txt.pages");
        assert!(rebuilt(&folder) == text, "{mode:?}");
        let count = text.len().div_ceil(5000);
        assert_eq!(listing(&folder).len(), count);
        let beyond = fs::metadata(folder.join(format!("{:04}", count + 1)));
        assert_eq!(errno(beyond), Errno::NOENT);
    }
}

#[test]
fn a_shell_puts_them_together() {
    let mount = TestMount::new(Mode::Passthrough);
    let text = large();
    let path = mount.artifact("c7", "x.txt", &text);
    let all = Command::shell("cat \"$1\".pages/*", &[&path]).stdout();
    assert!(all == text);
    let page = mount.store().view("c7/artifacts/tool/x.txt.pages/0007");
    assert!(page == fs::read(path.with_file_name("x.txt.pages/0007")).unwrap());
}
