//! `ctxfs put`: stores standard input as an output, and prints its stand-in for the model.

mod call;
mod conversation;
mod directory;
mod kept;
mod receive;

use crate::cli::args::Cli;
use crate::cli::args::Layout;
use crate::cli::args::PutArgs;
use crate::cli::args::PutFormat;
use crate::cli::context::Context;
use crate::cli::outcome::Failure;
pub(in crate::cli) use crate::cli::put::call::CallSettings;
pub(in crate::cli) use crate::cli::put::conversation::TargetConversation;
pub(in crate::cli) use crate::cli::put::conversation::new_call;
use crate::cli::put::kept::KeptOutput;
use crate::materialize::token_count;
use crate::model::Amount;
use crate::model::Content;
use crate::model::Provenance;
use crate::model::Subject;
use crate::view;
use crate::view::Audience;
use crate::view::Form;
use crate::view::StandIn;
use crate::view::View;

/// Bytes that are printed at once.
const BLOCK: usize = 256 * 1024;

pub(super) fn run(args: &PutArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    let format = format(args)?;
    let call_settings =
        CallSettings::new(provenance(args), context.settings(cli, args.settings())?)?;
    let output = keep(args, &call_settings, context)?;
    let options = PrintOptions { format, always: args.always, tools: &args.has_tool, seen: false };
    print(&output, &call_settings, &options, context)
}

fn provenance(args: &PutArgs) -> Provenance {
    Provenance {
        call: args.call.clone(),
        tool: args.tool.clone(),
        server: args.server.clone(),
        args: args.args.clone(),
        exit_code: args.exit_code,
        duration_ms: None,
        mime: args.mime.clone(),
    }
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
    call_settings: &CallSettings,
    context: &mut Context,
) -> anyhow::Result<KeptOutput> {
    if args.layout == Layout::Context {
        return conversation::keep(args, call_settings, context);
    }
    let output = if args.conversation.is_some() {
        directory::copy(conversation::keep(args, call_settings, context)?, args, call_settings)?
    } else {
        directory::keep(args, call_settings)?
    };
    if let Some(Err(error)) = output.filed.as_ref().map(|filed| filed.expire(&call_settings.limits))
    {
        context.printer.say(&format!("cannot remove old outputs: {error}"));
    }
    Ok(output)
}

/// The options for printing an output.
pub(super) struct PrintOptions<'a> {
    pub(super) format: PutFormat,
    /// True to print the stand-in even if the output is within the limits.
    pub(super) always: bool,
    /// The tools that the model has.
    pub(super) tools: &'a [String],
    /// True if the output itself has been printed already.
    pub(super) seen: bool,
}

/// Prints what goes to the model: the output or its stand-in.
pub(super) fn print(
    output: &KeptOutput,
    call_settings: &CallSettings,
    options: &PrintOptions<'_>,
    context: &mut Context,
) -> anyhow::Result<()> {
    let place = output.place(names_file(options.format));
    let masked = output.masked();
    let subject = output.subject(masked.as_ref(), &place, &call_settings.limits);
    match options.format {
        PutFormat::Summary => stand_in(Form::Summary, output, &subject, options, context),
        PutFormat::Envelope => stand_in(Form::Envelope, output, &subject, options, context),
        PutFormat::Handle => stand_in(Form::Handle, output, &subject, options, context),
        PutFormat::Preview => stand_in(Form::Preview, output, &subject, options, context),
        PutFormat::Ref => show(&View::Ref, output, &subject, context),
        PutFormat::Json => show(&View::Meta, output, &subject, context),
    }
}

fn stand_in(
    form: Form,
    output: &KeptOutput,
    subject: &Subject<'_>,
    options: &PrintOptions<'_>,
    context: &mut Context,
) -> anyhow::Result<()> {
    let is_stored = |reference: &str| output.is_another(reference);
    let audience = Audience { tools: options.tools, is_stored: &is_stored };
    let make = if options.always { view::stand_in_always } else { view::stand_in };
    match make(form, subject, &audience)? {
        StandIn::Unchanged if options.seen => {
            output.count(Amount::default());
            Ok(())
        }
        StandIn::Unchanged => {
            output.count(Amount::once(subject.content.len(), subject.analysis.tokens));
            print_all(&*output.unchanged(), context)
        }
        StandIn::Replaced(text) => {
            output.count(Amount::once(text.len() as u64, token_count(text.as_bytes())));
            context.printer.bytes(text.as_bytes())
        }
    }
}

fn show(
    view: &View,
    output: &KeptOutput,
    subject: &Subject<'_>,
    context: &mut Context,
) -> anyhow::Result<()> {
    let mut text = Vec::new();
    view::render(view, subject, &|| false, &mut text)?;
    output.count(Amount::once(text.len() as u64, token_count(&text)));
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
