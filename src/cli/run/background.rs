//! The process that continues reading when a command has ended but background processes still write
//! to its output.
//!
//! ```text
//! ctxfs run -- CMD          reads until CMD has ended; prints, ends
//!   ctxfs keep-output       own session: reads until all processes have closed the output
//! ```
//!
//! The process holds none of the file descriptors that the caller of `ctxfs run` waits for.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::event::{PollFd, PollFlags};

use crate::args::KeepOutputArgs;
use crate::put::TargetConversation;
use crate::run::child::{BLOCK, read};
use crate::run::output::{CommandLogs, OpenOutput, OutputStream};
use crate::{Cli, Context, env, system};
use ctxfs_core::model::Provenance;

const READY: &[u8] = b"ready\n";

/// Starts the process, and returns once it has taken over the logs that `args` names.
pub(crate) fn start(
    left: Vec<OpenOutput>,
    args: &KeepOutputArgs,
    store: &std::path::Path,
    cli: &Cli,
) -> io::Result<()> {
    let (mut reader, writer) = io::pipe()?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0("ctxfs").arg("--store").arg(std::path::absolute(store)?);
    if let Some(config) = &cli.config {
        command.arg("--config").arg(std::path::absolute(config)?);
    }
    command.arg("keep-output").args(words(args)).env_remove(env::NOTIFY_SOCKET).current_dir("/");
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

fn words(args: &KeepOutputArgs) -> Vec<OsString> {
    let KeepOutputArgs { conversation, exit_code, duration_ms, cut, discard, logs } = args;
    let mut words = vec![
        format!("--conversation={conversation}"),
        format!("--exit-code={exit_code}"),
        format!("--duration-ms={duration_ms}"),
    ];
    words.extend(cut.iter().map(|why| format!("--cut={why}")));
    words.extend(discard.then(|| "--discard".to_owned()));
    words.push("--".to_owned());
    words.into_iter().map(OsString::from).chain(logs.iter().cloned()).collect()
}

/// Runs the process. Stores the bytes that it reads from standard input, and also from standard
/// output, which is opened for reading.
pub(crate) fn keep(args: &KeepOutputArgs, cli: &Cli, context: &Context) -> anyhow::Result<()> {
    system::close_inherited()?;
    rustix::process::setsid()?;
    let settings = std::sync::Arc::new(context.settings(cli, Vec::new())?);
    let target = TargetConversation::find(&args.conversation, &settings, context)?;
    let target = target.ok_or_else(|| anyhow::anyhow!("there is no such conversation"))?;
    let newer = Provenance {
        exit_code: Some(args.exit_code),
        duration_ms: Some(args.duration_ms),
        ..Provenance::default()
    };
    let mut logs = CommandLogs::take_over(&target, &args.logs, &newer)?;
    report_ready()?;
    let count = take_all(&mut logs)?;
    let _loss = logs.finish(&Provenance::default());
    if args.discard && count == 0 {
        logs.discard();
    } else {
        logs.seal(args.cut.as_deref())?;
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

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use crate::args::Command as Subcommand;

    use super::*;

    #[test]
    fn arguments_come_back_from_their_words() {
        for is_set in [true, false] {
            let args = KeepOutputArgs {
                conversation: "-c7".to_owned(),
                exit_code: -1,
                duration_ms: u64::MAX,
                cut: is_set.then(|| "no room".to_owned()),
                discard: is_set,
                logs: vec!["--x.log".into(), "a.log".into(), "b.log".into()],
            };
            let line = ["ctxfs", "keep-output"].map(OsString::from);
            let cli = Cli::try_parse_from(line.into_iter().chain(words(&args))).unwrap();
            assert!(matches!(&cli.command, Subcommand::KeepOutput(read) if *read == args));
        }
    }
}
