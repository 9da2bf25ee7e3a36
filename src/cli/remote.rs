//! The bucket that hosts share: `ctxfs push`, `ctxfs pull`, `ctxfs remote`, and automatic sharing
//! by mounts and gateways.
//!
//! | module | content |
//! |---|---|
//! | `opened` | the bucket in the settings, which one process at a time opens for a store |
//! | `report` | reports on several conversations, and problems |
//! | `push`, `pull` | sending and fetching changes |
//! | `status` | the bucket, its conversations, and changes that are not sent yet |
//! | `maintenance` | checking, garbage collection and purging |
//! | `sharing` | automatic sharing by mounts, gateways and commands |
//!
//! The helper processes that access the bucket for a mount or a web page are in `helper`.

mod maintenance;
mod opened;
mod pull;
mod push;
mod report;
mod sharing;
mod status;

use crate::args::{RemoteAction, RemoteArgs};
use crate::{Cli, Context, Settings};

pub(crate) use crate::remote::pull::run as pull;
pub(crate) use crate::remote::push::{durably as push_durably, run as push};
pub(crate) use crate::remote::sharing::{
    SharedObjects, Sharing, ask, asking_options, begin, bucket_process, check_place, end, share,
    take_part, url,
};
pub(crate) use crate::remote::status::{BucketHealth, health, list};

pub(crate) fn run(args: &RemoteArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    match &args.action {
        RemoteAction::Status => status::show(cli, context),
        RemoteAction::Check(args) => maintenance::check(args, cli, context),
        RemoteAction::Gc(args) => maintenance::gc(args, cli, context),
        RemoteAction::Purge(args) => maintenance::purge(args, cli, context),
    }
}

pub(crate) fn check(settings: &Settings) -> anyhow::Result<()> {
    opened::url(settings).map(drop)
}
