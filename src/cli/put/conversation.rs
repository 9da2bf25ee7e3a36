//! Storing an output in a conversation.

use std::sync::Arc;

use uuid::Uuid;

use crate::args::PutArgs;
use crate::context::Context;
use crate::put::receive::receive;
use crate::settings::{Key, Settings};
use crate::{engine, places};
use ctxfs_core::model::{Component, Provenance};
use ctxfs_engine::{Engine, Intake, NewOutput, OutputName, StoredOutput};
use ctxfs_store::{Conversation, Store};

/// Returns a new id for a call.
pub(crate) fn new_call() -> String {
    Uuid::now_v7().to_string()
}

/// The conversation that an output goes to, and the engine over its store.
pub(crate) struct TargetConversation {
    pub(crate) engine: Arc<Engine>,
    pub(crate) conversation: Arc<Conversation>,
}

impl TargetConversation {
    /// Opens the named conversation, or else a new one.
    pub(crate) fn open(
        named: Option<&str>,
        settings: &Arc<Settings>,
        context: &Context,
    ) -> anyhow::Result<Self> {
        let id = named.map_or_else(|| format!("session-{}", Uuid::now_v7()), str::to_owned);
        let (engine, id) = engine_for(&id, settings, context)?;
        let conversation = engine.store().create_conversation(&id)?;
        Ok(Self { engine, conversation })
    }

    /// Opens the conversation `id`, if it is there.
    pub(crate) fn find(
        id: &str,
        settings: &Arc<Settings>,
        context: &Context,
    ) -> anyhow::Result<Option<Self>> {
        let (engine, id) = engine_for(id, settings, context)?;
        let found = engine.store().conversation(&id)?;
        Ok(found.map(|conversation| Self { engine, conversation }))
    }

    /// Begins to take in an output of this conversation.
    pub(crate) fn intake(
        &self,
        name: OutputName,
        provenance: Provenance,
    ) -> anyhow::Result<Intake<'_>> {
        let output = NewOutput { name, provenance, length: None };
        Ok(self.engine.intake(&self.conversation, output)?)
    }

    /// Stores standard input as the output of a call. If that fails, the part received is stored
    /// and marked incomplete.
    pub(super) fn keep(&self, args: &PutArgs, call: Provenance) -> anyhow::Result<StoredOutput> {
        let id = args.call.clone().unwrap_or_else(new_call);
        let provenance = Provenance { call: Some(id.clone()), ..call };
        let mut intake = self.intake(OutputName::Call(id), provenance)?.keeping_end();
        match receive(&mut intake, Intake::finish) {
            Ok(()) => Ok(intake.seal()?),
            Err(cut) => {
                let kept = intake.seal_incomplete(&cut.to_string())?;
                self.engine.finish();
                Err(cut.into_error(&kept.path().to_text()))
            }
        }
    }
}

/// Returns an engine over the store, whose readers see the conversation `id` where it is mounted.
fn engine_for(
    id: &str,
    settings: &Arc<Settings>,
    context: &Context,
) -> anyhow::Result<(Arc<Engine>, Component)> {
    let place = settings.store(&context.environment)?;
    let id = places::conversation_id(id)?;
    let prefix = settings.text(Key::Advertise);
    let root = places::reader_root(prefix, &place, Some(&id), &context.environment);
    let options = engine::options(settings, &root, Some(&id))?;
    Ok((engine::open(Store::open(&place)?, options), id))
}
