//! `ctxfs log append`: appends messages from standard input.

use std::io;
use std::io::BufRead;

use anyhow::Context as _;

use crate::args::{AppendArgs, Cli};
use crate::context::Context;
use crate::settings::Key;
use crate::{places, tree};
use ctxfs_engine::{EngineError, MessageWriter};
use ctxfs_store::Store;

/// Bytes that are read at once.
const BLOCK: usize = 256 * 1024;

pub(super) fn run(args: &AppendArgs, cli: &Cli, context: &Context) -> anyhow::Result<()> {
    let given = context.settings(cli, args.reader.settings())?;
    let root = given.store(&context.environment)?;
    let id = places::conversation_id(&args.conversation)?;
    let advertised = given.text(Key::Advertise);
    let shown = places::reader_root(advertised, &root, Some(&id), &context.environment);
    let store = Store::open(&root)?;
    store.create_conversation(&id)?;
    let engine = tree::open(store, &shown, Some(&id), given)?;
    let log = MessageWriter::open(&engine, &id)?;
    let appended = append(&mut io::BufReader::with_capacity(BLOCK, io::stdin().lock()), log);
    engine.finish();
    appended
}

/// Appends the lines of `input` one by one.
fn append(input: &mut dyn BufRead, mut log: MessageWriter) -> anyhow::Result<()> {
    let mut lines = 0;
    loop {
        let block = input.fill_buf().context("cannot read standard input")?;
        if block.is_empty() {
            return log.finish().map_err(|error| refused(lines + 1, &error));
        }
        let end = memchr::memchr(b'\n', block).map(|end| end + 1);
        let count = end.unwrap_or(block.len());
        log.write(&block[..count]).map_err(|error| refused(lines + 1, &error))?;
        lines += u64::from(end.is_some());
        input.consume(count);
    }
}

fn refused(line: u64, error: &EngineError) -> anyhow::Error {
    anyhow::Error::msg(format!(
        "line {line} of standard input: {error}; the lines before it are in the log"
    ))
}
