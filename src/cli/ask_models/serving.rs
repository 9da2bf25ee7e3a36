//! The process that asks.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

use crate::ask_models::document;
use crate::ask_models::document::{Asked, Introduction};
use crate::passing;
use ctxfs_models::extract::{
    LanguageModel, ModelFailure, ModelFailureKind, ModelReply, TargetSettings, TokenUsage,
};

/// The requests at a time, each with a thread. A question has as many as `concurrency` says; this is
/// for a server that has gone wrong.
const MOST: usize = 1024;

type AllModels = Arc<[Arc<dyn LanguageModel>]>;

/// Asks models for the process at the other end of `control`, until that ends. `make` makes the
/// model of a target, of which one attempt may take so long.
pub(super) fn serve(
    control: &UnixStream,
    make: impl Fn(&TargetSettings, Duration) -> Arc<dyn LanguageModel>,
) -> io::Result<()> {
    let Introduction { targets, timeout } = document::read(control)?;
    let models: AllModels = targets.iter().map(|target| make(target, timeout)).collect();
    // Each request holds one more reference.
    let running = Arc::new(());
    while let (1.., socket) = passing::receive(control, &mut [0])? {
        let socket = UnixStream::from(socket.ok_or(io::ErrorKind::InvalidData)?);
        if Arc::strong_count(&running) > MOST {
            // The other process sees its end.
            continue;
        }
        let (models, running) = (Arc::clone(&models), Arc::clone(&running));
        let work = move || {
            if let Err(error) = answer(&socket, &models) {
                tracing::debug!(%error, "a request of the server broke off");
            }
            drop(running);
        };
        thread::Builder::new().name("question".to_owned()).spawn(work)?;
    }
    Ok(())
}

fn answer(socket: &UnixStream, models: &[Arc<dyn LanguageModel>]) -> io::Result<()> {
    let Asked { target, request } = document::read(socket)?;
    let model = models.iter().find(|model| model.profile().target == target);
    let reply = match model {
        Some(model) => model.ask(&request, &|| document::is_waiting(socket)),
        None => unknown(&target),
    };
    document::write(socket, &reply)
}

fn unknown(target: &str) -> Result<ModelReply, ModelFailure> {
    let message = format!("there is no target `{target}`");
    let (kind, usage) = (ModelFailureKind::Rejected, TokenUsage::default());
    Err(ModelFailure { kind, message, usage })
}
