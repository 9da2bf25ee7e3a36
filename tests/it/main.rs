//! The one integration binary: the built program, real mounts, real tools.
//!
//! A test that needs a mount or a tool fails where there is none; nothing is skipped.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::print_stdout, reason = "what a daemon said belongs to the test that failed")]

mod coherence;
mod counts;
mod crash;
mod daemon;
mod documents;
mod doors;
mod extract;
mod faults;
mod hammered;
mod hook;
mod hostile;
mod install;
mod keep;
mod log;
mod mcp;
mod model;
mod moving;
mod outputs;
mod packages;
mod posix;
mod put;
mod questions;
mod remote;
mod removal;
mod replay;
mod run;
mod scale;
mod security;
mod semantics;
mod settings;
mod shared_log;
mod shell;
mod support;
mod tokens;
mod tools;
mod views;
mod web;

/// A file that no `mod` line names is never compiled, and its tests never run.
#[test]
fn no_file_is_forgotten() {
    let top = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let mut forgotten = Vec::new();
    let mut folders = vec![(top.clone(), top.join("main.rs"))];
    while let Some((folder, parent)) = folders.pop() {
        let declared = std::fs::read_to_string(&parent).unwrap_or_default();
        for entry in folder.read_dir().unwrap() {
            let path = entry.unwrap().path();
            let module = path.file_stem().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push((path.clone(), path.with_extension("rs")));
            } else if path != parent && !declared.contains(&format!("mod {module};\n")) {
                forgotten.push(path);
            }
        }
    }
    assert!(forgotten.is_empty(), "no `mod` line names {forgotten:?}");
}
