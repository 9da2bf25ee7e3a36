//! A conversation as files that open from a disk, without a server and without a script.

mod index;
mod message;
mod output;
mod page;

use std::io;
use std::io::Write;
use std::sync::Arc;

use crate::access::Gate;
use crate::assets::STYLE;
use crate::error::WebError;
use crate::export::index::Index;
use crate::export::output::ExportedOutput;
use crate::site::Site;
use ctxfs_core::model::Component;
use ctxfs_engine::Engine;

/// The place where the files of an export go.
pub trait Shelf {
    /// Makes the file at `path`, such as `outputs/0001-x.html`.
    fn file(&mut self, path: &str) -> io::Result<Box<dyn Write>>;
}

/// Writes the conversation `id` to `shelf`: `index.html` with all messages and calls, a page or more
/// for each output, the bytes of each, and the style.
pub fn export(engine: Arc<Engine>, id: &Component, shelf: &mut dyn Shelf) -> Result<(), WebError> {
    // Nobody comes in: nothing is served.
    let site = Site::new(engine, Gate::new(Vec::new(), "", 0));
    let id = site.conversation(&id.to_text())?;
    shelf.file("page.css")?.write_all(STYLE.as_bytes())?;
    let outputs = site.catalog.outputs(&id)?;
    let oldest_first = outputs.rows.iter().rev().enumerate();
    let exported: Vec<ExportedOutput<'_>> =
        oldest_first.map(|(number, row)| ExportedOutput::new(number + 1, row)).collect();
    for output in &exported {
        output.write(&site, &id, shelf)?;
    }
    Index::new(&site, &id, &exported).write(shelf)
}
