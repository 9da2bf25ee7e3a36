//! The rules of the architecture that a test can check: layers, crates, paths, figures.
//!
//! The tables below are the architecture. Which library a crate uses stands in its manifest.
#![expect(clippy::unwrap_used, reason = "a test that cannot read the sources must fail")]

#[path = "layering/house.rs"]
mod house;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::house::own_text;

/// `(crate, crates of ctxfs that it may name)`, lowest first. Cargo refuses a circle; this refuses an
/// edge that nobody decided on. What tests use stands under `[dev-dependencies]` and is free.
const CRATES: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("view", &["core"]),
    ("store", &["core"]),
    ("sync", &["core", "view", "store"]),
    ("models", &["core"]),
    ("engine", &["core", "view", "store", "models"]),
    ("fuse", &["core", "view", "store", "engine"]),
    ("mcp", &["core", "view", "store", "models", "engine"]),
    ("web", &["core", "view", "store", "models", "engine"]),
    ("cli", &["core", "view", "store", "sync", "models", "engine", "fuse", "mcp", "web"]),
];

/// `(module, modules of its crate that it may name)`, for crates of several layers.
const MODULES: &[(&str, &[&str])] = &[
    ("core/model", &[]),
    ("core/materialize", &["model"]),
    ("core/redact", &["model", "materialize"]),
    ("sync/replica", &[]),
    ("sync/bucket", &["replica"]),
    ("sync/remote", &["replica", "bucket"]),
    ("models/http_client", &[]),
    ("models/http_server", &[]),
    ("models/extract", &[]),
    ("models/llm", &["extract", "http_client"]),
];

/// Code that opens or changes a file by its path, relative to the current directory and through any
/// link.
const BY_PATH: &[&str] = &[
    "File::open",
    "File::create",
    "OpenOptions",
    "DirBuilder",
    "Path::exists",
    ".exists()",
    ".canonicalize()",
    ".read_dir()",
    ".symlink_metadata()",
    "fs::read",
    "fs::write",
    "fs::copy",
    "fs::rename(",
    "fs::remove",
    "fs::create",
    "fs::metadata",
    "fs::symlink",
    "fs::hard_link",
    "fs::set_permissions",
    "fs::canonicalize",
    "fs::exists",
    "rustix::fs::open(",
    "rustix::fs::stat(",
    "rustix::fs::lstat(",
    "rustix::fs::statfs(",
    "rustix::fs::statvfs(",
    "rustix::fs::chmod(",
    "rustix::fs::CWD",
    "tempfile::",
];

/// `(file, entries of BY_PATH that it may use)`. All other code of the layers below `fuse` reaches
/// files through an open directory of the store. The exceptions open the first directory, and read
/// what the kernel shows.
const MAY_BY_PATH: &[(&str, &[&str])] = &[
    // The first directory, which the user names, and open descriptors under /proc.
    ("store/dir.rs", &["DirBuilder", "rustix::fs::open(", "rustix::fs::chmod(", "fs::read"]),
    // /proc.
    ("store/owner.rs", &["fs::read"]),
    ("store/cache.rs", &["fs::read"]),
    ("fuse/closing_thread.rs", &["fs::read"]),
    ("fuse/caller_groups.rs", &["fs::read"]),
    ("fuse/interrupted.rs", &["fs::read"]),
    // What the hosts of agents keep in files.
    ("cli/hooks/tool_result.rs", &["OpenOptions"]),
    ("cli/hooks/claude_code/failed_command.rs", &["fs::read"]),
    ("sync/remote/moment.rs", &["fs::read"]),
    // A directory that hosts share, which the user names.
    ("sync/bucket/directory.rs", &["DirBuilder", "rustix::fs::open("]),
    // The keys of a service account, which the environment names.
    ("sync/bucket/url/environment.rs", &["fs::read"]),
    ("sync/bucket/test_server.rs", &["fs::create", "tempfile::"]),
    // What tests alone use.
    ("engine/quota/fixture.rs", &["tempfile::"]),
    ("store/disk_clock.rs", &["tempfile::"]),
    // Temporary files without a name, outside the store.
    ("store/archive/export.rs", &["tempfile::"]),
];

#[test]
fn crates_depend_on_those_of_their_row() {
    for (name, may_name) in CRATES {
        let manifest = top().join("src").join(name).join("Cargo.toml");
        let manifest: toml::Table = fs::read_to_string(manifest).unwrap().parse().unwrap();
        let optional = |of: &toml::Value| of.get("optional").is_some();
        let found: BTreeSet<_> = manifest["dependencies"]
            .as_table()
            .unwrap()
            .iter()
            .filter(|(_, of)| !optional(of))
            .filter_map(|(library, _)| library.strip_prefix("ctxfs-"))
            .collect();
        assert_eq!(found, may_name.iter().copied().collect(), "{name}");
    }
    let members = rust_files(&top().join("src")).iter().map(|path| module_of(path)).collect();
    let rows = CRATES.iter().map(|(name, _)| (*name).to_owned()).chain(["main".to_owned()]);
    assert_eq!(rows.collect::<BTreeSet<_>>(), members);
}

#[test]
fn modules_name_only_the_layers_below_them() {
    let mut broken = Vec::new();
    for (module, may_name) in MODULES {
        let (own, face) = (top().join("src").join(module), format!("src/{module}.rs"));
        let files = if own.is_dir() { rust_files(&own) } else { Vec::new() };
        for path in files.into_iter().chain([top().join(face)]) {
            let text = fs::read_to_string(&path).unwrap();
            broken.extend(breaches_in(own_text(&text), module, may_name));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn a_breach_is_seen() {
    let code = "use crate::redact::Secrets;\nuse crate::{model, redact};\n";
    let found = breaches_in(code, "core/materialize", &["model"]);
    assert_eq!(found, ["core/materialize names redact", "core/materialize names a group"]);
}

#[test]
fn the_store_is_reached_by_directories_not_by_paths() {
    let src = top().join("src");
    let mut broken = Vec::new();
    let mut used = Vec::new();
    for path in rust_files(&src) {
        let file = path.strip_prefix(&src).unwrap().to_str().unwrap();
        let is_tests = file.contains("/tests/") || file.ends_with("/tests.rs");
        let is_free = ["main.rs", "cli/", "fuse/kernel"].iter().any(|free| file.starts_with(free));
        if is_free && !file.starts_with("cli/hooks") || is_tests {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for found in by_path(own_text(&text)) {
            let may = MAY_BY_PATH.iter().any(|(name, what)| *name == file && what.contains(&found));
            if may {
                used.push((file.to_owned(), found));
            } else {
                broken.push((file.to_owned(), found));
            }
        }
    }
    assert!(broken.is_empty(), "by path: {broken:?}");
    for (file, what) in MAY_BY_PATH {
        for found in *what {
            assert!(
                used.contains(&((*file).to_owned(), *found)),
                "{file} does no {found} any more"
            );
        }
    }
}

/// A `flock` of a directory, or of what was opened for reading, fails on NFS. `store/file_lock.rs`
/// refuses it on any disk.
#[test]
fn locks_are_taken_in_one_place() {
    let src = top().join("src");
    let locks = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        ["fs::flock", "FlockOperation", "LOCK_EX", "LOCK_SH"]
            .iter()
            .any(|what| own_text(&text).contains(what))
    };
    let found: Vec<_> = rust_files(&src)
        .into_iter()
        .filter(|path| !path.ends_with("tests.rs") && locks(path))
        .map(|path| path.strip_prefix(&src).unwrap().to_owned())
        .collect();
    assert_eq!(found, [Path::new("store/file_lock.rs")]);
}

#[test]
fn a_path_is_seen() {
    assert_eq!(by_path("use std::fs;\nlet x = fs::read_to_string(path);\n"), ["fs::read"]);
    assert_eq!(by_path("let file = File::open(path)?;"), ["File::open"]);
    assert!(
        by_path("self.dir.open_file(name)?; rustix::fs::openat(dir, name); sync_fs::ready()")
            .is_empty()
    );
    assert!(by_path("use crate::fs::write_once;").is_empty());
}

#[test]
fn files_are_ascii() {
    let src = top().join("src");
    for path in rust_files(&src) {
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.is_ascii(), "{}: not ASCII", path.display());
    }
}

fn breaches_in(code: &str, module: &str, may_name: &[&str]) -> Vec<String> {
    let own = module.rsplit('/').next().unwrap();
    first_segments(code, "crate::")
        .filter(|named| *named != own && !may_name.contains(named))
        .map(|named| if named.is_empty() { "a group" } else { named })
        .map(|named| format!("{module} names {named}"))
        .collect()
}

fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the entries of [`BY_PATH`] that `code` uses. Skips comments, and our own layer `fs`.
fn by_path(code: &str) -> Vec<&'static str> {
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code: Vec<&str> = lines.collect();
    let within = |what: &&&str| {
        let starts = |line: &str, at: usize| {
            let before = &line[..at];
            let is_part = before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
            what.starts_with('.') || !is_part && !before.ends_with("crate::")
        };
        code.iter().any(|line| line.match_indices(**what).any(|(at, _)| starts(line, at)))
    };
    BY_PATH.iter().filter(within).copied().collect()
}

fn rust_files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// Returns the crate of a file: `store` for `src/store/layout.rs`, `main` for `src/main.rs`.
fn module_of(path: &Path) -> String {
    let inside = path.strip_prefix(top().join("src")).unwrap().with_extension("");
    inside.components().next().unwrap().as_os_str().to_string_lossy().into_owned()
}

/// Returns the word after every `prefix`. A grouped import yields `""`, which no row allows.
fn first_segments<'a>(code: &'a str, prefix: &str) -> impl Iterator<Item = &'a str> {
    code.match_indices(prefix).map(move |(at, _)| {
        let rest = &code[at + prefix.len()..];
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
        &rest[..end.unwrap_or(rest.len())]
    })
}
