//! `ctxfs put`: stores standard input as an output, and prints its stand-in for the model.

mod conversation;
mod directory;
mod output;
mod receive;

use std::sync::Arc;

use crate::args::{Cli, Layout, PutArgs, PutFormat};
use crate::context::Context;
use crate::outcome::Failure;
pub(crate) use crate::put::conversation::{TargetConversation, new_call};
pub(crate) use crate::put::output::PutOutput;
use crate::remote;
use crate::settings::Settings;
use ctxfs_core::model::{Content, Limits, LimitsByTool as _, Provenance};
use ctxfs_engine::{Replace, StandInRequest};
use ctxfs_view::{Audience, Form, StandIn, View};

/// Bytes that are printed at once.
const BLOCK: usize = 256 * 1024;

pub(super) fn run(args: &PutArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    let format = format(args)?;
    let settings = Arc::new(context.settings(cli, args.reader.settings())?);
    check_durable(args, &settings)?;
    let output = keep(args, format, &settings, context)?;
    let replace = if args.always { Replace::Always } else { Replace::OverLimits };
    let options = PrintOptions { format, replace, tools: &args.has_tool, seen: false };
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

/// Fails before anything is stored if nothing could be sent.
fn check_durable(args: &PutArgs, settings: &Settings) -> anyhow::Result<()> {
    let is_filed_alone = args.layout == Layout::ToolOutput && args.conversation.is_none();
    if args.durable && is_filed_alone {
        let text = "`--durable` sends a conversation, and there is none";
        return Err(Failure::usage(text, "add `--conversation ID`").into());
    }
    if args.durable { remote::check(settings) } else { Ok(()) }
}

/// Returns the requested format, or else the default of the layout.
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

/// Returns true if a format refers to nothing but the file itself.
fn names_file(format: PutFormat) -> bool {
    matches!(format, PutFormat::Envelope | PutFormat::Preview)
}

/// Stores standard input as the layout says.
fn keep(
    args: &PutArgs,
    format: PutFormat,
    settings: &Arc<Settings>,
    context: &mut Context,
) -> anyhow::Result<PutOutput> {
    let call = provenance(args);
    let limits = settings.limits(call.tool_name().as_deref());
    let is_filed = args.layout == Layout::ToolOutput;
    if is_filed && args.conversation.is_none() {
        let output = directory::keep(args, call, limits.clone(), settings)?;
        expire(&output, &limits, context);
        return Ok(output);
    }
    let target = TargetConversation::open(args.conversation.as_deref(), settings, context)?;
    let output = target.keep(args, call)?;
    if !is_filed {
        return Ok(PutOutput::Stored { engine: target.engine, output, file: None });
    }
    let file = directory::copy(&output, args, &limits)?;
    let output = if names_file(format) { output.at(file.place()) } else { output };
    let output = PutOutput::Stored { engine: target.engine, output, file: Some(file) };
    expire(&output, &limits, context);
    Ok(output)
}

/// Removes old files from the directory that `output` is in.
fn expire(output: &PutOutput, limits: &Limits, context: &mut Context) {
    if let Some(Err(error)) = output.file().map(|file| file.expire(limits)) {
        context.printer.say(&format!("cannot remove old outputs: {error}"));
    }
}

/// The options for printing an output.
pub(super) struct PrintOptions<'a> {
    pub(super) format: PutFormat,
    /// The condition on which the stand-in is printed.
    pub(super) replace: Replace,
    /// The tools that the model has.
    pub(super) tools: &'a [String],
    /// True if the output itself has been printed already.
    pub(super) seen: bool,
}

/// Prints what goes to the model: the output or its stand-in.
pub(super) fn print(
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
    let PrintOptions { replace, seen, tools, .. } = *options;
    let audience = Audience { tools, is_stored: &|_| false };
    let answer = output.stand_in(&StandInRequest { form, replace, seen, audience })?;
    output.save_counts();
    match answer {
        StandIn::Unchanged if seen => Ok(()),
        StandIn::Unchanged => print_all(&*output.shown().bytes(), context),
        StandIn::Replaced(text) => context.printer.bytes(text.as_bytes()),
    }
}

fn show(view: &View, output: &PutOutput, context: &mut Context) -> anyhow::Result<()> {
    let text = output.view(view)?;
    output.save_counts();
    context.printer.bytes(&text)
}

/// Prints an output, unchanged except for masks.
fn print_all(content: &dyn Content, context: &mut Context) -> anyhow::Result<()> {
    let mut offset = 0;
    loop {
        let block = content.bytes(offset, BLOCK)?;
        if block.is_empty() {
            return Ok(());
        }
        context.printer.bytes(&block)?;
        offset += block.len() as u64;
    }
}
