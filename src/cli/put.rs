//! `ctxfs put`: standard input becomes an output that is kept, and what goes to the model in its
//! place is printed.

mod asked;
mod conversation;
mod directory;
mod output;
mod receive;

use crate::cli::Context;
use crate::cli::args::Cli;
use crate::cli::args::Layout;
use crate::cli::args::PutArgs;
use crate::cli::args::PutFormat;
use crate::cli::outcome::Failure;
use crate::cli::put::asked::Asked;
use crate::cli::put::output::Output;
use crate::model::Content;
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
    let asked = Asked::new(args, context.settings(cli, args.settings())?)?;
    let output = keep(&asked, context)?;
    let place = output.place(names_file(format));
    let masked = output.masked();
    let subject = output.subject(masked.as_ref(), &place, &asked.limits);
    match format {
        PutFormat::Summary => stand_in(Form::Summary, &output, &subject, args, context),
        PutFormat::Envelope => stand_in(Form::Envelope, &output, &subject, args, context),
        PutFormat::Handle => stand_in(Form::Handle, &output, &subject, args, context),
        PutFormat::Preview => stand_in(Form::Preview, &output, &subject, args, context),
        PutFormat::Ref => show(&View::Ref, &subject, context),
        PutFormat::Json => show(&View::Meta, &subject, context),
    }
}

/// The format that was asked for, else that of the layout.
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
        "what this format names is there only in a conversation",
        "add `--conversation ID`, or use `--format envelope` or `--format preview`",
    ))
}

/// Whether all that a format names is the file itself.
fn names_file(format: PutFormat) -> bool {
    matches!(format, PutFormat::Envelope | PutFormat::Preview)
}

/// Keeps standard input where the layout says.
fn keep(asked: &Asked<'_>, context: &mut Context) -> anyhow::Result<Output> {
    if asked.args.layout == Layout::Context {
        return conversation::keep(asked, context);
    }
    let output = if asked.args.conversation.is_some() {
        directory::copy(conversation::keep(asked, context)?, asked)?
    } else {
        directory::keep(asked)?
    };
    if let Some(Err(error)) = output.filed.as_ref().map(|filed| filed.expire(&asked.limits)) {
        context.printer.say(&format!("old outputs are still there: {error}"));
    }
    Ok(output)
}

/// Prints what goes to the model.
fn stand_in(
    form: Form,
    output: &Output,
    subject: &Subject<'_>,
    args: &PutArgs,
    context: &mut Context,
) -> anyhow::Result<()> {
    let is_stored = |reference: &str| output.is_another(reference);
    let audience = Audience { tools: &args.has_tool, is_stored: &is_stored };
    let make = if args.always { view::stand_in_always } else { view::stand_in };
    match make(form, subject, &audience)? {
        StandIn::Unchanged => print(subject.content, context),
        StandIn::Replaced(text) => context.printer.bytes(text.as_bytes()),
    }
}

fn show(view: &View, subject: &Subject<'_>, context: &mut Context) -> anyhow::Result<()> {
    let mut text = Vec::new();
    view::render(view, subject, &|| false, &mut text)?;
    context.printer.bytes(&text)
}

/// Prints an output as it is, but for masks.
fn print(content: &dyn Content, context: &mut Context) -> anyhow::Result<()> {
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
