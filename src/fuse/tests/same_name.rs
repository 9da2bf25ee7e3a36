//! Summaries of outputs that requested the same name, while the file with that name comes and goes.

use std::sync::Arc;

use super::fixture::{Fixture, errno};
use crate::Ino;
use ctxfs_core::model::OtherHosts;
use ctxfs_engine::EngineOptions;
use ctxfs_engine::others::fixture::Rival;

const LINE: &str = "\nalso:   x~3f09ab.txt, another output of this name, from another host\n";

fn scene() -> (Arc<Rival>, Fixture) {
    let rival = Arc::new(Rival::default());
    let other_hosts = Some(Arc::clone(&rival) as Arc<dyn OtherHosts>);
    let fixture = Fixture::with(EngineOptions { other_hosts, ..EngineOptions::default() });
    fixture.put("x.txt", b"of one\n");
    fixture.put("x~3f09ab.txt", b"of the other\n");
    fixture.settle();
    (rival, fixture)
}

/// Returns the inode number and the text of an output's summary. Checks that the text has the size
/// that was reported before.
fn summary(fixture: &Fixture, name: &str) -> (Ino, String) {
    let ino = fixture.ino(&format!("{name}.summary"));
    let size = fixture.attr(ino).unwrap().size;
    let text = fixture.read_ino(ino).unwrap();
    assert_eq!(text.len() as u64, size, "{name}");
    (ino, String::from_utf8(text).unwrap())
}

#[test]
fn a_summary_of_an_exact_size_comes_with_the_other_output() {
    let (rival, fixture) = scene();
    let (before, text) = summary(&fixture, "x.txt");
    assert!(!text.contains("also:"), "{text}");
    rival.wrote("x~3f09ab.txt", "x.txt");
    let (after, text) = summary(&fixture, "x.txt");
    assert!(text.contains(LINE) && before != after, "{text}");
    assert!(summary(&fixture, "x~3f09ab.txt").1.contains("\nalso:   x.txt, another output"));
    fixture.drop_text(before);
    assert_eq!(errno(fixture.read_ino(before)), libc::ESTALE, "it never has other bytes");
}

#[test]
fn a_summary_of_an_exact_size_goes_with_the_other_output() {
    for (gone, stays) in [("x.txt", "x~3f09ab.txt"), ("x~3f09ab.txt", "x.txt")] {
        let (rival, fixture) = scene();
        rival.wrote("x~3f09ab.txt", "x.txt");
        let (before, text) = summary(&fixture, stays);
        assert!(text.contains("also:"), "{text}");
        fixture.unlink(gone).unwrap();
        let (after, text) = summary(&fixture, stays);
        assert!(!text.contains("also:") && before != after, "{text}");
    }
}

#[test]
fn no_size_is_recorded_of_a_summary_that_names_another_output() {
    let (rival, fixture) = scene();
    rival.wrote("y~3f09ab.txt", "y.txt");
    fixture.put("y~3f09ab.txt", b"of the other\n");
    fixture.settle();
    fixture.put("y.txt", b"of one\n");
    fixture.settle();
    assert!(summary(&fixture, "y.txt").1.contains("also:"));
    let is_recorded = |name: &str| fixture.record(name).unwrap().view_sizes.is_some();
    assert!(is_recorded("x.txt") && !is_recorded("y.txt"));
}
