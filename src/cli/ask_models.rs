//! `ctxfs ask-models`: the process that sends requests to language models on behalf of a server. It
//! has access to the network and the API keys, and to no file of the store.
//!
//! ```text
//! the server                       ask-models
//!   targets, as one document  ->     creates the models, with its own keys
//!   a socket                  ->     a thread for it
//!     request, as one document  ->     sends it to the model
//!     a byte: cancel            ->     stops
//!                               <-   reply, as one document
//! ```

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use crate::{confine, engine, system};
use ctxfs_models::extract::{
    ExtractSettings, LanguageModel, ModelFailure, ModelFailureKind, ModelProfile, ModelReply,
    ModelRequest, Models, Stopped, TargetSettings, TokenUsage,
};

/// Starts the process if the views of the mount use models. Must be called before the server is
/// confined, because a confined process can start only confined processes.
pub(crate) fn start(settings: &ExtractSettings) -> io::Result<Option<Arc<Models>>> {
    if !settings.view || settings.targets.is_empty() {
        return Ok(None);
    }
    let (control, theirs) = UnixStream::pair()?;
    // The helper process ends when this socket is closed, which happens at the end of this process.
    let theirs = OwnedFd::from(theirs);
    system::helper("ctxfs", "ask-models", theirs).stdout(std::process::Stdio::null()).spawn()?;
    Ok(Some(Arc::new(model_proxies(settings.clone(), control)?)))
}

/// Sends requests to models for the parent process until the parent ends.
pub(crate) fn run() -> anyhow::Result<()> {
    let _ = rustix::thread::set_name(c"ctxfs-models");
    confine::network()?;
    // The kernel clears this setting when the user changes, which `confine::network` may do, so it
    // is set afterwards.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    Ok(serve(&control, engine::model)?)
}

// Maximum size in bytes of a request, which fills at most the context of a model.
const LONGEST: u64 = 64 << 20;
const MOMENT: Duration = Duration::from_millis(20);

#[derive(Debug, Serialize, Deserialize)]
struct ModelTargets {
    targets: Vec<TargetSettings>,
    timeout: Duration,
}

#[derive(Debug, Serialize, Deserialize)]
struct TargetRequest {
    target: String,
    request: ModelRequest,
}

fn write_document(mut to: &UnixStream, value: &impl Serialize) -> io::Result<()> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, value)?;
    let length = u32::try_from(bytes.len() - 4).map_err(|_| io::ErrorKind::FileTooLarge)?;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    to.write_all(&bytes)
}

fn read_document<T: serde::de::DeserializeOwned>(mut from: &UnixStream) -> io::Result<T> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u64::from(u32::from_le_bytes(length));
    if length > LONGEST {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut bytes = Vec::new();
    if from.take(length).read_to_end(&mut bytes)? as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_slice(&bytes)?)
}

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

// Sent together with the socket of a request.
const REQUEST: &[u8] = b"q";
// Cancels a request.
const STOP: &[u8] = b"s";
// Time for the other process to report the cost of a cancelled request.
const AFTER_STOP: Duration = Duration::from_secs(2);

struct ModelProxy {
    control: Arc<UnixStream>,
    profile: ModelProfile,
}

/// Returns models that forward requests to the process at the other end of `control`. Fails if that
/// process has ended.
fn model_proxies(settings: ExtractSettings, control: UnixStream) -> io::Result<Models> {
    let (targets, timeout) = (settings.targets.clone(), settings.timeout);
    write_document(&control, &ModelTargets { targets, timeout })?;
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
        system::send_message(&self.control, REQUEST, Some(theirs.as_fd()))?;
        drop(theirs);
        let target = self.profile.target.clone();
        write_document(&socket, &TargetRequest { target, request: request.clone() })?;
        if !wait(&socket, stopped)? {
            (&socket).write_all(STOP)?;
            let late = Instant::now() + AFTER_STOP;
            wait(&socket, &|| Instant::now() >= late)?;
            socket.set_nonblocking(true)?;
        }
        read_document(&socket)
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

fn wait(socket: &UnixStream, stopped: &Stopped<'_>) -> io::Result<bool> {
    while !is_ready(socket, MOMENT)? {
        if stopped() {
            return Ok(false);
        }
    }
    Ok(true)
}

// Maximum number of simultaneous requests. Each has its own thread. The setting `concurrency`
// limits the requests of one question; this limit protects against a broken server.
const MOST: usize = 1024;

type AllModels = Arc<[Arc<dyn LanguageModel>]>;

/// Sends requests to models for the process at the other end of `control`, until that process ends.
/// `make` creates the model for a target. The duration is the timeout of one attempt.
pub(crate) fn serve(
    control: &UnixStream,
    make: impl Fn(&TargetSettings, Duration) -> Arc<dyn LanguageModel>,
) -> io::Result<()> {
    let ModelTargets { targets, timeout } = read_document(control)?;
    let models: AllModels = targets.iter().map(|target| make(target, timeout)).collect();
    // Each running request holds a further reference.
    let running = Arc::new(());
    while let (1.., socket) = system::receive_message(control, &mut [0])? {
        let socket = UnixStream::from(socket.ok_or(io::ErrorKind::InvalidData)?);
        if Arc::strong_count(&running) > MOST {
            // Dropping the socket informs the other process.
            continue;
        }
        let (models, running) = (Arc::clone(&models), Arc::clone(&running));
        let work = move || {
            if let Err(error) = answer_request(&socket, &models) {
                tracing::debug!(%error, "a request of the server broke off");
            }
            drop(running);
        };
        thread::Builder::new().name("question".to_owned()).spawn(work)?;
    }
    Ok(())
}

fn answer_request(socket: &UnixStream, models: &[Arc<dyn LanguageModel>]) -> io::Result<()> {
    let TargetRequest { target, request } = read_document(socket)?;
    let model = models.iter().find(|model| model.profile().target == target);
    let reply = match model {
        Some(model) => model.ask(&request, &|| is_waiting(socket)),
        None => unknown_target(&target),
    };
    write_document(socket, &reply)
}

fn unknown_target(target: &str) -> Result<ModelReply, ModelFailure> {
    let message = format!("there is no target `{target}`");
    let (kind, usage) = (ModelFailureKind::Rejected, TokenUsage::default());
    Err(ModelFailure { kind, message, usage })
}

#[cfg(test)]
mod tests;
