use super::*;

fn found(text: &[u8], step: usize) -> Sections {
    let mut sections = SectionDetector::new();
    text.chunks(step).for_each(|part| sections.push(part));
    let newline = u64::from(text.last().is_some_and(|last| *last != b'\n'));
    sections.finish(memchr::memchr_iter(b'\n', text).count() as u64 + newline)
}

/// Returns a text such as `12-80 src/a.rs` for each section that is shown.
fn told(text: &str) -> Vec<String> {
    let tell = |section: &Section| {
        let start = usize::try_from(section.offset).unwrap();
        let name = &text[start..start + section.length as usize];
        format!("{}-{} {name}", section.line, section.last)
    };
    found(text.as_bytes(), text.len()).shown.iter().map(tell).collect()
}

macro_rules! outputs {
    ($($name:ident $file:literal [$($section:literal),* $(,)?];)*) => {$(
        #[test]
        fn $name() {
            let text = include_str!(concat!("testdata/", $file));
            let sections: &[&str] = &[$($section),*];
            assert_eq!(told(text), sections);
            let windows = text.replace('\n', "\r\n");
            assert_eq!(told(&windows).len(), sections.len(), "with carriage returns");
            for step in [1, 7, 100] {
                let (cut, whole) = (found(text.as_bytes(), step), found(text.as_bytes(), 9999));
                assert_eq!(cut, whole, "in pieces of {step}");
            }
        }
    )*};
}

outputs! {
    pytest "pytest.txt" [
        "1-9 test session starts",
        "10-10 FAILURES",
        "11-19 test_total",
        "20-34 TestOrder.test_ship",
        "35-38 short test summary info",
    ];
    cargo_test "cargo-test.txt" ["3-23 src/lib.rs", "24-30 tests/it/main.rs", "31-36 Doc-tests shop"];
    jest "jest.txt" ["1-4 src/user.test.js", "5-14 src/cart.test.tsx", "15-20 src/order.spec.mjs"];
    go_test "go-test.txt" ["1-4 TestAdd", "5-8 TestTotal", "9-17 TestCrash"];
    go_test_without_passes "go-test-short.txt" ["1-3 TestTotal", "4-8 TestShip"];
    maven "maven.txt" [
        "5-8 com.shop:cart",
        "9-11 maven-compiler-plugin:3.11.0:compile",
        "12-15 maven-surefire-plugin:3.2.5:test",
        "16-21 com.shop.CartTest",
        "22-25 com.shop:order",
    ];
    make "make.txt" ["1-6 /home/me/shop/lib", "7-13 /home/me/shop/app"];
    cmake "cmake.txt" [
        "1-5 src/CMakeFiles/shop.dir/cart.cpp.o",
        "6-10 src/CMakeFiles/shop.dir/order.cpp.o",
        "11-11 Linking CXX executable shop",
        "12-12 shop",
    ];
    diff "diff.txt" ["1-9 src/cart.rs", "10-19 docs/new name.md", "20-25 caf\\303\\251.txt"];
    git_log "git-log.txt" ["1-13 83db48f2a1c0", "14-18 bf0c1a2d3e4f"];
    markdown "markdown.md" ["1-4 Shop", "5-11 Install", "12-16 Use", "17-20 Carts", "21-23 Orders"];
    docker "docker.txt" [
        "1-4 [internal] load build definition from Dockerfile",
        "5-7 [2/5] WORKDIR /app",
        "8-11 [3/5] RUN pip install -r requirements.txt",
    ];
    heads_of_files "heads.txt" ["1-4 app.log", "5-7 db.log"];
    listing "listing.txt" ["1-5 .", "6-9 ./src"];
    a_script_has_none "script.py" [];
    a_configuration_has_none "config.yaml" [];
    sections_of_a_line_or_two_are_none "progress.txt" [];
}

#[test]
fn every_heading_begins_with_a_fragment() {
    let texts = [
        include_str!("testdata/pytest.txt"),
        include_str!("testdata/cargo-test.txt"),
        include_str!("testdata/maven.txt"),
        include_str!("testdata/cmake.txt"),
        include_str!("testdata/docker.txt"),
        include_str!("testdata/diff.txt"),
        include_str!("testdata/markdown.md"),
        "FAIL: test_x (a.B)\nERROR: test_y (a.B)\nIndex: x\ndiff -ru a b\ngmake[2]: Entering directory `/x'\n\
         PLAY [all] ***\nTASK [x : y] ****\nRUNNING HANDLER [z] **\nPLAY RECAP ***\nStep 1/4 : FROM x\n\
         ##[group]Run\n::group::Build\n> Task :app:compile\n> shop@1.0.0 build\n==> Pouring x\n../x/y:\n..:\n./z:\n",
    ];
    let mut headings = 0;
    for line in texts.iter().flat_map(|text| text.lines()) {
        if kinds::heading(line.as_bytes(), true, false).is_some() {
            let start = format!("\n{line}");
            assert!(kinds::FRAGMENTS.iter().any(|fragment| start.starts_with(fragment)), "{line}");
            headings += 1;
        }
    }
    assert!(headings >= 40, "{headings}");
}

#[test]
fn the_first_and_the_largest_of_many_are_shown() {
    let body = |n: usize| "x\n".repeat(if n.is_multiple_of(100) { 50 } else { 4 });
    let section = |n: usize| format!("==> file {n} <==\n{}", body(n));
    let text: String = (1..=5000).map(section).collect();
    let sections = found(text.as_bytes(), text.len());
    assert_eq!((sections.count, sections.shown.len()), (5000, 32));
    let told = told(&text);
    assert_eq!(told[15], "76-80 file 16");
    assert_eq!(told[16], "496-546 file 100");
    assert_eq!(told[31], format!("{} file 1600", "8686-8736"));
}

#[test]
fn sections_that_divide_little_are_not_reported() {
    let heads = "==> a <==\n1\n2\n==> b <==\n3\n4\n";
    assert_eq!(told(&format!("{}{heads}", "log\n".repeat(6))).len(), 2);
    assert_eq!(told(&format!("{}{heads}", "log\n".repeat(7))).len(), 0);
    assert_eq!(told("==> a <==\n1\n2\n").len(), 0);
}
