//! The modules of a layer do not name each other in circles.
//!
//! A module is a file. It names another one by a path from `crate` or `super`, which stands for the
//! deepest module file that it leads to.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::before_tests;
use crate::rust_files;

/// The most modules in a circle if parents and children count. A child may use what its parent
/// defines for all its children, and the parent may use the child.
const MOST_IN_A_CIRCLE: usize = 4;

/// Each module, such as `store::dir`, and the modules of its layer that it names.
type Graph = BTreeMap<String, BTreeSet<String>>;

#[test]
fn siblings_name_each_other_in_no_circle() {
    let graph = without_families(&graph(&sources()));
    let found = circles(&graph);
    assert!(found.is_empty(), "modules that name each other:\n{}", shown(&found));
}

#[test]
fn circles_with_parents_are_small() {
    let graph = graph(&sources());
    let mut found = circles(&graph);
    found.retain(|circle| circle.len() > MOST_IN_A_CIRCLE);
    assert!(found.is_empty(), "circles of more than {MOST_IN_A_CIRCLE}:\n{}", shown(&found));
}

#[test]
fn a_circle_is_seen() {
    let graph = planted(&[
        ("store", "use crate::store::dir::Dir;"),
        ("store::dir", "use super::stat::Stat;\nuse crate::store::Store;"),
        ("store::stat", "use crate::store::writer::start::Start;"),
        ("store::writer", "use crate::store::layout;\nuse crate::model::Record;"),
        (
            "store::writer::start",
            "let dir = super::super::dir::Dir::open(crate::store::layout::ROOT)?;",
        ),
        ("store::layout", "// As crate::store::writer has it.\nuse crate::store::none::None;"),
    ]);
    let siblings = ["store::dir", "store::stat", "store::writer::start"];
    assert_eq!(circles(&without_families(&graph)), [siblings]);
    let with_parents =
        ["store", "store::dir", "store::layout", "store::stat", "store::writer::start"];
    assert_eq!(circles(&graph), [with_parents]);
}

#[test]
fn a_parent_and_its_child_are_no_siblings() {
    let graph = planted(&[
        ("view", "use crate::view::grep::deep::Deep;"),
        ("view::grep::deep", "use super::super::View;"),
    ]);
    assert_eq!(circles(&without_families(&graph)), [[""; 0]; 0]);
    assert_eq!(circles(&graph), [["view", "view::grep::deep"]]);
}

/// The sources of all modules, tests left out, by the names of the modules.
fn sources() -> BTreeMap<String, String> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut sources = BTreeMap::new();
    for path in rust_files(&src) {
        let inside = path.strip_prefix(&src).unwrap().with_extension("");
        let parts: Vec<_> = inside.iter().map(|part| part.to_str().unwrap()).collect();
        if !parts.contains(&"tests") && !["lib", "main"].contains(&parts[0]) {
            let text = fs::read_to_string(&path).unwrap();
            sources.insert(parts.join("::"), before_tests(&text).to_owned());
        }
    }
    sources
}

fn planted(sources: &[(&str, &str)]) -> Graph {
    graph(&sources.iter().map(|(name, code)| ((*name).into(), (*code).into())).collect())
}

fn graph(sources: &BTreeMap<String, String>) -> Graph {
    let named = |(module, code): (&String, &String)| {
        let mut named: BTreeSet<String> =
            paths(module, code).filter_map(|path| module_at(&path, sources)).collect();
        named.retain(|other| other != module && layer(other) == layer(module));
        (module.clone(), named)
    };
    sources.iter().map(named).collect()
}

/// Returns every path in the code of `module` that begins with `crate` or `super`, from the crate's
/// root.
fn paths(module: &str, code: &str) -> impl Iterator<Item = String> {
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let words = lines.flat_map(|line| line.split(|c: char| !is_of_path(c)));
    words.filter_map(move |path| {
        if let Some(rest) = path.strip_prefix("crate::") {
            return Some(rest.to_owned());
        }
        let (mut base, mut rest) = (module, path);
        while let Some(above) = rest.strip_prefix("super::") {
            (base, rest) = (parent(base)?, above);
        }
        (rest != path).then(|| format!("{base}::{rest}"))
    })
}

fn is_of_path(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == ':'
}

/// Returns the deepest module that `path` leads to.
fn module_at(path: &str, sources: &BTreeMap<String, String>) -> Option<String> {
    let mut path = path.trim_end_matches(':');
    while !sources.contains_key(path) {
        path = parent(path)?;
    }
    Some(path.to_owned())
}

fn parent(module: &str) -> Option<&str> {
    module.rsplit_once("::").map(|(parent, _)| parent)
}

fn layer(module: &str) -> &str {
    module.split("::").next().unwrap_or(module)
}

/// Returns `graph` without the edges between a module and one above or below it.
fn without_families(graph: &Graph) -> Graph {
    let is_below = |a: &str, b: &str| a.strip_prefix(b).is_some_and(|rest| rest.starts_with("::"));
    let mut graph = graph.clone();
    for (module, named) in &mut graph {
        named.retain(|other| !is_below(module, other) && !is_below(other, module));
    }
    graph
}

/// Returns the groups of modules each of which leads to all others of its group.
fn circles(graph: &Graph) -> Vec<Vec<&str>> {
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        graph.keys().map(|module| (&**module, reachable(graph, module))).collect();
    let mut circles = BTreeSet::new();
    for (module, far) in &reached {
        let circle = far.iter().copied().filter(|other| reached[other].contains(module));
        circles.insert(circle.collect::<Vec<_>>());
    }
    circles.into_iter().filter(|circle| !circle.is_empty()).collect()
}

/// Returns every module that one or more steps from `module` lead to.
fn reachable<'a>(graph: &'a Graph, module: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut ahead: Vec<&str> = graph[module].iter().map(|named| &**named).collect();
    while let Some(next) = ahead.pop() {
        if reached.insert(next) {
            ahead.extend(graph[next].iter().map(|named| &**named));
        }
    }
    reached
}

fn shown(circles: &[Vec<&str>]) -> String {
    let lines: Vec<String> = circles.iter().map(|circle| circle.join(" ")).collect();
    lines.join("\n")
}
