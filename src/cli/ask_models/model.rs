//! A model that another process asks.

use std::io;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::ask_models::document;
use crate::ask_models::document::{Asked, Introduction};
use crate::passing;
use ctxfs_models::extract::{
    ExtractSettings, LanguageModel, ModelFailure, ModelFailureKind, ModelProfile, ModelReply,
    ModelRequest, Models, Stopped, TokenUsage,
};

/// The byte that comes with the socket of a request.
const REQUEST: &[u8] = b"q";
/// The byte that gives a request up.
const STOP: &[u8] = b"s";
/// The time in which the other process tells what a request has cost that was given up.
const AFTER_STOP: Duration = Duration::from_secs(2);

/// A model that another process asks.
struct ModelApart {
    control: Arc<UnixStream>,
    profile: ModelProfile,
}

/// Returns the models of `settings`, which the process at the other end of `control` asks. Fails if
/// that is gone.
pub(super) fn models(settings: ExtractSettings, control: UnixStream) -> io::Result<Models> {
    let (targets, timeout) = (settings.targets.clone(), settings.timeout);
    document::write(&control, &Introduction { targets, timeout })?;
    let control = Arc::new(control);
    Ok(Models::new(settings, move |target| {
        let (control, profile) = (Arc::clone(&control), target.profile.clone());
        Arc::new(ModelApart { control, profile })
    }))
}

impl ModelApart {
    fn reply(
        &self,
        request: &ModelRequest,
        stopped: &Stopped<'_>,
    ) -> io::Result<Result<ModelReply, ModelFailure>> {
        let (socket, theirs) = UnixStream::pair()?;
        passing::send(&self.control, REQUEST, Some(theirs.as_fd()))?;
        drop(theirs);
        let target = self.profile.target.clone();
        document::write(&socket, &Asked { target, request: request.clone() })?;
        if !wait(&socket, stopped)? {
            (&socket).write_all(STOP)?;
            let late = Instant::now() + AFTER_STOP;
            wait(&socket, &|| Instant::now() >= late)?;
            socket.set_nonblocking(true)?;
        }
        document::read(&socket)
    }
}

impl LanguageModel for ModelApart {
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

/// Waits for something to read, or the end. Returns false once `stopped` does.
fn wait(socket: &UnixStream, stopped: &Stopped<'_>) -> io::Result<bool> {
    while !document::is_ready(socket)? {
        if stopped() {
            return Ok(false);
        }
    }
    Ok(true)
}
