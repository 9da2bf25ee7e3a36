//! The process that sends requests to language models on behalf of a server. It has access to the
//! network and the API keys, and to no file of the store.
//!
//! ```text
//! the server                       the process
//!   targets, as one document  ->     creates the models, with its own keys
//!   a socket                  ->     a thread for it
//!     request, as one document  ->     sends it to the model
//!     end of the stream         ->     stops
//!                               <-   reply, as one document
//! ```

use std::time::{Duration, Instant};
use std::{io, net::Shutdown, os::fd::AsFd as _, os::unix::net::UnixStream, sync::Arc};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::helper::{Role, answer_each, starter_socket};
use crate::{confine, engine};
use ctxfs_models::extract::{
    ExtractSettings, LanguageModel, ModelFailure, ModelFailureKind, ModelProfile, ModelReply,
    ModelRequest, Models, Stopped, TargetSettings, TokenUsage,
};
use ctxfs_sync::channel::{Channel, send};

/// Starts the process if the views of the mount use models. Must be called before the server is
/// confined, because a confined process can start only confined processes.
pub(crate) fn start(settings: &ExtractSettings) -> io::Result<Option<Arc<Models>>> {
    if !settings.view || settings.targets.is_empty() {
        return Ok(None);
    }
    let (control, theirs) = UnixStream::pair()?;
    // The process ends when this socket is closed, which happens at the end of this process.
    Role::AskModels.start(theirs.into())?;
    Ok(Some(Arc::new(model_proxies(settings.clone(), control)?)))
}

/// Sends requests to models for the parent process until the parent ends.
pub(crate) fn run() -> anyhow::Result<()> {
    confine::network()?;
    // The kernel clears this setting when the user changes, which `confine::network` may do, so it
    // is set afterwards.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    Ok(serve(&starter_socket()?, engine::model)?)
}

// Maximum size in bytes of a request, which fills at most the context of a model.
const LONGEST: usize = 64 << 20;
const MOMENT: Duration = Duration::from_millis(20);

fn is_waiting(from: &UnixStream) -> bool {
    is_ready(from, Duration::ZERO).unwrap_or(true)
}

fn is_ready(from: &UnixStream, time: Duration) -> io::Result<bool> {
    let mut waited = [PollFd::new(from, PollFlags::IN)];
    let time = Timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() };
    match poll(&mut waited, Some(&time)) {
        Ok(count) => Ok(count > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

// Time for the other process to report the cost of a cancelled request.
const AFTER_STOP: Duration = Duration::from_secs(2);

struct ModelProxy {
    control: Arc<UnixStream>,
    profile: ModelProfile,
}

/// Returns models that forward requests to the process at the other end of `control`. Fails if that
/// process has ended.
fn model_proxies(settings: ExtractSettings, control: UnixStream) -> io::Result<Models> {
    Channel::without_deadline(&control, LONGEST)
        .write_document(&(&settings.targets, settings.timeout))?;
    let control = Arc::new(control);
    Ok(Models::new(settings, move |target| {
        let (control, profile) = (Arc::clone(&control), target.profile.clone());
        Arc::new(ModelProxy { control, profile })
    }))
}

impl ModelProxy {
    fn reply(
        &self,
        request: &ModelRequest,
        stopped: &Stopped<'_>,
    ) -> io::Result<Result<ModelReply, ModelFailure>> {
        let (socket, theirs) = UnixStream::pair()?;
        send(&self.control, &(), Some(theirs.as_fd()))?;
        drop(theirs);
        let mut channel = Channel::without_deadline(&socket, LONGEST);
        channel.write_document(&(&self.profile.target, request))?;
        while !is_ready(&socket, MOMENT)? {
            if stopped() {
                socket.shutdown(Shutdown::Write)?;
                channel.extend(Instant::now() + AFTER_STOP);
                break;
            }
        }
        channel.read_document()
    }
}

impl LanguageModel for ModelProxy {
    fn profile(&self) -> &ModelProfile {
        &self.profile
    }

    fn ask(
        &self,
        request: &ModelRequest,
        stopped: &Stopped<'_>,
    ) -> Result<ModelReply, ModelFailure> {
        self.reply(request, stopped).unwrap_or_else(|error| {
            let (kind, message) = if stopped() {
                (ModelFailureKind::Stopped, "nobody waits for the reply".to_owned())
            } else {
                let target = &self.profile.target;
                let why = "the process that asks models for this mount does not answer";
                let message = format!("`{target}`: {why}: {error}; unmount and mount again");
                (ModelFailureKind::Unavailable, message)
            };
            Err(ModelFailure { kind, message, usage: TokenUsage::default() })
        })
    }
}

// Maximum number of simultaneous requests. The setting `concurrency` limits the requests of one
// question; this limit protects against a broken server.
const MOST: usize = 1024;

/// Sends requests to models for the process at the other end of `control`, until that process ends.
/// `make` creates the model for a target, with the given timeout of one attempt.
pub(crate) fn serve(
    control: &UnixStream,
    make: impl Fn(&TargetSettings, Duration) -> Arc<dyn LanguageModel>,
) -> io::Result<()> {
    let (targets, timeout): (Vec<TargetSettings>, _) =
        Channel::without_deadline(control, LONGEST).read_document()?;
    let models: Vec<_> = targets.iter().map(|target| make(target, timeout)).collect();
    answer_each(control, MOST, || true, move |socket| answer_request(socket, &models))
}

fn answer_request(socket: &UnixStream, models: &[Arc<dyn LanguageModel>]) -> io::Result<()> {
    let mut channel = Channel::without_deadline(socket, LONGEST);
    let (target, request): (String, _) = channel.read_document()?;
    let model = models.iter().find(|model| model.profile().target == target);
    let reply = match model {
        Some(model) => model.ask(&request, &|| is_waiting(socket)),
        None => unknown_target(&target),
    };
    channel.write_document(&reply)
}

fn unknown_target(target: &str) -> Result<ModelReply, ModelFailure> {
    let message = format!("there is no target `{target}`");
    let (kind, usage) = (ModelFailureKind::Rejected, TokenUsage::default());
    Err(ModelFailure { kind, message, usage })
}

#[cfg(test)]
mod tests;
