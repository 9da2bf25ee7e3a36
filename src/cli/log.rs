//! `ctxfs log`: prints the messages of a conversation, or appends to them.

use std::io::{self, BufRead, BufWriter, IsTerminal as _, Write};
use std::process::{Child, Command, Stdio};
use std::{fmt::Write as _, sync::Arc};

use anstream::AutoStream;
use anstyle::{AnsiColor, Style};
use anyhow::Context as _;
use jiff::Timestamp;

use crate::args::{AppendArgs, LogAction, LogArgs};
use crate::output::{GOOD, STRONG, WARN};
use crate::{Cli, Context, Environment, Failure, FailureKind, SettingKey, env, places, view};
use ctxfs_core::{model::Content as _, redact::SecretRules};
use ctxfs_engine::{EngineError, MaskedForm, MessageWriter, Redaction};
use ctxfs_store::message::{self, Log, LogLine, LogLines, MessageCall, MessageEntry, MessageTime};
use ctxfs_store::{Conversation, Store};
use ctxfs_view::cleaned;

pub(crate) fn run(args: &LogArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    match (&args.action, &args.conversation) {
        (Some(LogAction::Append(args)), None) => return append_stdin(args, cli, context),
        (Some(_), Some(id)) => {
            let text = format!("the conversation `{id}` belongs after `append`");
            return Err(Failure::usage(text, format!("use `ctxfs log append {id}`")).into());
        }
        (None, _) => {}
    }
    let settings = context.settings(cli, Vec::new())?;
    let store = Store::open(&settings.store(&context.environment)?)?;
    let found = match &args.conversation {
        Some(id) => Some(places::find_conversation(&store, id)?),
        None => latest(&store)?,
    };
    let Some(conversation) = found else { return Err(no_log().into()) };
    let others = ctxfs_sync::remote::PublishedMessages::of(&store);
    let log = message::log_of(&conversation, Some(&others))?;
    let Some(log) = log else { return Err(no_log().into()) };
    let redaction = settings.redaction()?;
    let rules = redaction.as_ref().map(|redaction| &*redaction.rules);
    page(&context.environment, args.no_pager, |out| {
        if cli.json {
            raw(log, redaction.as_ref(), out)
        } else {
            print(log, &conversation, rules, out)
        }
    })?;
    crate::page_link::print_link(context, store.root(), Some(conversation.id()), None);
    Ok(())
}

fn no_log() -> Failure {
    let hint = "add messages with `ctxfs log append CONVERSATION`, or append to its \
                history/messages.jsonl under the mount";
    Failure::new(FailureKind::Failed, "there is no message log yet", hint)
}

// Ignores conversations that cannot be read.
fn latest(store: &Store) -> anyhow::Result<Option<Arc<Conversation>>> {
    let mut newest = None;
    for id in store.conversations()? {
        let Ok(Some(conversation)) = store.conversation(&id) else { continue };
        let Ok(Some(log)) = conversation.log_file() else { continue };
        let written = log.metadata()?.modified()?;
        if newest.as_ref().is_none_or(|(than, _)| written > *than) {
            newest = Some((written, conversation));
        }
    }
    Ok(newest.map(|(_, conversation)| conversation))
}

fn raw(log: Log, redaction: Option<&Redaction>, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut out = MaskedForm::shown(redaction, out);
    for line in LogLines::from(log, 0) {
        line?.read(|block| out.write_all(block))?;
        out.write_all(b"\n")?;
    }
    Ok(out.finish()?)
}

fn print(
    log: Log,
    conversation: &Conversation,
    rules: Option<&SecretRules>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let mut between = "";
    for line in LogLines::from(log, 0) {
        let text = match line? {
            LogLine::Bytes(bytes) => shown(&String::from_utf8_lossy(&bytes), conversation, rules),
            long @ LogLine::Part(..) => {
                format!("[a message of {} bytes: `ctxfs log --json` prints it]\n", long.len())
            }
        };
        write!(out, "{between}{text}")?;
        between = "\n";
    }
    Ok(())
}

fn shown(line: &str, conversation: &Conversation, rules: Option<&SecretRules>) -> String {
    let mask = rules.map(|rules| |text: &str| rules.mask_text(text));
    let mask = mask.as_ref().map(|mask| mask as &dyn Fn(&str) -> String);
    if let Ok(message) = MessageEntry::parse(line, mask) {
        return message_text(&message, conversation);
    }
    let line = mask.map_or_else(|| line.to_owned(), |mask| mask(line));
    format!("[not a message] {}\n", cleaned(&line, usize::MAX))
}

const RESULT_LINES: usize = 5;
const LINE_CHARS: usize = 200;
const FAINT: Style = Style::new().dimmed();
const USER: Style = AnsiColor::Cyan.on_default().bold();

fn message_text(entry: &MessageEntry, conversation: &Conversation) -> String {
    let mut text = heading(entry);
    if entry.role == "tool" {
        write_result(entry, conversation, &mut text);
    } else {
        for line in entry.said().lines() {
            let _ = writeln!(text, "  {}", cleaned(line, usize::MAX));
        }
    }
    for MessageCall { id, name, arguments } in entry.calls() {
        let (id, name) = (cleaned(&id, LINE_CHARS), cleaned(&name, LINE_CHARS));
        let arguments = cleaned(&arguments, LINE_CHARS);
        let _ = writeln!(text, "  {GOOD}->{GOOD:#} {name}  {FAINT}{id}{FAINT:#}  {arguments}");
    }
    text
}

// Formats the heading: `tool shell/exec  call_1  2026-01-13 15:30:45Z  1.2s`.
fn heading(entry: &MessageEntry) -> String {
    let style = match &*entry.role {
        "user" => USER,
        "assistant" => GOOD.bold(),
        "tool" | "function" => WARN,
        _ => STRONG,
    };
    let duration = entry.duration.map(|millis| match millis {
        ..1000.0 => format!("{millis:.0}ms"),
        _ => format!("{:.1}s", millis / 1000.0),
    });
    let about = [
        cleaned(&entry.tool_name, LINE_CHARS),
        cleaned(&entry.call_id(), LINE_CHARS),
        entry.created_at().as_ref().map(time_text).unwrap_or_default(),
        duration.unwrap_or_default(),
        cleaned(&entry.mode, LINE_CHARS),
    ];
    let about = about.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
    let about = about.join("  ");
    let role = cleaned(&entry.role, LINE_CHARS);
    if about.is_empty() {
        return format!("{style}{role}{style:#}\n");
    }
    format!("{style}{role}{style:#}  {FAINT}{about}{FAINT:#}\n")
}

fn time_text(given: &MessageTime) -> String {
    let (time, text) = match given {
        MessageTime::Millis(millis) => {
            (Timestamp::from_millisecond(*millis).ok(), millis.to_string())
        }
        MessageTime::Text(text) => (text.parse().ok(), cleaned(text, LINE_CHARS)),
    };
    time.map_or(text, |time: Timestamp| time.strftime("%Y-%m-%d %H:%M:%SZ").to_string())
}

fn write_result(entry: &MessageEntry, conversation: &Conversation, text: &mut String) {
    let whole = entry.said();
    let mut shown = whole.clone();
    if let Some((path, bytes)) = entry.artifact(conversation) {
        let path = cleaned(&path.to_text(), usize::MAX);
        let _ = writeln!(text, "  {STRONG}{path}{STRONG:#}  {FAINT}{bytes} bytes{FAINT:#}");
        shown = entry.preview();
    }
    let mut lines = shown.lines();
    for line in lines.by_ref().take(RESULT_LINES) {
        let shown = cleaned(line, LINE_CHARS);
        let more = if line.chars().nth(LINE_CHARS).is_some() { "..." } else { "" };
        let _ = writeln!(text, "  {shown}{more}");
    }
    let left = lines.count();
    if shown.len() < whole.len() {
        let _ = writeln!(text, "  {FAINT}...{FAINT:#}");
    } else if left > 0 {
        let plural = if left == 1 { "" } else { "s" };
        let _ = writeln!(text, "  {FAINT}... {left} more line{plural}{FAINT:#}");
    }
}

const BLOCK: usize = 256 * 1024;

fn append_stdin(args: &AppendArgs, cli: &Cli, context: &Context) -> anyhow::Result<()> {
    let settings = context.settings(cli, args.reader.settings())?;
    let root = settings.store(&context.environment)?;
    let id = places::conversation_id(&args.conversation)?;
    let advertised = settings.text(SettingKey::Advertise);
    let shown = places::reader_root(
        advertised,
        || places::mounts_of(&root),
        Some(&id),
        || places::future_root(&context.environment),
    );
    let store = Store::open(&root)?;
    store.create_conversation(&id)?;
    let engine = view::open_engine(store, &shown, Some(&id), settings)?;
    let log = MessageWriter::open(&engine, &id)?;
    let appended = append_lines(&mut io::BufReader::with_capacity(BLOCK, io::stdin().lock()), log);
    engine.finish();
    appended
}

fn append_lines(input: &mut dyn BufRead, mut log: MessageWriter) -> anyhow::Result<()> {
    let mut lines = 0;
    loop {
        let block = input.fill_buf().context("cannot read standard input")?;
        if block.is_empty() {
            return log.finish().map_err(|error| refused(lines + 1, &error));
        }
        let end = memchr::memchr(b'\n', block).map(|end| end + 1);
        let count = end.unwrap_or(block.len());
        log.write(&block[..count]).map_err(|error| refused(lines + 1, &error))?;
        lines += u64::from(end.is_some());
        input.consume(count);
    }
}

fn refused(line: u64, error: &EngineError) -> anyhow::Error {
    anyhow::Error::msg(format!(
        "line {line} of standard input: {error}; the lines before it are in the log"
    ))
}

// Used if `$LESS` is not set. The pager quits if the output fits on one screen, passes colours
// through, and leaves the output on the screen.
const LESS_OPTIONS: &str = "FRX";

// Calls `print` with standard output, or with the user's pager on a terminal unless `directly` is
// set. It is not an error if the reader closes the output early.
fn page(
    environment: &Environment,
    directly: bool,
    print: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let stdout = io::stdout();
    let colours = AutoStream::choice(&stdout);
    let mut pager =
        if directly || !stdout.is_terminal() { None } else { start_pager(environment)? };
    let raw: Box<dyn Write> = match pager.as_mut().and_then(|pager| pager.stdin.take()) {
        Some(pipe) => Box::new(pipe),
        None => Box::new(stdout.lock()),
    };
    let mut out = BufWriter::new(AutoStream::new(raw, colours));
    let printed = print(&mut out).and_then(|()| Ok(out.flush()?));
    // Closes the pipe. Unwritten bytes are dropped, because the reader may have ended early.
    drop(out.into_parts());
    if let Some(mut pager) = pager {
        pager.wait()?;
    }
    match printed {
        Err(error) if is_closed_pipe(&error) => Ok(()),
        printed => printed,
    }
}

fn start_pager(environment: &Environment) -> anyhow::Result<Option<Child>> {
    let mut command = match environment.pager.as_deref() {
        Some(none) if none.is_empty() || none == "cat" => return Ok(None),
        Some(pager) => shell_command(pager),
        None => Command::new("less"),
    };
    if !environment.less {
        command.env(env::LESS, LESS_OPTIONS);
    }
    // The pager handles an interrupt. This process ignores it and ends after the pager.
    signal_hook::flag::register(
        signal_hook::consts::SIGINT,
        Arc::new(std::sync::atomic::AtomicBool::new(false)),
    )?;
    match command.stdin(Stdio::piped()).spawn() {
        Ok(child) => Ok(Some(child)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(anyhow::Error::new(error).context("cannot start the pager")),
    }
}

// The pager is started through a shell, as other programs do, so that it can have arguments.
fn shell_command(pager: &std::ffi::OsStr) -> Command {
    let mut command = Command::new("sh");
    command.arg("-c").arg(pager);
    command
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<io::Error>();
    io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
