//! A model that another process asks.

use std::io;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use crate::cli::ask_models::document;
use crate::cli::ask_models::document::Asked;
use crate::cli::ask_models::document::Introduction;
use crate::cli::passing;
use crate::extract::ExtractSettings;
use crate::extract::LanguageModel;
use crate::extract::ModelFailure;
use crate::extract::ModelFailureKind;
use crate::extract::ModelProfile;
use crate::extract::ModelReply;
use crate::extract::ModelRequest;
use crate::extract::Models;
use crate::extract::Stopped;
use crate::extract::TokenUsage;

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
