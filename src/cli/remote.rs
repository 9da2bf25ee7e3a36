//! `ctxfs push`, `pull` and `remote`: what hosts share through a bucket, without a mount.
//!
//! | module | content |
//! |---|---|
//! | `opened` | the bucket that the settings name, and the right to use it for a store |
//! | `holder` | the process that has that right |
//! | `push` | sending |
//! | `pull` | getting |
//! | `listing` | what the bucket has |
//! | `status` | the bucket, and what is still to be sent |
//! | `check` | what is missing or damaged there |
//! | `gc` | what is of no use there any more |
//! | `purge` | bytes that have to leave it now |
//! | `process` | the process that asks the bucket for a mount |
//! | `beside` | the processes that do so, and look, for the page |
//! | `sharing` | what mounts and gateways send and ask for by themselves, and commands ask for |
//! | `each` | one conversation after the other |
//! | `problems` | what was left out, for the end of a command |

mod beside;
mod check;
mod each;
mod gc;
mod holder;
mod listing;
mod opened;
mod problems;
mod process;
mod pull;
mod purge;
mod push;
mod sharing;
mod status;
mod waiting;

use crate::args::{Cli, RemoteAction, RemoteArgs};
use crate::context::Context;
use crate::settings::Settings;

pub(super) use beside::{Beside, look as look_beside, start as start_beside};
pub(super) use listing::run as list;
pub(super) use process::{
    SharedObjects, Starter, Use, run as ask_bucket, spawn as spawn_process, start as start_process,
    url,
};
pub(super) use pull::run as pull;
pub(super) use push::{durably as push_durably, run as push};
pub(super) use sharing::{Ending, Sharing, ask, begin, end, share, take_part};
pub(super) use status::health;

pub(super) fn run(args: &RemoteArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    match &args.action {
        RemoteAction::Status => status::run(cli, context),
        RemoteAction::Check(args) => check::run(args, cli, context),
        RemoteAction::Gc(args) => gc::run(args, cli, context),
        RemoteAction::Purge(args) => purge::run(args, cli, context),
    }
}

/// Fails if the settings name no bucket that could be used.
pub(super) fn check(settings: &Settings) -> anyhow::Result<()> {
    opened::url(settings).map(drop)
}
