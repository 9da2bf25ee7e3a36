//! Tests of the names of a call's artifacts.

use std::cell::Cell;

use crate::writer::*;

#[test]
fn an_id_that_can_be_a_name_is_kept() {
    for call in ["9f3k", "call_1", "toolu 01:a", "a.b", "a~", "\u{fc}ber", &"x".repeat(200)] {
        assert_eq!(call_stem(call).to_text(), call);
    }
}

#[test]
fn an_id_that_cannot_becomes_a_digest() {
    let long = "x".repeat(1536);
    let ids = ["", ".", "..", ".ctxfs", ".hidden", "a/b", "../../etc", "a\nb", &long, &long[1..]];
    let mut names: Vec<String> = ids.iter().map(|call| call_stem(call).to_text()).collect();
    for name in &names {
        assert!(name.starts_with("call-") && name.len() == 37, "{name}");
    }
    assert_eq!(call_stem(&long).to_text(), names[8]);
    names.sort();
    names.dedup();
    assert_eq!(names.len(), ids.len());
}

#[test]
fn the_first_free_number_is_found_with_few_questions() {
    for taken in [0, 1, 2, 3, 7, 8, 9, 1000, 1023, 1024] {
        let asked = Cell::new(0);
        let is_taken = |naming: &CallNaming| {
            asked.set(asked.get() + 1);
            Ok(naming.number <= taken)
        };
        let found = CallNaming::first("x", Folder::Tool).free(is_taken);
        let found: Result<_, ()> = found;
        let found = found.unwrap();
        assert_eq!(found.number, taken + 1);
        assert!(asked.get() <= 22, "{taken}: {}", asked.get());
    }
}

#[test]
fn the_names_of_a_call() {
    let texts =
        |naming: CallNaming| naming.all().iter().map(Component::to_text).collect::<Vec<_>>();
    let tool = CallNaming::first("x", Folder::Tool);
    assert_eq!(texts(tool.at(1)), ["x.txt", "x.json"]);
    assert_eq!(texts(tool.at(3)), ["x-3.txt", "x-3.json"]);
    let log = CallNaming::first("x", Folder::Terminal);
    assert_eq!(texts(log.at(2)), ["x-2.log", "x-2.stdout.log", "x-2.stderr.log"]);
    assert_eq!(log.json(), None);
}
