//! The rules of the architecture that a test can check: layers, crates, paths, figures.
//!
//! The layer table below is the architecture: a module may name only the modules in its row.
#![expect(clippy::unwrap_used, reason = "a test that cannot read the sources must fail")]

#[path = "layering/house.rs"]
mod house;

use std::fs;
use std::path::Path;
use std::path::PathBuf;

use crate::house::own_text;

/// `(module, modules it may name)`, lowest layer first.
const LAYERS: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("materialize", &["model"]),
    ("redact", &["model", "materialize"]),
    ("view", &["model", "materialize", "redact"]),
    ("store", &["model", "materialize"]),
    ("message", &["model", "materialize", "store"]),
    ("keep", &["model", "store"]),
    ("replica", &["model"]),
    ("bucket", &["model", "replica"]),
    ("remote", &["model", "materialize", "view", "store", "message", "bucket", "replica"]),
    ("extract", &["model", "materialize", "view"]),
    ("engine", &["model", "materialize", "redact", "view", "store", "message", "keep", "extract"]),
    ("fs", &["model", "materialize", "redact", "view", "store", "message", "engine"]),
    ("fuse", &["model", "engine", "fs"]),
    ("hook", &["model", "view", "store", "engine"]),
    ("http_client", &[]),
    ("http_server", &[]),
    ("llm", &["model", "extract", "http_client"]),
    (
        "mcp",
        &[
            "model",
            "materialize",
            "view",
            "store",
            "extract",
            "engine",
            "http_client",
            "http_server",
        ],
    ),
    ("web", &["model", "materialize", "view", "message", "engine", "http_server"]),
    (
        "cli",
        &[
            "model",
            "materialize",
            "redact",
            "view",
            "store",
            "message",
            "keep",
            "replica",
            "bucket",
            "remote",
            "engine",
            "fs",
            "fuse",
            "hook",
            "mcp",
            "web",
            "extract",
            "llm",
            "remote",
        ],
    ),
    (
        "fuzz",
        &[
            "model",
            "materialize",
            "view",
            "store",
            "message",
            "replica",
            "bucket",
            "engine",
            "hook",
            "mcp",
            "cli",
        ],
    ),
];

/// `(crate, the only modules that may name it)`.
const CONFINED: &[(&str, &[&str])] = &[
    ("fuser", &["fuse"]),
    ("clap", &["cli"]),
    ("clap_complete", &["cli"]),
    ("landlock", &["cli"]),
    ("clap_mangen", &["cli"]),
    ("anyhow", &["cli"]),
    ("anstream", &["materialize", "cli"]),
    ("anstyle", &["cli"]),
    ("tracing_subscriber", &["cli"]),
    ("grep_searcher", &["view"]),
    ("grep_regex", &["view"]),
    ("grep_matcher", &["view"]),
    ("imagesize", &["view"]),
    ("jaq_core", &["view"]),
    ("jaq_json", &["view"]),
    ("jaq_std", &["view"]),
    ("blake3", &["materialize", "store", "mcp", "web", "fuzz", "bucket", "replica", "remote"]),
    ("axum", &["web"]),
    ("maud", &["web"]),
    ("avt", &["web"]),
    ("futures_util", &["web", "bucket"]),
    ("percent_encoding", &["web", "cli", "bucket"]),
    ("regex_automata", &["materialize", "redact"]),
    ("toml", &["cli"]),
    ("toml_edit", &["mcp", "cli"]),
    ("jsonc_parser", &["mcp", "cli"]),
    ("similar", &["cli"]),
    ("shlex", &["view", "mcp", "cli", "fuzz"]),
    ("unicode_normalization", &["view"]),
    ("indicatif", &["cli"]),
    // Not `fs`, which takes its locks from `engine/sync.rs`.
    (
        "parking_lot",
        &[
            "http_server",
            "materialize",
            "redact",
            "view",
            "store",
            "bucket",
            "remote",
            "extract",
            "engine",
            "fuse",
            "llm",
            "mcp",
            "web",
            "cli",
            "fuzz",
        ],
    ),
    ("tokio", &["http_server", "llm", "mcp", "web", "bucket"]),
    ("hyper", &["http_client", "http_server", "llm", "mcp", "web", "bucket"]),
    ("hyper_util", &["http_client", "http_server", "llm", "mcp", "web", "bucket"]),
    ("hyper_rustls", &["http_client"]),
    ("bytes", &["http_client", "llm", "mcp", "web", "bucket", "remote", "cli"]),
    ("object_store", &["bucket"]),
    ("rustls", &["bucket"]),
    ("s3s", &["bucket"]),
    ("s3s_fs", &["bucket"]),
    ("http_body_util", &["bucket"]),
    ("rmcp", &["mcp"]),
    ("base64", &["mcp"]),
    ("prometheus", &["engine"]),
    ("dashmap", &["engine", "fuse"]),
    ("shuttle", &["engine", "fs"]),
    ("shuttle_dashmap", &["engine"]),
    ("globset", &["mcp", "cli"]),
    ("bytesize", &["cli"]),
    ("strsim", &["view", "mcp", "cli"]),
    ("foldhash", &["materialize"]),
    ("infer", &["materialize"]),
    ("tar", &["store", "fuzz", "bucket"]),
    ("zstd", &["store", "fuzz", "bucket"]),
    ("indicatif", &["cli"]),
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
    ("fs/closing_thread.rs", &["fs::read"]),
    ("fs/caller_groups.rs", &["fs::read"]),
    ("fs/interrupted.rs", &["fs::read"]),
    // What the hosts of agents keep in files.
    ("hook/tool_result.rs", &["OpenOptions"]),
    ("hook/claude_code/failed_command.rs", &["fs::read"]),
    ("remote/moment.rs", &["fs::read"]),
    // A directory that hosts share, which the user names.
    ("bucket/directory.rs", &["DirBuilder", "rustix::fs::open("]),
    // The keys of a service account, which the environment names.
    ("bucket/url/environment.rs", &["fs::read"]),
    ("bucket/test_server.rs", &["fs::create", "tempfile::"]),
    // Temporary files without a name, outside the store.
    ("store/archive/export.rs", &["tempfile::"]),
];

#[test]
fn the_table_has_no_cycle() {
    for (i, (module, may_name)) in LAYERS.iter().enumerate() {
        for named in *may_name {
            let below = LAYERS[..i].iter().any(|(lower, _)| lower == named);
            assert!(below, "{module} lists {named}, which is not below it");
        }
    }
}

#[test]
fn modules_name_only_the_layers_below_them() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let broken: Vec<String> =
        rust_files(&src).iter().flat_map(|path| breaches(path, &module_of(path, &src))).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn a_breach_is_seen() {
    let code = "use crate::fuse::Session;\nuse fuser::Request;\n";
    let found = breaches_in(code, "model", "planted.rs");
    assert_eq!(found, ["planted.rs: model names fuse", "planted.rs: fuser in model"]);
    let grouped = breaches_in("use crate::{model, fs};\n", "cli", "planted.rs");
    assert_eq!(grouped, ["planted.rs: cli names a group"]);
}

#[test]
fn the_store_is_reached_by_directories_not_by_paths() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut broken = Vec::new();
    let mut used = Vec::new();
    for path in rust_files(&src) {
        let file = path.strip_prefix(&src).unwrap().to_str().unwrap();
        let is_tests = file.contains("/tests/") || file.ends_with("/tests.rs");
        if ["fuse", "cli", "fuzz", "lib", "main"].contains(&&*module_of(&path, &src)) || is_tests {
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
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
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
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for path in rust_files(&src) {
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.is_ascii(), "{}: not ASCII", path.display());
    }
}

fn breaches(path: &Path, module: &str) -> Vec<String> {
    if ["lib", "main"].contains(&module) {
        return Vec::new();
    }
    let text = fs::read_to_string(path).unwrap();
    breaches_in(own_text(&text), module, &path.display().to_string())
}

fn breaches_in(code: &str, module: &str, file: &str) -> Vec<String> {
    let Some((_, may_name)) = LAYERS.iter().find(|(name, _)| *name == module) else {
        return vec![format!("{file}: {module} is not in the layer table")];
    };
    let upward = first_segments(code, "crate::")
        .filter(|named| *named != module && !may_name.contains(named))
        .map(|named| if named.is_empty() { "a group" } else { named })
        .map(|named| format!("{file}: {module} names {named}"));
    let astray = CONFINED
        .iter()
        .filter(|(library, homes)| !homes.contains(&module) && names(code, library))
        .map(|(library, _)| format!("{file}: {library} in {module}"));
    upward.chain(astray).collect()
}

/// Returns true if `code` names `library` as the first segment of a path.
fn names(code: &str, library: &str) -> bool {
    code.match_indices(&format!("{library}::")).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':')
    })
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

/// Returns the layer of a file: `store` for `src/store.rs` and `src/store/layout.rs`.
fn module_of(path: &Path, src: &Path) -> String {
    let inside = path.strip_prefix(src).unwrap().with_extension("");
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
