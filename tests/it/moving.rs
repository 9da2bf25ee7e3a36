//! Conversations that move from one store to another.

mod meanwhile;
mod refused;
mod round_trip;

use std::path::{Path, PathBuf};

use crate::support::{Output, TestStore};

/// Exports the conversation `c7` to a file.
fn export(store: &TestStore) -> PathBuf {
    let file = store.scratch("archive").join("c7.tar.zst");
    store.ctxfs("export", &["c7", "-o"]).arg(&file).stdout();
    file
}

/// Imports `file`. Returns the result, even of a failure.
fn import(store: &TestStore, file: &Path, options: &[&str]) -> Output {
    store.ctxfs("import", options).arg(file).run()
}
