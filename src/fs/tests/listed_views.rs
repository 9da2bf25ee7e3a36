//! The views that directories list, which the kernel is to forget.

use super::fixture::Fixture;
use crate::fs::listed_views;

#[test]
fn names_of_listed_views_lead_to_them() {
    let fixture = Fixture::new();
    fixture.put("a.txt", b"one\n");
    let listed: Vec<_> = ["a.txt.summary", "a.txt.tail", "a.txt.grep"]
        .into_iter()
        .map(|name| fixture.ino(name))
        .collect();
    // Views that no directory lists, of the file and of its views.
    fixture.ino("a.txt.meta.json");
    fixture.ino("a.txt.wrap.tail");
    fixture.ino("a.txt.wrap.grep");
    let nodes = &fixture.fs.0.nodes;
    assert_eq!((nodes.listed_views(), nodes.numbers_of_listed_views().len()), (3, 3));
    let mut named = Vec::new();
    for ino in &listed {
        let node = nodes.get(*ino).unwrap();
        let (_, name) = node.listed_name().unwrap();
        assert_eq!(fixture.ino(name.to_str().unwrap()), *ino);
        named.push(name);
    }
    assert_eq!(named, ["a.txt.summary", "a.txt.tail", "a.txt.grep"]);
    assert!(!fixture.fs.knows_too_many_listed());
    assert!(listed_views::oldest(&fixture.fs.0, crate::fs::Ino(0)).0.is_empty());
    for ino in listed {
        fixture.fs.forget(ino, 2);
    }
    assert_eq!(nodes.listed_views(), 0);
}
