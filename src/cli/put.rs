//! `ctxfs put`: standard input becomes an artifact.

use std::io;
use std::io::Read as _;
use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;

use crate::cli::Context;
use crate::cli::args::Cli;
use crate::cli::args::PutArgs;
use crate::cli::args::PutFormat;
use crate::cli::outcome::Failure;
use crate::cli::settings;
use crate::cli::tree::Tree;
use crate::model::Component;
use crate::model::Folder;
use crate::model::Said;
use crate::store::ArtifactWriter;
use crate::store::Store;

/// Bytes that are read at once.
const BLOCK: usize = 256 * 1024;

pub(super) fn run(args: &PutArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    let root = settings::store(cli.store.as_deref(), &context.environment)?;
    let id = Component::new(&args.conversation).map_err(|error| {
        let text = format!("the conversation `{}` cannot be: {error}", args.conversation);
        Failure::usage(text, "an id is one path component, such as `c7`")
    })?;
    let store = Store::open(&root)?;
    let conversation = store.create_conversation(&id)?;
    let call = args.call.clone().unwrap_or_else(|| uuid::Uuid::now_v7().to_string());
    let writer = ArtifactWriter::create_for_call(&conversation, Folder::Tool, &call, said(args))?;
    let path = receive(writer)?;
    let prefix = settings::reader_prefix(args.advertise.as_deref(), &root, &context.environment);
    let tree = Tree::new(store, prefix)?;
    let view = format!("{}/{path}{}", args.conversation, suffix(args.format));
    tree.read(Path::new(&view), |bytes| context.printer.bytes(bytes))
}

fn said(args: &PutArgs) -> Said {
    Said {
        call: args.call.clone(),
        tool: args.tool.clone(),
        server: args.server.clone(),
        args: args.args.clone(),
        exit_code: args.exit_code,
        mime: args.mime.clone(),
    }
}

/// Stores standard input to its end; returns the path inside the conversation, as text. Input that fails
/// leaves what came, marked incomplete.
fn receive(mut writer: ArtifactWriter) -> anyhow::Result<String> {
    let mut block = vec![0; BLOCK];
    let mut input = io::stdin().lock();
    loop {
        let count = match input.read(&mut block) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                let kept = writer.seal_incomplete(&format!("standard input failed: {error}"))?;
                let what = format!("cannot read standard input; what came is in `{}`", kept.path);
                return Err(error).context(what);
            }
        };
        if let Err(error) = writer.write_all(&block[..count]) {
            let kept = writer.seal_incomplete(&format!("the store failed: {error}"))?;
            let what = format!("cannot store all of it; what came is in `{}`", kept.path);
            return Err(error).context(what);
        }
    }
    Ok(writer.seal()?.path)
}

fn suffix(format: PutFormat) -> &'static str {
    match format {
        PutFormat::Summary => ".summary",
        PutFormat::Ref => ".ref.json",
        PutFormat::Json => ".meta.json",
    }
}
