//! The rules of the architecture that a test can check: crates, layers, purposes, locks, paths.
//!
//! The tables are the architecture. Which library a crate uses stands in its manifest alone.
#![expect(clippy::unwrap_used, reason = "a test that cannot read the sources must fail")]

mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use regex::{Captures, Regex};

use crate::sources::{sources, ungrouped};

/// `(places below src, names that no code there may have, exceptions: (places, names))`
type Rule = (&'static str, &'static str, &'static [(&'static str, &'static str)]);
const NONE: &[(&str, &str)] = &[];

/// `(crates, crates of ctxfs that they may name)`. Cargo refuses a circle; this refuses an edge that
/// nobody decided on, also to a new crate.
const CRATES: &[(&str, &str)] = &[
    ("view store sync models engine fuse mcp web cli", "ctxfs_core::"),
    ("sync engine fuse mcp web cli", "ctxfs_view:: ctxfs_store::"),
    ("engine mcp web cli", "ctxfs_models::"),
    ("fuse mcp web cli", "ctxfs_engine::"),
    ("cli", "ctxfs_sync:: ctxfs_fuse:: ctxfs_mcp:: ctxfs_web::"),
    ("main", "ctxfs_cli::"),
];
/// All but the program. The hooks know nothing of the program around them.
const LIBRARIES: &str = "core view store sync models engine fuse mcp web cli/hooks";

/// Layers within a crate, and parts of lower crates that a crate may not name. Tests are code, too.
const LAYERS: &[Rule] = &[
    ("", r"\b(crate|ctxfs_\w+) as\b", NONE),
    ("", r"\bfuser::", &[("fuse/kernel cli/logging", "fuser::")]),
    ("core/model", r"\bcrate::(materialize|redact)\b", NONE),
    ("core/materialize", r"\bcrate::redact\b", NONE),
    ("store", r"\bcrate::message\b", &[("store/message", "crate::message")]),
    ("store", r"\bcrate::keep\b", &[("store/keep", "crate::keep")]),
    ("sync/replica sync/bucket", r"\bcrate::remote\b", NONE),
    ("sync/replica sync/bucket", r"\bctxfs_(store|view|core::materialize)\b", NONE),
    ("sync/replica", r"\bcrate::bucket\b|\bhyper::", NONE),
    ("sync/remote", r"\b(object_store|hyper)::", NONE),
    ("models/extract", r"\bcrate::(llm|http_client|http_server)\b|\bhyper::", NONE),
    (
        "models/llm",
        r"\bcrate::http_server\b|\bctxfs_core::materialize\b",
        &[("models/llm/reply models/llm/wire", "ctxfs_core::materialize")],
    ),
    ("models/http_client", r"\bcrate::(extract|llm|http_server)\b|\bctxfs_", NONE),
    ("models/http_server", r"\bcrate::(extract|llm|http_client)\b|\bctxfs_", NONE),
    ("engine", r"\bctxfs_models::(llm|http_client|http_server)\b", NONE),
    ("fuse", r"\bcrate::kernel\b", &[("fuse/kernel", "crate::kernel")]),
    ("fuse", r"\bparking_lot\b", &[("fuse/kernel", "parking_lot")]), // See `engine/sync.rs`.
    ("fuse/kernel", r"\bctxfs_core::materialize\b|\bctxfs_(store|view)\b", NONE),
    ("store sync models/extract fuse/kernel mcp web cli/hooks", r"\bctxfs_core::redact\b", NONE),
    ("sync/remote fuse mcp web cli/hooks", r"\bctxfs_store::keep\b", NONE),
    ("mcp cli/hooks", r"\bctxfs_store::message\b", NONE),
    ("mcp web", r"\bctxfs_models::llm\b", NONE),
    ("web", r"\bctxfs_models::(extract|http_client)\b", NONE),
    ("cli/hooks", r"\bcrate::\w+|\b(anyhow|clap)::", &[("cli/hooks", "crate::hooks")]),
    ("cli/hooks", r"\bctxfs_(sync|models|fuse|mcp|web)\b|\bctxfs_core::materialize\b", NONE),
];

/// Rules that tests are free of.
const PURPOSES: &[Rule] = &[
    ("", r"\bctxfs_\w+::", CRATES),
    // Computed files are pure, the engine has no socket, only the program knows its environment.
    ("core view", r"\bstd::(fs|net|process)\b|\b(Instant|SystemTime)\b", NONE),
    ("engine", r"\bstd::net\b|\bUnix(Listener|Stream)\b", NONE),
    (LIBRARIES, r"\benv::\w+|\bclap::", NONE),
    ("core view store sync/replica sync/remote models/extract engine fuse", r"\btokio::", NONE),
    // A lock of a directory, or of a file opened for reading, fails on NFS. One file refuses it.
    ("", r"\b(flock|FlockOperation|LOCK_\w+)\b", &[("store/file_lock", "flock FlockOperation")]),
    // Files opened or changed by their paths: the store is reached through open directories.
    (LIBRARIES, BY_PATH, MAY_BY_PATH),
];
const BY_PATH: &str = r"(?x)\b(File::(open|create) | OpenOptions | DirBuilder | tempfile::)
    | \bfs::(CWD|access|chmod|chown|l?stat|link|mkdir|open|rename|rmdir|statv?fs|symlink|unlink)\b
    | \bfs::(canonicalize|copy|create|exists|hard_link|metadata|read|remove|set_p|symlink_m|write)
    | \bPath::exists\b | \.(canonicalize|exists|read_dir|symlink_metadata)\(\)";
const MAY_BY_PATH: &[(&str, &str)] = &[
    // The first directory, which the user names, and open descriptors under /proc.
    ("store/dir", "DirBuilder fs::open fs::chmod fs::read"),
    ("store/lease store/cache sync/remote/moment", "fs::read"), // /proc
    ("fuse/process", "fs::read File::open"),                    // /proc
    // Files of agents' hosts; keys.
    ("cli/hooks/claude_code cli/hooks/sub_agent sync/bucket/url", "fs::read"),
    ("cli/hooks/event", "OpenOptions"),
    ("sync/bucket/directory", "DirBuilder fs::open"), // The bucket, which the user names.
    ("fuse/kernel/mount", "OpenOptions fs::metadata fs::read fs::statfs .canonicalize()"),
    ("engine/quota store/archive/export", "tempfile::"),
    // The tokens of the user, in the directory that the program names.
    ("mcp/oauth/grants", "DirBuilder OpenOptions fs::metadata fs::read fs::remove fs::rename"),
];

#[test]
fn code_names_only_what_its_place_may() {
    let all = sources().into_iter().map(code).collect();
    let mut broken: Vec<_> = LAYERS.iter().flat_map(|rule| breaches(rule, &all)).collect();
    let is_test = |path: &str| path.contains("/tests/") || path.ends_with("/tests");
    let own = all.into_iter().filter(|(path, _)| !is_test(path)).map(without_tests).collect();
    broken.extend(PURPOSES.iter().flat_map(|rule| breaches(rule, &own)));
    assert_eq!(broken, [""; 0]);
}

#[test]
fn a_breach_is_seen() {
    let seen = |text: &str| {
        let code = without_tests(code(("core/model/x".into(), text.into())));
        breaches(&("", "crate::redact;", NONE), &[code].into()).len()
    };
    let tests = "#[cfg(test)]\nmod tests {\n    use crate::redact;\n}\n";
    for text in ["use crate::{a::{b, C},\n    redact};", "  use super::super::{a, redact};"] {
        assert_eq!((seen(text), seen(&format!("{tests}{text}"))), (1, 1), "{text}");
    }
    assert_eq!((seen("// crate::redact;"), seen("use super::redact;"), seen(tests)), (0, 0, 0));
}

/// Returns the names that a rule forbids, and its exceptions without a case.
fn breaches(&(places, names, may): &Rule, sources: &BTreeMap<String, String>) -> Vec<String> {
    let names = Regex::new(names).unwrap();
    let pairs = |(places, names): &(&'static str, &'static str)| {
        places.split(' ').flat_map(|place| names.split(' ').map(move |name| (place, name)))
    };
    let may: BTreeSet<_> = may.iter().flat_map(pairs).collect();
    let (mut used, mut broken) = (BTreeSet::new(), Vec::new());
    for (path, code) in sources {
        let is_below = |place: &str| Path::new(path).starts_with(place);
        for found in names.find_iter(code).filter(|_| places.split(' ').any(is_below)) {
            let allows = |(place, name): &&(&str, &str)| *name == found.as_str() && is_below(place);
            match may.iter().find(allows) {
                Some(exception) => _ = used.insert(*exception),
                None => broken.push(format!("{path} names {}", found.as_str())),
            }
        }
    }
    broken.extend(may.difference(&used).map(|unused| format!("no case of {unused:?}")));
    broken
}

/// Returns the code of a file, with each path from `crate::` where it is from `super::`.
fn code((path, text): (String, String)) -> (String, String) {
    let module: Vec<&str> = path.split('/').skip(1).collect();
    let above = |supers: &Captures<'_>| {
        let depth = module.len().saturating_sub(supers[0].matches("super").count());
        module[..depth].iter().fold("crate::".to_owned(), |path, name| path + name + "::")
    };
    let supers = Regex::new(r"\b(super::)+").unwrap();
    let code = supers.replace_all(&ungrouped(&text), above).into_owned();
    (path, code)
}

fn without_tests((path, code): (String, String)) -> (String, String) {
    let tests = r"(?ms)^#\[cfg\((all\()?test[^\]]*\]\s*(#\[[^\n]*\]\s*)*mod \w+\s*\{.*?^\}";
    (path, Regex::new(tests).unwrap().replace_all(&code, "").into_owned())
}
