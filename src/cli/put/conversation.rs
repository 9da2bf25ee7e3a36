//! Storing an output in a conversation.

use std::sync::Arc;

use uuid::Uuid;

use crate::cli::args::PutArgs;
use crate::cli::context::Context;
use crate::cli::outcome::Failure;
use crate::cli::places;
use crate::cli::put::call::CallSettings;
use crate::cli::put::kept::KeptOutput;
use crate::cli::put::kept::StoreLocation;
use crate::cli::put::receive::receive;
use crate::cli::settings::Key;
use crate::cli::settings::Settings;
use crate::materialize::analyze;
use crate::materialize::analyze_log;
use crate::model::Component;
use crate::model::Content as _;
use crate::model::Folder;
use crate::model::Place;
use crate::model::Provenance;
use crate::model::Record;
use crate::model::RelPath;
use crate::model::Root;
use crate::redact::SecretRules;
use crate::store::Artifact;
use crate::store::ArtifactWriter;
use crate::store::Conversation;
use crate::store::Store;

/// Stores standard input as the output of a call.
pub(super) fn keep(
    args: &PutArgs,
    call_settings: &CallSettings,
    context: &Context,
) -> anyhow::Result<KeptOutput> {
    let target =
        TargetConversation::open(args.conversation.as_deref(), &call_settings.settings, context)?;
    let call = args.call.clone().unwrap_or_else(new_call);
    let provenance = Provenance { call: Some(call.clone()), ..call_settings.provenance() };
    let writer =
        ArtifactWriter::create_for_call(&target.conversation, Folder::Tool, &call, provenance)?;
    let record = write(writer, call_settings.stored_rules())?;
    target.output(record, call_settings)
}

/// Returns a new id for a call.
pub(in crate::cli) fn new_call() -> String {
    Uuid::now_v7().to_string()
}

/// The conversation that an output goes to.
pub(in crate::cli) struct TargetConversation {
    store: Store,
    pub(in crate::cli) conversation: Arc<Conversation>,
    id: Component,
    /// The root of the tree as the reader sees it.
    root: Root,
}

impl TargetConversation {
    /// Opens the named conversation, or else a new one.
    pub(in crate::cli) fn open(
        named: Option<&str>,
        given: &Settings,
        context: &Context,
    ) -> anyhow::Result<Self> {
        let place = given.store(&context.environment)?;
        let id = id(named)?;
        let store = Store::open(&place)?;
        let conversation = store.create_conversation(&id)?;
        let prefix = given.text(Key::Advertise);
        let root = places::reader_root(prefix, &place, Some(&id), &context.environment);
        Ok(Self { store, conversation, id, root })
    }

    /// Opens the output that was stored with `record`.
    pub(in crate::cli) fn output(
        self,
        record: Record,
        call_settings: &CallSettings,
    ) -> anyhow::Result<KeptOutput> {
        let path = RelPath::new(&record.path)?;
        let place = Place::below(&self.root, &self.id.to_text(), &path);
        let content = open(&self.conversation, &path)?;
        let recorded = record.analysis.clone().filter(|found| found.bytes == content.len());
        let analyze = if path.is_terminal() { analyze_log } else { analyze };
        let analysis = recorded.map_or_else(|| analyze(&content), Ok)?;
        let stored = StoreLocation { store: self.store, id: self.id, path, place };
        Ok(KeptOutput::new(content, analysis, record, call_settings)
            .stored_as(stored)
            .with_text()?)
    }
}

fn id(named: Option<&str>) -> Result<Component, Failure> {
    let id = named.map_or_else(|| format!("session-{}", Uuid::now_v7()), str::to_owned);
    places::conversation_id(&id)
}

/// Stores standard input. If reading fails, stores the part received and marks it incomplete.
fn write(mut writer: ArtifactWriter, rules: Option<&SecretRules>) -> anyhow::Result<Record> {
    match receive(&mut writer, rules) {
        Ok(()) => Ok(writer.seal()?),
        Err(cut) => {
            let kept = writer.seal_incomplete(&cut.to_string())?;
            Err(cut.into_error(&kept.path))
        }
    }
}

fn open(conversation: &Conversation, path: &RelPath) -> anyhow::Result<Artifact> {
    use anyhow::Context as _;
    Artifact::open(conversation.dir(), path).with_context(|| format!("cannot read back `{path}`"))
}
