//! The rules of the architecture that a test can check: layers, crates, paths, figures.
//!
//! The tables below are the architecture. Which library a crate uses stands in its manifest.
#![expect(clippy::unwrap_used, reason = "a test that cannot read the sources must fail")]

#[path = "layering/house.rs"]
mod house;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::house::{own_text, ungrouped};

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

/// `(directory or file below src, paths that it may not name)`: what a manifest cannot say of the
/// layers within a crate, and of those of another. A row holds for all below it but what has a row.
const WITHIN: &[(&str, &[&str])] = &[
    ("core/model", &["crate::materialize", "crate::redact", "anstream", "infer", "regex_automata"]),
    ("core/materialize", &["crate::redact"]),
    ("core/redact", &["anstream", "blake3", "foldhash", "infer"]),
    ("store", &["crate::message", "crate::keep", "ctxfs_core::redact"]),
    ("store/lib", &[]),
    ("store/message", &["crate::keep", "ctxfs_core::redact", "blake3", "tar", "zstd"]),
    ("store/keep", &["crate::message", "ctxfs_core::materialize", "ctxfs_core::redact", "blake3"]),
    (
        "sync/replica",
        &[
            "crate::bucket",
            "crate::remote",
            "ctxfs_core::materialize",
            "ctxfs_core::redact",
            "ctxfs_store",
            "ctxfs_view",
            "parking_lot",
            "tokio",
            "hyper",
            "bytes",
        ],
    ),
    (
        "sync/bucket",
        &[
            "crate::remote",
            "ctxfs_core::materialize",
            "ctxfs_core::redact",
            "ctxfs_store",
            "ctxfs_view",
        ],
    ),
    (
        "sync/remote",
        &[
            "ctxfs_core::redact",
            "ctxfs_store::keep",
            "tokio",
            "hyper",
            "object_store",
            "rustls",
            "futures_util",
            "percent_encoding",
            "tar",
            "zstd",
        ],
    ),
    (
        "models/extract",
        &["crate::llm", "crate::http_client", "ctxfs_core::redact", "tokio", "hyper"],
    ),
    ("models/llm", &["crate::http_server", "ctxfs_core::materialize", "hyper_rustls"]),
    ("models/http_client", &["crate::extract", "crate::llm", "crate::http_server", "ctxfs_core"]),
    ("models/http_server", &["crate::extract", "crate::llm", "crate::http_client", "ctxfs_core"]),
    ("engine", &["ctxfs_models::llm", "ctxfs_models::http_client", "ctxfs_models::http_server"]),
    // Locks are those of `engine/sync.rs`.
    ("fuse", &["crate::kernel", "ctxfs_store::keep", "fuser", "parking_lot"]),
    (
        "fuse/kernel",
        &["ctxfs_core::materialize", "ctxfs_core::redact", "ctxfs_store", "ctxfs_view"],
    ),
    (
        "mcp",
        &["ctxfs_core::redact", "ctxfs_store::message", "ctxfs_store::keep", "ctxfs_models::llm"],
    ),
    (
        "web",
        &[
            "ctxfs_core::redact",
            "ctxfs_store::keep",
            "ctxfs_models::llm",
            "ctxfs_models::extract",
            "ctxfs_models::http_client",
        ],
    ),
    (
        "cli/hooks",
        &[
            "ctxfs_core::materialize",
            "ctxfs_core::redact",
            "ctxfs_store::message",
            "ctxfs_store::keep",
            "ctxfs_sync",
            "ctxfs_models",
            "ctxfs_fuse",
            "ctxfs_mcp",
            "ctxfs_web",
            "anyhow",
            "clap",
            "parking_lot",
        ],
    ),
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
    ("store/lease.rs", &["fs::read"]),
    ("store/cache.rs", &["fs::read"]),
    ("fuse/process.rs", &["fs::read"]),
    // What the hosts of agents keep in files.
    ("cli/hooks/event.rs", &["OpenOptions"]),
    ("cli/hooks/claude_code.rs", &["fs::read"]),
    ("sync/remote/moment.rs", &["fs::read"]),
    // A directory that hosts share, which the user names.
    ("sync/bucket/directory.rs", &["DirBuilder", "rustix::fs::open("]),
    // The keys of a service account, which the environment names.
    ("sync/bucket/url.rs", &["fs::read"]),
    // What tests alone use.
    ("engine/quota.rs", &["tempfile::"]),
    ("store/testing.rs", &["tempfile::"]),
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
fn layers_within_a_crate_name_only_those_below_them() {
    let mut broken = Vec::new();
    let mut used = BTreeSet::new();
    for path in rust_files(&top().join("src")) {
        let inside = path.strip_prefix(top().join("src")).unwrap().with_extension("");
        let row = inside
            .ancestors()
            .find_map(|of| WITHIN.iter().find(|(place, _)| Path::new(place) == of));
        if let Some((place, may_not_name)) = row {
            used.insert(*place);
            let text = fs::read_to_string(&path).unwrap();
            broken.extend(breaches_in(own_text(&text), &inside, may_not_name));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert_eq!(used.len(), WITHIN.len(), "a row is of no file");
    // The hooks know nothing of the program around them.
    let hooks = rust_files(&top().join("src/cli/hooks"));
    let beside = |path: &PathBuf| {
        let text = ungrouped(own_text(&fs::read_to_string(path).unwrap()));
        first_segments(&text, "crate::").any(|named| named != "hooks")
    };
    assert_eq!(hooks.into_iter().filter(beside).collect::<Vec<_>>(), Vec::<PathBuf>::new());
}

#[test]
fn a_breach_is_seen() {
    let code = "use crate::{model, redact};\nuse fuser::Request;\n";
    let breaches = |not: &[&str]| breaches_in(code, Path::new("core/x"), not);
    assert_eq!(breaches(&["crate::redact"]), ["core/x names crate::redact"]);
    assert_eq!(breaches(&["fuser", "clap"]), ["core/x names fuser"]);
    assert!(breaches(&["use", "er", "crate::red", "model"]).is_empty());
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

fn breaches_in(code: &str, file: &Path, may_not_name: &[&str]) -> Vec<String> {
    let code: Vec<&str> =
        code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = ungrouped(&code.join("\n"));
    let named = may_not_name.iter().filter(|path| names(&code, path));
    named.map(|path| format!("{} names {path}", file.display())).collect()
}

/// Returns true if a path in `code` begins with `path`.
fn names(code: &str, path: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(path).any(|(at, _)| {
        let (before, after) = (&code[..at], &code[at + path.len()..]);
        let is_whole = !before.ends_with(|c| is_part(c) || c == ':') && !after.starts_with(is_part);
        is_whole && (path.contains("::") || after.starts_with("::"))
    })
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
