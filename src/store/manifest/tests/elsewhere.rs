//! Tests of artifacts whose bytes are not on this disk.

use super::*;
use ctxfs_core::model::Far;

#[test]
fn what_is_elsewhere_is_found_by_directory() {
    let scene = Scene::new();
    let far = |path: &str| {
        let far = Far { origin: "o".into(), mode: 0o600, here: false };
        Record { far: Some(far), ..sealed(path, 1) }
    };
    let many: Vec<_> = (0..100_000).map(|number| far(&format!("a/{number}"))).collect();
    scene.append(&many);
    scene.append(&[far("b/x"), far("b/c/x"), far("x"), sealed("b/y", 1)]);
    let found = |dir: Option<&str>| {
        let records = all(scene.manifest.far(dir)).into_iter();
        records.map(|record| record.path).collect::<Vec<_>>()
    };
    assert_eq!(found(Some("a")).len(), 100_000);
    assert_eq!(found(Some("b")), ["b/x"]);
    assert_eq!(found(Some("b/c")), ["b/c/x"]);
    assert_eq!(found(Some("")), ["x"]);
    assert_eq!(found(Some("none")), [""; 0]);
    assert_eq!(found(None).len(), 100_003);
    let memory = scene.manifest.index.lock().memory();
    assert!(memory < 8 * 1024 * 1024, "{memory} bytes");
    let here = Far { origin: "o".into(), mode: 0o600, here: true };
    scene.append(&[Record { far: Some(here), ..sealed("x", 1) }, gone("b/c/x"), sealed("b/x", 2)]);
    for dir in ["b", "b/c", ""] {
        assert_eq!(found(Some(dir)), [""; 0]);
    }
    scene.append(&[far("b/y")]);
    assert_eq!(found(Some("b")), ["b/y"]);
    scene.manifest.compact().unwrap();
    assert_eq!(found(Some("b")), ["b/y"]);
    assert_eq!(found(None).len(), 100_001);
}

#[test]
fn records_are_read_one_by_one_wherever_they_are() {
    let scene = Scene::new();
    let far = |number: usize| {
        let path = format!("far/{number}");
        let far = Far { origin: "o".repeat(1 + number % 7 * 900), mode: 0o600, here: false };
        Record { far: Some(far), ..sealed(&path, number as u64) }
    };
    let mut expected: Vec<_> = (0..300).map(far).collect();
    for (number, record) in expected.iter().enumerate() {
        scene.append(std::slice::from_ref(record));
        for other in 0..number % 40 {
            scene.append(&[sealed(&format!("{number}/{other}"), 1)]);
        }
    }
    let long = Far { origin: "o".repeat(200_000), mode: 0o600, here: false };
    expected.push(Record { far: Some(long), ..sealed("far/long", 1) });
    expected.push(far(300));
    scene.append(&expected[300..]);
    assert_eq!(all(scene.manifest.far(Some("far"))), expected);
}
