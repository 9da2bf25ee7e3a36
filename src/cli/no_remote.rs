//! Stubs for a build without the remote tier. Commands for the bucket fail. All other commands work
//! on the local store alone.

use std::io;
use std::path::Path;

use crate::args::LsArgs;
use crate::{Cli, Context, Failure, FailureKind, Settings};
use ctxfs_engine::{EngineOptions, StoredOutput};
use ctxfs_store::Store;

#[derive(Debug)]
pub(crate) enum SharedObjects {}

#[derive(Debug)]
pub(crate) enum BucketRights {
    All,
}

#[derive(Debug)]
pub(crate) enum PageHelpers {}

impl PageHelpers {
    pub(crate) fn of_page(_: &Settings, _: &Path) -> Option<Self> {
        None
    }

    pub(crate) fn engine_options(self, _: &Store, _: EngineOptions) -> EngineOptions {
        match self {}
    }
}

pub(crate) type SharingEnd = Box<dyn FnOnce() + Send>;

#[derive(Debug)]
pub(crate) struct Sharing;

pub(crate) fn refused() -> anyhow::Result<()> {
    let hint = "build it with `--features remote`, or use a published build";
    let text = "this build of ctxfs has no remote tier";
    Err(Failure::new(FailureKind::Machine, text, hint).into())
}

pub(crate) fn list(_: &LsArgs, _: &Cli, _: &mut Context) -> anyhow::Result<()> {
    refused()
}

pub(crate) fn check(_: &Settings) -> anyhow::Result<()> {
    refused()
}

pub(crate) fn push_durably(_: &StoredOutput, _: &Settings, _: &mut Context) -> anyhow::Result<()> {
    refused()
}

#[expect(clippy::unnecessary_wraps, reason = "a build with the tier may fail")]
pub(crate) fn url(_: &Settings) -> anyhow::Result<Option<&str>> {
    Ok(None)
}

pub(crate) fn spawn_process(
    _: &str,
    _: BucketRights,
    _: std::os::fd::OwnedFd,
) -> io::Result<std::process::Child> {
    Err(io::ErrorKind::Unsupported.into())
}

#[expect(clippy::unnecessary_wraps, reason = "a build with the tier may fail")]
pub(crate) fn share(
    _: &Store,
    _: Option<SharedObjects>,
    _: &Settings,
    options: EngineOptions,
) -> anyhow::Result<(EngineOptions, SharingEnd)> {
    Ok((options, Box::new(|| ())))
}

pub(crate) fn health(_: &Settings, _: &Path) -> Option<anyhow::Result<(String, Option<String>)>> {
    None
}

pub(crate) fn ask(_: &Store, _: &Settings, options: EngineOptions) -> EngineOptions {
    options
}

pub(crate) fn begin(_: &Store, _: &Settings, _: bool) -> Sharing {
    Sharing
}

pub(crate) fn take_part(_: &Sharing, options: EngineOptions) -> EngineOptions {
    options
}

pub(crate) fn end(_: &Sharing) {}
