//! `ctxfs put`: stores standard input as an output, and prints the stand-in for the model.

use std::io::{self, Read as _, Write};
use std::time::{Duration, SystemTime};
use std::{fs::File, path::PathBuf, sync::Arc};

use anyhow::Context as _;
use uuid::Uuid;

use crate::args::{Layout, PutArgs, PutFormat};
use crate::hooks::Host;
use crate::{Cli, Context, Failure, SettingKey, Settings, engine, places, remote};
use ctxfs_core::materialize::Analyzer;
use ctxfs_core::model::{Component, Content, Limits, LimitsByTool as _, Place, Provenance, Record};
use ctxfs_engine::{
    Engine, EngineError, Intake, MaskedForm, NewOutput, OutputName, OutputParts, Replace,
    ShownOutput, StandInRequest, StoredOutput,
};
use ctxfs_store::{About, AnalysedFile, Artifact, Conversation, Store, StoreError, ToolOutputDir};
use ctxfs_view::{Audience, Form, StandIn, View};

/// Maximum time for which a command waits for the store, whose lock another process may hold for an
/// unlimited time.
pub(crate) const STORE_PATIENCE: Duration = Duration::from_secs(10);
const BLOCK: usize = 256 * 1024;

pub(crate) fn run(args: &PutArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    let format = format(args)?;
    let settings = Arc::new(context.settings(cli, args.reader.settings())?);
    check_durable(args, &settings)?;
    let output = store(args, format, &settings, context)?;
    let replace = if args.always { Replace::Always } else { Replace::OverLimits };
    let options = PrintOptions { format, replace, tools: &args.has_tool, seen: false, above: b"" };
    print(&output, &options, context)?;
    match &output {
        PutOutput::Stored { output, .. } if args.durable => {
            remote::push_durably(output, &settings, context)
        }
        _ => Ok(()),
    }
}

fn provenance(args: &PutArgs) -> Provenance {
    Provenance {
        call: args.call.clone(),
        tool: args.tool.clone(),
        server: args.server.clone(),
        args: args.args.clone(),
        exit_code: args.exit_code,
        mime: args.mime.clone(),
        ..Provenance::default()
    }
}

fn check_durable(args: &PutArgs, settings: &Settings) -> anyhow::Result<()> {
    let is_filed_alone = args.layout == Layout::ToolOutput && args.conversation.is_none();
    if args.durable && is_filed_alone {
        let text = "`--durable` sends a conversation, and there is none";
        return Err(Failure::usage(text, "add `--conversation ID`").into());
    }
    if args.durable { remote::check(settings) } else { Ok(()) }
}

fn format(args: &PutArgs) -> Result<PutFormat, Failure> {
    let (default, in_conversation) = match args.layout {
        Layout::Context => (PutFormat::Summary, true),
        Layout::ToolOutput => (PutFormat::Envelope, args.conversation.is_some()),
    };
    let format = args.format.unwrap_or(default);
    if in_conversation || names_file(format) {
        return Ok(format);
    }
    Err(Failure::usage(
        "this format refers to a conversation, and there is none",
        "add `--conversation ID`, or use `--format envelope` or `--format preview`",
    ))
}

fn names_file(format: PutFormat) -> bool {
    matches!(format, PutFormat::Envelope | PutFormat::Preview)
}

fn store(
    args: &PutArgs,
    format: PutFormat,
    settings: &Arc<Settings>,
    context: &mut Context,
) -> anyhow::Result<PutOutput> {
    let call = provenance(args);
    let limits = settings.limits(call.tool_name().as_deref());
    let is_filed = args.layout == Layout::ToolOutput;
    if is_filed && args.conversation.is_none() {
        let output = store_in_directory(args, call, limits.clone(), settings)?;
        expire(&output, &limits, context);
        return Ok(output);
    }
    let target = TargetConversation::open(args.conversation.as_deref(), settings, context)?;
    let output = target.store(args, call)?;
    if !is_filed {
        return Ok(PutOutput::Stored { engine: target.engine, output, file: None });
    }
    let file = copy_to_directory(&output, args, &limits)?;
    let output = if names_file(format) { output.at(file.place()) } else { output };
    let output = PutOutput::Stored { engine: target.engine, output, file: Some(file) };
    expire(&output, &limits, context);
    Ok(output)
}

fn expire(output: &PutOutput, limits: &Limits, context: &mut Context) {
    if let Some(Err(error)) = output.file().map(|file| file.expire(limits)) {
        context.printer.message(&format!("cannot remove old outputs: {error}"));
    }
}

pub(crate) struct PrintOptions<'a> {
    pub(crate) format: PutFormat,
    pub(crate) replace: Replace,
    pub(crate) tools: &'a [String],
    pub(crate) seen: bool,
    /// The beginning of the output, if it has been printed already.
    pub(crate) above: &'a [u8],
}

/// Prints the text for the model: the output, unchanged except for masks, or its stand-in. If the
/// terminal has already shown the output (`seen`) and the output is not replaced, prints nothing.
pub(crate) fn print(
    output: &PutOutput,
    options: &PrintOptions<'_>,
    context: &mut Context,
) -> anyhow::Result<()> {
    match options.format {
        PutFormat::Summary => stand_in(Form::Summary, output, options, context),
        PutFormat::Envelope => stand_in(Form::Envelope, output, options, context),
        PutFormat::Handle => stand_in(Form::Handle, output, options, context),
        PutFormat::Preview => stand_in(Form::Preview, output, options, context),
        PutFormat::Ref => show(&View::Ref, output, context),
        PutFormat::Json => show(&View::Meta, output, context),
    }
}

fn stand_in(
    form: Form,
    output: &PutOutput,
    options: &PrintOptions<'_>,
    context: &mut Context,
) -> anyhow::Result<()> {
    let PrintOptions { replace, seen, tools, above, .. } = *options;
    let audience = Audience { tools, is_stored: &|_| false, above };
    let answer = output.stand_in(&StandInRequest { form, replace, seen, audience })?;
    output.save_counts();
    match answer {
        StandIn::Unchanged if seen => Ok(()),
        StandIn::Unchanged => print_from(above.len(), &*output.shown().bytes(), context),
        StandIn::Replaced(text) => {
            let is_in_line = !above.is_empty() && !above.ends_with(b"\n");
            let newline = if is_in_line { "\n" } else { "" };
            context.printer.bytes([newline, &text].concat().as_bytes())
        }
    }
}

fn show(view: &View, output: &PutOutput, context: &mut Context) -> anyhow::Result<()> {
    let text = output.view(view)?;
    output.save_counts();
    context.printer.bytes(&text)
}

fn print_from(offset: usize, content: &dyn Content, context: &mut Context) -> anyhow::Result<()> {
    let mut offset = offset as u64;
    loop {
        let block = content.bytes(offset, BLOCK)?;
        if block.is_empty() {
            return Ok(());
        }
        context.printer.bytes(&block)?;
        offset += block.len() as u64;
    }
}

pub(crate) fn new_call() -> String {
    Uuid::now_v7().to_string()
}

/// The conversation in which outputs are stored, and the engine for its store. Stand-ins name the
/// paths at which the conversation is mounted.
pub(crate) struct TargetConversation {
    pub(crate) engine: Arc<Engine>,
    pub(crate) conversation: Arc<Conversation>,
}

impl TargetConversation {
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

    pub(crate) fn find(
        id: &str,
        settings: &Arc<Settings>,
        context: &Context,
    ) -> anyhow::Result<Option<Self>> {
        let (engine, id) = engine_for(id, settings, context)?;
        let found = engine.store().conversation(&id)?;
        Ok(found.map(|conversation| Self { engine, conversation }))
    }

    /// Notes whose conversation this is: the working directory, and the host that runs the command.
    pub(crate) fn note_about(&self, host: Option<Host>) {
        let directory = std::env::current_dir().ok().map(|dir| dir.display().to_string());
        let host = host.map(|host| host.name().to_owned());
        let about = About { directory, host, prompt: None };
        if let Err(error) = ctxfs_engine::add_about(&self.engine, &self.conversation, about) {
            tracing::debug!(%error, "the conversation is not described");
        }
    }

    pub(crate) fn intake(
        &self,
        name: OutputName,
        provenance: Provenance,
    ) -> anyhow::Result<Intake<'_>> {
        let output = NewOutput { name, provenance, length: None };
        Ok(self.engine.intake(&self.conversation, output)?)
    }

    // If reading standard input fails, the received part is stored and marked as incomplete.
    pub(crate) fn store(&self, args: &PutArgs, call: Provenance) -> anyhow::Result<StoredOutput> {
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

fn engine_for(
    id: &str,
    settings: &Arc<Settings>,
    context: &Context,
) -> anyhow::Result<(Arc<Engine>, Component)> {
    let place = settings.store(&context.environment)?;
    let id = places::conversation_id(id)?;
    let prefix = settings.text(SettingKey::Advertise);
    let command = || Settings::command_root(&place, &context.environment);
    let root = places::reader_root(prefix, || places::mounts_of(&place), Some(&id), command);
    let options = engine::options(settings, &root, Some(&id))?;
    Ok((engine::open(Store::open(&place)?, options), id))
}

fn store_in_directory(
    args: &PutArgs,
    provenance: Provenance,
    limits: Limits,
    settings: &Settings,
) -> anyhow::Result<PutOutput> {
    let redaction = settings.redaction()?;
    let (dir, file, path) = create_file(args, &limits)?;
    let mut sink =
        MaskedForm::stored(redaction.as_ref(), AnalysedFile { file, analyzer: Analyzer::new() });
    receive(&mut sink, MaskedForm::finish)
        .map_err(|cut| cut.into_error(&path.display().to_string()))?;
    let AnalysedFile { file, analyzer } = sink.into_inner();
    let analysis = analyzer.finish();
    let filed = sync_file(dir, &file, path)?;
    let parts = OutputParts {
        content: Artifact::new(Arc::new(file), analysis.bytes),
        analysis: Arc::new(analysis),
        record: Record {
            state: ctxfs_core::model::ArtifactState::Sealed,
            provenance,
            ..Record::default()
        },
        place: filed.place(),
        limits,
    };
    let output = ShownOutput::new(parts, redaction.as_ref())?;
    Ok(PutOutput::File { output, file: filed })
}

fn copy_to_directory(
    output: &StoredOutput,
    args: &PutArgs,
    limits: &Limits,
) -> anyhow::Result<ToolOutputFile> {
    let (dir, mut file, path) = create_file(args, limits)?;
    io::copy(&mut output.content().file().as_ref(), &mut file)
        .with_context(|| format!("cannot write all of `{}`", path.display()))?;
    sync_file(dir, &file, path)
}

fn create_file(args: &PutArgs, limits: &Limits) -> anyhow::Result<(ToolOutputDir, File, PathBuf)> {
    let dir = ToolOutputDir::open(&limits.dir)?;
    let tool = args.tool.as_deref().unwrap_or_default();
    let (file, path) = dir.create(tool, SystemTime::now())?;
    Ok((dir, file, path))
}

fn sync_file(dir: ToolOutputDir, file: &File, path: PathBuf) -> anyhow::Result<ToolOutputFile> {
    file.sync_all().with_context(|| format!("cannot write all of `{}`", path.display()))?;
    dir.sync()?;
    Ok(ToolOutputFile { dir, path })
}

const DAY: Duration = Duration::from_hours(24);
// Minimum age of a file that is removed, even with a retention of 0 days. A younger file may still
// be written or may be read soon.
const GRACE: Duration = Duration::from_hours(1);

pub(crate) enum PutOutput {
    Stored { engine: Arc<Engine>, output: StoredOutput, file: Option<ToolOutputFile> },
    File { output: ShownOutput, file: ToolOutputFile },
}

pub(crate) struct ToolOutputFile {
    dir: ToolOutputDir,
    path: PathBuf,
}

impl PutOutput {
    // Recognizes an input that is itself the stand-in of a stored output.
    pub(crate) fn stand_in(&self, request: &StandInRequest<'_>) -> Result<StandIn, EngineError> {
        let is_stored = |reference: &str| self.file().is_some_and(|file| file.is_beside(reference));
        let audience = Audience { is_stored: &is_stored, ..request.audience };
        let request = StandInRequest { audience, ..*request };
        match self {
            Self::Stored { engine, output, .. } => output.stand_in(engine, &request),
            Self::File { output, .. } => output.stand_in(&request),
        }
    }

    pub(crate) fn view(&self, view: &View) -> Result<Vec<u8>, EngineError> {
        match self {
            Self::Stored { engine, output, .. } => output.view_in_place(engine, view),
            Self::File { output, .. } => output.view(view),
        }
    }

    pub(crate) fn shown(&self) -> &ShownOutput {
        match self {
            Self::Stored { output, .. } => output.shown(),
            Self::File { output, .. } => output,
        }
    }

    pub(crate) fn file(&self) -> Option<&ToolOutputFile> {
        match self {
            Self::Stored { file, .. } => file.as_ref(),
            Self::File { file, .. } => Some(file),
        }
    }

    fn save_counts(&self) {
        if let Self::Stored { engine, .. } = self {
            engine.finish();
        }
    }
}

impl ToolOutputFile {
    fn place(&self) -> Place {
        Place::alone(&self.name())
    }

    fn expire(&self, limits: &Limits) -> Result<u64, StoreError> {
        let age = (DAY * limits.retention_days).max(GRACE);
        self.dir.expire(age, SystemTime::now())
    }

    fn is_beside(&self, reference: &str) -> bool {
        self.dir.holds(reference) && self.name() != reference
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }
}

/// The error that ended standard input early.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReceiveError {
    #[error("standard input failed: {0}")]
    Input(io::Error),
    #[error("the store failed: {0}")]
    Store(io::Error),
}

impl ReceiveError {
    fn into_error(self, kept: &str) -> anyhow::Error {
        let (error, what) = match self {
            Self::Input(error) => (error, "cannot read standard input"),
            Self::Store(error) => (error, "cannot store the whole output"),
        };
        anyhow::Error::new(error).context(format!("{what}; the part received is in `{kept}`"))
    }
}

/// Copies standard input to `sink`. Then calls `finish`, even after a failure to read, but not
/// after a failure to write to `sink`. After an error, `sink` contains the part that was received
/// before.
pub(crate) fn receive<W: Write>(
    sink: &mut W,
    finish: impl FnOnce(&mut W) -> io::Result<()>,
) -> Result<(), ReceiveError> {
    let copied = copy_stdin(sink);
    if matches!(copied, Err(ReceiveError::Store(_))) {
        return copied;
    }
    let finished = finish(sink).map_err(ReceiveError::Store);
    copied.and(finished)
}

fn copy_stdin(sink: &mut dyn Write) -> Result<(), ReceiveError> {
    let mut block = vec![0; BLOCK];
    let mut input = io::stdin().lock();
    loop {
        let count = match input.read(&mut block) {
            Ok(0) => return Ok(()),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(ReceiveError::Input(error)),
        };
        sink.write_all(&block[..count]).map_err(ReceiveError::Store)?;
    }
}
