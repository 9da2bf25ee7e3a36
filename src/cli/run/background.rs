//! The process that continues reading when a command has ended but background processes still write
//! to its output.
//!
//! ```text
//! ctxfs run -- CMD          reads until CMD has ended; prints, ends
//!   keep-output             own session: reads until all processes have closed the output
//! ```
//!
//! The process holds none of the file descriptors that the caller of `ctxfs run` waits for.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{self, Path};

use rustix::event::{PollFd, PollFlags};

use crate::helper::{KeptOutput, Role};
use crate::run::child::{BLOCK, read};
use crate::run::output::{CommandLogs, OpenOutput, OutputStream};
use crate::{Cli, Context, put::TargetConversation};
use ctxfs_core::model::Provenance;

const READY: &[u8] = b"ready\n";

/// Starts the process, and returns once it has taken over the logs that `output` names.
pub(crate) fn start(
    left: Vec<OpenOutput>,
    output: KeptOutput,
    store: &Path,
    cli: &Cli,
) -> io::Result<()> {
    let (mut reader, writer) = io::pipe()?;
    let mut command = Role::KeepOutput(output).command();
    command.arg("--store").arg(path::absolute(store)?);
    if let Some(config) = &cli.config {
        command.arg("--config").arg(path::absolute(config)?);
    }
    command.stdin(nothing()?).stdout(nothing()?).stderr(writer);
    for (stream, source) in left {
        match stream {
            OutputStream::Stdout => command.stdin(source),
            OutputStream::Stderr => command.stdout(source),
        };
    }
    // The child is not waited for, because it outlives this process.
    let _started = command.spawn()?;
    drop(command);
    let mut reply = Vec::new();
    reader.read_to_end(&mut reply)?;
    if reply.ends_with(READY) {
        return Ok(());
    }
    Err(io::Error::other(String::from_utf8_lossy(&reply).into_owned()))
}

/// Runs the process. Stores the bytes that it reads from standard input, and also from standard
/// output, which is opened for reading.
pub(crate) fn keep(output: &KeptOutput, cli: &Cli, context: &Context) -> anyhow::Result<()> {
    rustix::process::setsid()?;
    let settings = std::sync::Arc::new(context.settings(cli, Vec::new())?);
    let target = TargetConversation::find(&output.conversation, &settings, context)?;
    let target = target.ok_or_else(|| anyhow::anyhow!("there is no such conversation"))?;
    let newer = Provenance {
        exit_code: Some(output.exit_code),
        duration_ms: Some(output.duration_ms),
        ..Provenance::default()
    };
    let mut logs = CommandLogs::take_over(&target, &output.logs, &newer)?;
    report_ready()?;
    let count = take_all(&mut logs)?;
    let _loss = logs.finish(&Provenance::default());
    if output.discard && count == 0 {
        logs.discard();
    } else {
        logs.seal(output.cut.as_deref())?;
    }
    target.engine.finish();
    Ok(())
}

fn report_ready() -> anyhow::Result<()> {
    io::stderr().write_all(READY)?;
    Ok(rustix::stdio::dup2_stderr(nothing()?)?)
}

fn nothing() -> io::Result<File> {
    File::options().read(true).write(true).open("/dev/null")
}

fn take_all(logs: &mut CommandLogs<'_>) -> io::Result<u64> {
    let mut open = vec![
        (OutputStream::Stdout, rustix::stdio::stdin()),
        (OutputStream::Stderr, rustix::stdio::stdout()),
    ];
    let (mut block, mut all) = (vec![0; BLOCK], 0);
    while !open.is_empty() {
        let ready = wait(&open)?;
        let mut ready = ready.into_iter();
        let mut failed = Ok(());
        open.retain(|(stream, source)| {
            if ready.next() != Some(true) {
                return true;
            }
            match read(source, &mut block) {
                Ok(count) => {
                    let bytes = &block[..count.unwrap_or(0)];
                    logs.write(*stream, bytes);
                    all += bytes.len() as u64;
                    count != Some(0)
                }
                Err(error) => {
                    failed = Err(error);
                    false
                }
            }
        });
        failed?;
    }
    Ok(all)
}

fn wait(sources: &[(OutputStream, std::os::fd::BorrowedFd<'_>)]) -> io::Result<Vec<bool>> {
    let mut fds: Vec<_> =
        sources.iter().map(|(_, fd)| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, None))?;
    Ok(fds.iter().map(|fd| !fd.revents().is_empty()).collect())
}
