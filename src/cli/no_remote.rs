//! The remote tier, in a build that has none.

use crate::cli::args::Cli;
use crate::cli::args::LsArgs;
use crate::cli::args::PullArgs;
use crate::cli::args::PushArgs;
use crate::cli::args::RemoteArgs;
use crate::cli::context::Context;
use crate::cli::outcome::Failure;
use crate::cli::outcome::FailureKind;
use crate::cli::settings::Settings;
use crate::engine::StoredOutput;

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
