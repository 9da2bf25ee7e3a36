//! Tests of names with digits of an origin.

use super::*;

#[test]
fn names_with_digits_are_found_by_the_name_without() {
    let scene = Scene::new();
    let found = |path: &str| {
        let records = all(scene.manifest.with_digits(path)).into_iter();
        records.map(|record| record.path).collect::<Vec<_>>()
    };
    assert_eq!(found("d/x.txt"), [""; 0], "there is no manifest");
    let paths = ["d/x~77aa01.txt", "d/x.txt", "d/x~3f09ab.txt", "d/x~3f09ab.log", "x~3f09ab.txt"];
    scene.append(&paths.map(|path| sealed(path, 1)));
    assert_eq!(found("d/x.txt"), ["d/x~77aa01.txt", "d/x~3f09ab.txt"]);
    assert_eq!(found("x.txt"), ["x~3f09ab.txt"]);
    assert_eq!(found("d/x~77aa01.txt"), [""; 0]);
    scene.append(&[gone("d/x~77aa01.txt"), sealed("d/x~3f09ab.txt", 2)]);
    assert_eq!(found("d/x.txt"), ["d/x~3f09ab.txt"]);
    scene.manifest.compact().unwrap();
    assert_eq!(found("d/x.txt"), ["d/x~3f09ab.txt"]);
}

#[test]
fn an_index_of_100_000_of_them_is_small() {
    let scene = Scene::new();
    let many = (0..100_000).map(|number| sealed(&format!("d/{number}~3f09ab.txt"), 1));
    scene.append(&many.collect::<Vec<_>>());
    assert_eq!(all(scene.manifest.with_digits("d/99999.txt")).len(), 1);
    let memory = scene.manifest.index.lock().memory();
    assert!(memory < 16 * 1024 * 1024, "{memory} bytes");
}
