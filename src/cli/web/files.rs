//! The directory that an exported conversation goes to.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use serde_json::json;

use crate::context::Context;
use crate::outcome::Failure;
use ctxfs_core::model::Component;
use ctxfs_engine::Engine;
use ctxfs_web::Shelf;

/// The modes of what is made. Like the store, only its owner reads it.
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// Writes the conversation `id` to `dir`, and prints the path of its first page.
pub(super) fn export(
    engine: Arc<Engine>,
    id: &Component,
    dir: &Path,
    context: &mut Context,
) -> anyhow::Result<()> {
    check_empty(dir)?;
    let mut shelf = ExportDir { dir: dir.to_owned() };
    ctxfs_web::export(engine, id, &mut shelf)?;
    let index = dir.join("index.html");
    context.printer.line(&index.display(), &json!({ "index": index }))
}

fn check_empty(dir: &Path) -> Result<(), Failure> {
    let refused = |text: String| Failure::usage(text, "name a directory that is empty or missing");
    match fs::read_dir(dir) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(refused(format!("`{}` is not empty", dir.display()))),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(refused(format!("cannot write to `{}`: {error}", dir.display()))),
    }
}

/// A directory that files are made in, never over others.
struct ExportDir {
    dir: PathBuf,
}

impl Shelf for ExportDir {
    fn file(&mut self, path: &str) -> io::Result<Box<dyn Write>> {
        let path = self.dir.join(path);
        if let Some(parent) = path.parent() {
            fs::DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(parent)?;
        }
        let file = File::options().write(true).create_new(true).mode(FILE_MODE).open(path)?;
        Ok(Box::new(BufWriter::new(file)))
    }
}
