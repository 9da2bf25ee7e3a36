//! The remote tier, in a build that has none.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Child;

use crate::args::{AskBucketArgs, BesideArgs, Cli, LsArgs, PullArgs, PushArgs, RemoteArgs};
use crate::context::Context;
use crate::outcome::{Failure, FailureKind};
use crate::settings::Settings;
use ctxfs_engine::{EngineOptions, StoredOutput};
use ctxfs_store::Store;

/// A bucket that is never there.
#[derive(Debug)]
pub(super) enum SharedObjects {}

/// The rights of a process that asks a bucket.
#[derive(Debug)]
pub(super) enum Use {
    All,
}

/// Processes beside the page, which there are never.
#[derive(Debug)]
pub(super) enum Beside {}

impl Beside {
    pub(super) fn of_page(_: &Settings, _: &Path) -> Option<Self> {
        None
    }

    pub(super) fn engine_options(self, _: &Store, _: EngineOptions) -> EngineOptions {
        match self {}
    }
}

/// Ends the sharing, of which there is none.
pub(super) type Ending = Box<dyn FnOnce() + Send>;

/// The sharing of a process, of which there is none.
#[derive(Debug)]
pub(super) struct Sharing;

fn refused() -> anyhow::Result<()> {
    let hint = "build it with `--features remote`, or use a published build";
    let text = "this build of ctxfs has no remote tier";
    Err(Failure::new(FailureKind::Machine, text, hint).into())
}

pub(super) fn push(_: &PushArgs, _: &Cli, _: &mut Context) -> anyhow::Result<()> {
    refused()
}

pub(super) fn pull(_: &PullArgs, _: &Cli, _: &mut Context) -> anyhow::Result<()> {
    refused()
}

pub(super) fn run(_: &RemoteArgs, _: &Cli, _: &mut Context) -> anyhow::Result<()> {
    refused()
}

pub(super) fn list(_: &LsArgs, _: &Cli, _: &mut Context) -> anyhow::Result<()> {
    refused()
}

pub(super) fn check(_: &Settings) -> anyhow::Result<()> {
    refused()
}

pub(super) fn push_durably(_: &StoredOutput, _: &Settings, _: &mut Context) -> anyhow::Result<()> {
    refused()
}

pub(super) fn ask_bucket(_: &AskBucketArgs) -> anyhow::Result<()> {
    refused()
}

pub(super) fn start_beside(_: &BesideArgs) -> anyhow::Result<()> {
    refused()
}

pub(super) fn look_beside(_: &BesideArgs) -> anyhow::Result<()> {
    refused()
}

#[expect(clippy::unnecessary_wraps, reason = "a build with the tier may fail")]
pub(super) fn url(_: &Settings) -> anyhow::Result<Option<&str>> {
    Ok(None)
}

pub(super) fn spawn_process(_: &str, _: Use, _: OwnedFd) -> io::Result<Child> {
    Err(io::ErrorKind::Unsupported.into())
}

#[expect(clippy::unnecessary_wraps, reason = "a build with the tier may fail")]
pub(super) fn share(
    _: &Store,
    _: Option<SharedObjects>,
    _: &Settings,
    options: EngineOptions,
) -> anyhow::Result<(EngineOptions, Ending)> {
    Ok((options, Box::new(|| ())))
}

pub(super) fn health(_: &Settings, _: &Path) -> Option<anyhow::Result<(String, Option<String>)>> {
    None
}

pub(super) fn ask(_: &Store, _: &Settings, options: EngineOptions) -> EngineOptions {
    options
}

pub(super) fn begin(_: &Store, _: &Settings) -> Sharing {
    Sharing
}

pub(super) fn take_part(_: &Sharing, options: EngineOptions) -> EngineOptions {
    options
}

pub(super) fn end(_: &Sharing) {}
