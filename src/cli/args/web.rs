//! `web`.

use std::path::PathBuf;

use clap::Args;

use crate::args::reader::ReaderArgs;

/// Show conversations and outputs in a browser.
///
/// Prints the address of the page, with a token that lets a browser in, and serves it until it is
/// interrupted. The page is read-only: nothing can be changed through it. It listens on this machine
/// alone unless --listen says otherwise, and gives up every file but the store, which it can only
/// read.
///
/// Examples: `ctxfs web --open`; `ctxfs web --listen 8080 --only c7`;
/// `ctxfs web --export c7-for-ann c7`
///
/// docs/PAGE.md shows the page and its keys.
#[derive(Debug, Args)]
pub(crate) struct WebArgs {
    /// Address to listen on: HOST:PORT or PORT; port 0 is one that is free.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub(crate) listen: String,

    /// Open the page in the browser of this machine.
    #[arg(long, conflicts_with = "export")]
    pub(crate) open: bool,

    /// Show only this conversation; nothing of another can be seen.
    #[arg(long, value_name = "CONVERSATION", conflicts_with = "export")]
    pub(crate) only: Option<String>,

    /// Write a conversation as files to this directory, which must be empty or missing, and serve
    /// nothing. `index.html` in it opens from a disk, without a server and without a script.
    #[arg(long, value_name = "DIR", requires = "conversation")]
    pub(crate) export: Option<PathBuf>,

    /// Conversation to export.
    #[arg(requires = "export")]
    pub(crate) conversation: Option<String>,

    #[command(flatten)]
    pub(crate) reader: ReaderArgs,
}
