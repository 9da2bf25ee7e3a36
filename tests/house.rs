//! The house as figures: circles of modules, imports, names, types and prose, counted in the
//! sources, and the ways through them, counted in the page on the architecture.
//!
//! A figure may become better, never worse. A module is a file without its unit tests, and depends
//! on another if it names it by `crate::`, `super::`, `self::` or the name of a child module. A
//! re-export counts as the module that defines the name. The face of a crate is its `lib.rs`.
#![expect(clippy::unwrap_used, reason = "a test that cannot read the sources must fail")]

mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;

use crate::sources::{sources, ungrouped};

/// `(figure, its worst allowed value)`. Lower is better, but for `doc lines mean`. Tighten a row
/// whenever a change makes it better.
const LIMITS: &[(&str, f64)] = &[
    ("largest circle", 2.0),
    ("largest circle without faces", 2.0),
    ("imports, percent of code", 6.0),
    ("functions of one call", 150.0),
    ("names for more than two types", 5.0),
    ("types over 40 methods", 0.0),
    ("doc blocks to read twice, percent", 0.6),
    ("doc lines mean", 2.3),
];

/// Modules of a crate by name, `""` for its face, with their text.
type Modules = BTreeMap<String, String>;
type Graph = BTreeMap<String, BTreeSet<String>>;

#[test]
fn no_figure_gets_worse() {
    let found = figures(&crates());
    let (mut worse, mut all) = (Vec::new(), Vec::new());
    for ((figure, value), (limited, limit)) in found.iter().zip(LIMITS) {
        assert_eq!(figure, limited, "the table has another order");
        let value = &((value * 10.0).round() / 10.0);
        let is_worse = if *figure == "doc lines mean" { value < limit } else { value > limit };
        all.push(format!("{figure:36} {value:8.1}   limit {limit:.1}"));
        worse.extend(is_worse.then(|| format!("{figure}: {value:.1}, limit {limit:.1}")));
    }
    assert!(worse.is_empty(), "worse:\n{}\nall:\n{}", worse.join("\n"), all.join("\n"));
}

#[test]
fn files_are_ascii() {
    let is_other = |(path, text): (String, String)| (!text.is_ascii()).then_some(path);
    assert_eq!(sources().into_iter().filter_map(is_other).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn every_way_to_name_a_module_is_seen() {
    let planted = |files: &[(&str, &str)]| {
        let modules = files.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect();
        let graph = graph(&modules);
        (largest_circle(&graph, false), largest_circle(&graph, true))
    };
    let relative =
        [("a", "use super::b::B;"), ("b", "use crate::c::C;"), ("c", "fn f() { super::a::f() }")];
    assert_eq!(planted(&relative), (3, 3));
    let child = [("a", "mod b;\nfn f() { b::g() }"), ("a::b", "use super::super::a;")];
    assert_eq!(planted(&child), (2, 2));
    let through_the_face =
        [("", "mod a;\npub use a::A;\nfn f() { a::g() }"), ("a", "use crate::f;")];
    assert_eq!(planted(&through_the_face), (2, 0));
    let again = [("a", "use crate::B;"), ("", "pub use crate::b::B;"), ("b", "use super::a;")];
    assert_eq!(planted(&again), (2, 2));
    let grouped = [("a", "use crate::{b::{B, C}, d};"), ("b", "use super::a::A;"), ("d", "")];
    assert_eq!(planted(&grouped), (2, 2));
    let other = [("a", "use ctxfs_view::b::B;"), ("b", "// crate::a\nuse super::a;")];
    assert_eq!(planted(&other), (0, 0));
    let tested = own_text(
        "fn a() {}\n#[cfg(test)]\nfn b() {}\n#[cfg(test)]\n#[path = \"t.rs\"]\nmod tests {\nfn c() {}\n}\n",
    );
    assert!(tested.contains("fn b()") && !tested.contains("fn c()"));
}

macro_rules! regex {
    ($text:expr) => {{
        static REGEX: LazyLock<Regex> = LazyLock::new(|| Regex::new($text).unwrap());
        &*REGEX
    }};
}

/// The text of a file without its unit tests. Other items for tests, such as one method, stay.
fn own_text(text: &str) -> &str {
    let tests = regex!(
        r"(?m)^#\[cfg\((?:all\()?test[^\]]*\]\s*(?:#\[.*\]\s*)*(?:pub(?:\([^)]*\))? )?mod \w+\s*\{"
    );
    &text[..tests.find(text).map_or(text.len(), |found| found.start())]
}

fn crates() -> BTreeMap<String, Modules> {
    let mut crates = BTreeMap::<String, Modules>::new();
    for (path, text) in sources() {
        let mut parts: Vec<_> = path.split('/').collect();
        let is_test = parts.contains(&"tests") || path.ends_with("tests");
        if !is_test && parts[0] != "main" {
            parts.retain(|part| *part != "lib");
            let modules = crates.entry(parts[0].to_owned()).or_default();
            modules.insert(parts[1..].join("::"), own_text(&text).to_owned());
        }
    }
    crates
}

#[expect(clippy::cast_precision_loss, reason = "counts of lines")]
fn figures(crates: &BTreeMap<String, Modules>) -> Vec<(&'static str, f64)> {
    let (mut circle, mut bare, mut code, mut imports, mut wrappers) = (0, 0, 0, 0, 0);
    let (mut docs, mut doc_lines, mut odd) = (0, 0, 0);
    let mut names = BTreeMap::<&str, BTreeSet<(&str, &str)>>::new();
    let mut methods = BTreeMap::<(&str, &str), usize>::new();
    for (unit, modules) in crates {
        let graph = graph(modules);
        circle = circle.max(largest_circle(&graph, false));
        bare = bare.max(largest_circle(&graph, true));
        for (module, text) in modules {
            code += text.lines().filter(|line| is_code(line) && !line.trim().is_empty()).count();
            let uses = regex!(r"(?m)^\s*(?:pub(?:\([^)]*\))? )?use [^;]*;").find_iter(text);
            imports += uses.map(|found| found.as_str().lines().count()).sum::<usize>();
            let forwards = regex!(r"fn \w+[^{;]*\{\n\s*(?:self\.)?[\w:.]+\([^()\n]*\)[?;]?\n\s*\}");
            wrappers += forwards.find_iter(text).count();
            let types = regex!(r"(?m)^\s*(?:pub(?:\([^)]*\))? )?(?:struct|enum|trait|type) (\w+)");
            for found in types.captures_iter(text) {
                names.entry(found.get(1).unwrap().as_str()).or_default().insert((unit, module));
            }
            let impls =
                regex!(r"(?ms)^impl(?:<[^{]*?>)?\s+(?:[\w:<>, ']+ for )?(\w+)[^{]*\{(.*?)^\}");
            for found in impls.captures_iter(text) {
                let count =
                    regex!(r"(?m)^    (?:pub(?:\([^)]*\))? )?(?:async |const |unsafe )*fn ")
                        .find_iter(&found[2])
                        .count();
                *methods.entry((unit, found.get(1).unwrap().as_str())).or_default() += count;
            }
            for block in doc_blocks(text) {
                docs += 1;
                doc_lines += block.len();
                odd += usize::from(is_read_twice(&block.join(" ")));
            }
        }
    }
    let common = ["Result", "Error", "Item"];
    let shared = names.iter().filter(|(name, homes)| homes.len() > 2 && !common.contains(name));
    let percent = |part: usize, whole: usize| 100.0 * part as f64 / whole as f64;
    vec![
        ("largest circle", circle as f64),
        ("largest circle without faces", bare as f64),
        ("imports, percent of code", percent(imports, code)),
        ("functions of one call", wrappers as f64),
        ("names for more than two types", shared.count() as f64),
        ("types over 40 methods", methods.values().filter(|count| **count > 40).count() as f64),
        ("doc blocks to read twice, percent", percent(odd, docs)),
        ("doc lines mean", doc_lines as f64 / docs as f64),
    ]
}

fn is_code(line: &str) -> bool {
    !line.trim_start().starts_with("//")
}

/// Returns the lines of each doc comment, without their marks.
fn doc_blocks(text: &str) -> Vec<Vec<&str>> {
    let is_doc = regex!(r"^[ \t]*//[/!](?:[^/]|$)");
    let mut blocks = Vec::new();
    let mut block = Vec::new();
    for line in text.lines().chain([""]) {
        if is_doc.is_match(line) {
            block.push(line.trim()[3..].trim());
        } else if !block.is_empty() {
            blocks.push(std::mem::take(&mut block));
        }
    }
    blocks
}

/// Returns true for the habits of prose that stop a reader: a pronoun as subject, a free relative,
/// a person in the place of a program. It is a place to look, not a verdict.
fn is_read_twice(text: &str) -> bool {
    regex!(concat!(
        r"^(?:What|Whether|Where|Who|How|Whoever|The same|That of|Those|These|Its?|Their|They|One|Some|Of (?:so|those|what)|As|So)\b",
        r"|\b(?:who(?:ever)? (?:asks|reads|writes|waits|has|is)|somebody|nobody|anew|so many|of use|what (?:is|was|were|has|others|came|comes)|those (?:who|that|of)|that of|any ?more)\b",
    ))
    .is_match(text)
}

/// Returns the modules of a crate that each of its modules depends on.
fn graph(modules: &Modules) -> Graph {
    let plain = |text: &str| regex!(r"pub\(in [^)]*\)").replace_all(text, "pub").into_owned();
    let text = modules.iter().map(|(name, text)| (name.clone(), ungrouped(&plain(text))));
    let text: Modules = text.collect();
    let exports = re_exports(&text);
    let mut graph = Graph::new();
    for (module, text) in &text {
        let here = parts(module);
        let body = regex!(r"(?m)^pub(?:\([^)]*\))? use [^;]+;").replace_all(text, "");
        let mut named = BTreeSet::new();
        for found in regex!(r"\b(crate|super|self)((?:::\w+)+)").captures_iter(&body) {
            let mut path: Vec<&str> = found[2].split("::").skip(1).collect();
            let mut base = here.clone();
            match &found[1] {
                "crate" => base.clear(),
                "super" => {
                    base.pop();
                    while path.first() == Some(&"super") {
                        path.remove(0);
                        base.pop();
                    }
                }
                _ => {}
            }
            base.extend(path);
            let (target, rest) = deepest(&base, modules);
            named.insert(match rest {
                Some(name) => defining(&exports, target, name),
                None => target,
            });
        }
        for found in regex!(r"(?m)^(?:pub(?:\([^)]*\))? )?mod (\w+);").captures_iter(text) {
            let child = [here.clone(), vec![found.get(1).unwrap().as_str()]].concat().join("::");
            if modules.contains_key(&child) {
                for name in names_in(&body, &found[1]) {
                    let deeper = format!("{child}::{name}");
                    let is_module = modules.contains_key(&deeper);
                    named.insert(if is_module {
                        deeper
                    } else {
                        defining(&exports, child.clone(), name)
                    });
                }
            }
        }
        named.remove(module);
        graph.insert(module.clone(), named);
    }
    graph
}

fn parts(module: &str) -> Vec<&str> {
    module.split("::").filter(|part| !part.is_empty()).collect()
}

/// Returns the deepest module that `path` leads to, and the next name.
fn deepest<'a>(path: &[&'a str], modules: &Modules) -> (String, Option<&'a str>) {
    let mut length = path.len();
    while length > 0 && !modules.contains_key(&path[..length].join("::")) {
        length -= 1;
    }
    (path[..length].join("::"), path.get(length).copied())
}

/// `(module, name)` of each re-export, and the module and name that it stands for.
type Exports = BTreeMap<(String, String), (String, String)>;

fn re_exports(text: &Modules) -> Exports {
    let mut exports = Exports::new();
    let statement = regex!(r"(?m)^pub(?:\([^)]*\))? use ([^;]+);");
    let export = regex!(r"^((?:crate::|self::)?[\w:]+?)::(\w+)(?: as (\w+))?$");
    for (module, code) in text {
        let named =
            statement.captures_iter(code).flat_map(|found| found.extract::<1>().1[0].split(", "));
        for found in named.filter_map(|path| export.captures(path)) {
            let path = &found[1];
            let base: Vec<&str> = if let Some(path) = path.strip_prefix("crate::") {
                path.split("::").collect()
            } else {
                let path = path.strip_prefix("self::").unwrap_or(path);
                parts(module).into_iter().chain(path.split("::")).collect()
            };
            let (target, _) = deepest(&base, text);
            if target != *module {
                let name = found.get(3).map_or(&found[2], |alias| alias.as_str());
                exports.insert((module.clone(), name.to_owned()), (target, found[2].to_owned()));
            }
        }
    }
    exports
}

fn defining(exports: &Exports, module: String, name: &str) -> String {
    let mut at = (module, name.to_owned());
    for _ in 0..10 {
        match exports.get(&at) {
            Some(next) => at.clone_from(next),
            None => break,
        }
    }
    at.0
}

/// Returns each word after `module::` where that begins a path.
fn names_in<'a>(code: &'a str, module: &str) -> Vec<&'a str> {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(&format!("{module}::"))
        .filter(|(at, _)| !code[..*at].ends_with(|c| word(c) || c == ':'))
        .map(|(at, found)| &code[at + found.len()..])
        .map(|rest| &rest[..rest.find(|c| !word(c)).unwrap_or(rest.len())])
        .filter(|name| !name.is_empty())
        .collect()
}

/// Returns the size of the largest group of modules each of which leads to all others of the group.
fn largest_circle(graph: &Graph, without_face: bool) -> usize {
    let steps = |module: &str| graph.get(module).into_iter().flatten().map(String::as_str);
    let reachable = |module: &str| {
        let mut reached = BTreeSet::new();
        let mut ahead: Vec<&str> = steps(module).collect();
        while let Some(next) = ahead.pop() {
            if !(without_face && next.is_empty())
                && graph.contains_key(next)
                && reached.insert(next)
            {
                ahead.extend(steps(next));
            }
        }
        reached
    };
    let reached: BTreeMap<&str, BTreeSet<&str>> = graph
        .keys()
        .filter(|module| !(without_face && module.is_empty()))
        .map(|module| (module.as_str(), reachable(module)))
        .collect();
    let circle = |(module, far): (&&str, &BTreeSet<&str>)| {
        far.iter()
            .filter(|other| reached.get(*other).is_some_and(|far| far.contains(*module)))
            .count()
    };
    reached.iter().map(circle).max().unwrap_or(0)
}

/// Maximum number of methods of the engine that the mount calls, all of `Engine`, `Source` and
/// `Computed`. Methods of plain data do not count.
const MOST_METHODS: usize = 25;
/// What else of the engine the mount names in lower case: modules for threads, numbers of errors.
const OTHERS: [&str; 5] = ["io_error_number", "patience", "reason_of_loss", "sync", "workers"];

#[test]
fn the_mount_calls_few_methods_of_the_engine() {
    let crates = crates();
    let text = |of: &str| crates[of].values().map(|text| ungrouped(text)).collect::<String>();
    let (engine, mount) = (text("engine"), text("fuse"));
    let words = |pattern: &str, text: &str| -> BTreeSet<String> {
        let found = Regex::new(pattern).unwrap();
        let found = found.captures_iter(text).map(|found| found.extract::<1>().1[0].to_owned());
        found.collect()
    };
    let methods: BTreeSet<String> = Regex::new(r"(?ms)^impl (Engine|Source|Computed) \{.*?^\}")
        .unwrap()
        .find_iter(&engine)
        .flat_map(|methods| words(r"(?m)^    pub fn (\w+)", methods.as_str()))
        .collect();
    let of_value = words(r"\b(?:engine|engine\(\)|computed)\s*\.\s*(\w+)", &mount);
    let of_type = words(r"\b(?:Engine|Source|Computed)::(\w+)", &mount);
    let with_engine = words(r"\.(\w+)\(\s*&?(?:\w+\.)*engine\b", &mount);
    let called: BTreeSet<_> = of_value.iter().chain(&of_type).chain(&with_engine).collect();
    let called: Vec<_> = called.into_iter().filter(|name| methods.contains(*name)).collect();
    assert!((1..=MOST_METHODS).contains(&called.len()), "{}: {called:?}", called.len());
    let others = words(r"\bctxfs_engine::([a-z]\w*)", &mount);
    assert_eq!(others.into_iter().collect::<Vec<_>>(), OTHERS);
}

/// `(heading in docs/ARCHITECTURE.md, the most files below it)`.
const JOURNEYS: &[(&str, usize)] = &[
    ("A write, until it is sealed", 25),
    ("A read of a view", 28),
    ("A call of a tool", 30),
    ("A push", 30),
];
/// Words that the page explains, and lines of two printed pages.
const MOST_WORDS: usize = 20;
const PAGE_LINES: usize = 110;

#[test]
fn the_page_on_the_architecture_is_short_and_right() {
    assert_eq!(flaws(&page()), [""; 0]);
}

#[test]
fn flaws_of_the_page_are_seen() {
    let page = page();
    let assert_seen = |from: &str, to: &str, flaw: &str| {
        let found = flaws(&page.replacen(from, to, 1));
        assert!(found.iter().any(|found| found.contains(flaw)), "{flaw}: {found:?}");
    };
    assert_seen("\n1. `", "\n1. `absent/", "no absent/");
    assert_seen("\n1. `", "\n1. ", ": `1. ");
    assert_seen("\n2. `", "\n3. `", ": `3. ");
    assert_seen("## A push\n", "## Pushing\n", "A push: 0 files");
    assert_seen("| `core` | ", "| `absent` | ", "crate absent");
    assert_seen("| `core` | ", "| `absent` | ", "crate core");
    let words = "| x | y |\n| artifact | ".repeat(MOST_WORDS);
    assert_seen("| artifact | ", &words, "words, at most");
    let files = sources().into_keys().take(30).map(|path| format!("`{path}.rs`, "));
    let files: String = files.collect();
    assert_seen("\n1. `", &format!("\n1. {files}`"), "files, at most");
    assert_seen("\n## ", &"\n".repeat(PAGE_LINES), "lines, at most");
}

fn page() -> String {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/ARCHITECTURE.md")).unwrap()
}

/// Returns what is wrong with a page: a step without files or out of turn, a file or crate that does
/// not exist, and too much of anything.
fn flaws(page: &str) -> Vec<String> {
    let section = |heading: &str| {
        let (_, rest) = page.split_once(&format!("\n## {heading}\n"))?;
        Some(rest.split("\n## ").next().unwrap_or(rest))
    };
    let (sources, mut flaws) = (sources(), Vec::new());
    for (heading, most) in JOURNEYS {
        let steps = section(heading).into_iter().flat_map(str::lines);
        let steps = steps.filter(|line| line.starts_with(|first: char| first.is_ascii_digit()));
        let mut files = BTreeSet::new();
        for (step, number) in steps.zip(1..) {
            let form = regex!(r"^(\d+)\. ((?:`[\w/]+\.rs`, )*`[\w/]+\.rs`): \S");
            match form.captures(step).filter(|found| found[1] == number.to_string()) {
                Some(found) => {
                    let named = found[2].split(", ").map(|file| file.trim_matches('`').to_owned());
                    files.extend(named);
                }
                None => flaws.push(format!("{heading}: `{step}`")),
            }
        }
        let is_there = |file: &&String| sources.contains_key(file.trim_end_matches(".rs"));
        flaws.extend(files.iter().filter(|file| !is_there(file)).map(|file| format!("no {file}")));
        if files.is_empty() || files.len() > *most {
            flaws.push(format!("{heading}: {} files, at most {most}", files.len()));
        }
    }
    let rows = |heading| {
        let rows =
            section(heading).unwrap_or_default().lines().skip_while(|l| !l.starts_with("|-"));
        rows.skip(1)
            .filter_map(|row| row.split('|').nth(1))
            .map(|cell| cell.trim().trim_matches('`'))
    };
    let named: BTreeSet<_> = rows("Crates").collect();
    let crates = sources.keys().filter_map(|path| path.split_once('/')).map(|(name, _)| name);
    let crates: BTreeSet<_> = crates.collect();
    flaws.extend(named.symmetric_difference(&crates).map(|name| format!("crate {name}")));
    for (what, count, most) in
        [("words", rows("Words").count(), MOST_WORDS), ("lines", page.lines().count(), PAGE_LINES)]
    {
        flaws.extend((count > most).then(|| format!("{count} {what}, at most {most}")));
    }
    flaws
}
