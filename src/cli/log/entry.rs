//! One message, formatted for a person.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use jiff::Timestamp;

use crate::output::{GOOD, STRONG, WARN};
use ctxfs_store::Conversation;
use ctxfs_store::message::{MessageCall, MessageEntry, MessageTime};
use ctxfs_view::cleaned;

/// Lines of a tool's result that are shown.
const RESULT_LINES: usize = 5;
/// Characters that are shown of such a line, and of the arguments of a call.
const LINE_CHARS: usize = 200;
/// The style of secondary text.
const FAINT: Style = Style::new().dimmed();
/// The style of the user's role.
const USER: Style = AnsiColor::Cyan.on_default().bold();

/// Formats a message: a heading, and the content below it.
pub(super) fn text(entry: &MessageEntry, conversation: &Conversation) -> String {
    let role = entry.role();
    let mut text = heading(entry, &role);
    if role == "tool" {
        result(entry, conversation, &mut text);
    } else {
        for line in entry.said().lines() {
            let _ = writeln!(text, "  {}", cleaned(line, usize::MAX));
        }
    }
    for MessageCall { id, name, arguments } in entry.calls() {
        let (id, name) = (word(&id), word(&name));
        let arguments = cleaned(&arguments, LINE_CHARS);
        let _ = writeln!(text, "  {GOOD}->{GOOD:#} {name}  {FAINT}{id}{FAINT:#}  {arguments}");
    }
    text
}

/// Formats the heading: `tool shell/exec  call_1  2026-01-13 15:30:45Z  1.2s`.
fn heading(entry: &MessageEntry, role: &str) -> String {
    let style = match role {
        "user" => USER,
        "assistant" => GOOD.bold(),
        "tool" | "function" => WARN,
        _ => STRONG,
    };
    let duration = entry.duration().map(|millis| match millis {
        ..1000.0 => format!("{millis:.0}ms"),
        _ => format!("{:.1}s", millis / 1000.0),
    });
    let about = [
        word(&entry.tool_name()),
        word(&entry.call_id()),
        entry.created_at().as_ref().map(time).unwrap_or_default(),
        duration.unwrap_or_default(),
        word(&entry.mode()),
    ];
    let about = about.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
    let about = about.join("  ");
    let role = word(role);
    if about.is_empty() {
        return format!("{style}{role}{style:#}\n");
    }
    format!("{style}{role}{style:#}  {FAINT}{about}{FAINT:#}\n")
}

fn time(given: &MessageTime) -> String {
    let (time, text) = match given {
        MessageTime::Millis(millis) => {
            (Timestamp::from_millisecond(*millis).ok(), millis.to_string())
        }
        MessageTime::Text(text) => (text.parse().ok(), word(text)),
    };
    time.map_or(text, |time: Timestamp| time.strftime("%Y-%m-%d %H:%M:%SZ").to_string())
}

/// Appends the name of the artifact and the first lines of a result.
fn result(entry: &MessageEntry, conversation: &Conversation, text: &mut String) {
    let said = entry.said();
    let mut shown = said.clone();
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
    if shown.len() < said.len() {
        let _ = writeln!(text, "  {FAINT}...{FAINT:#}");
    } else if left > 0 {
        let plural = if left == 1 { "" } else { "s" };
        let _ = writeln!(text, "  {FAINT}... {left} more line{plural}{FAINT:#}");
    }
}

/// Returns a short text in one line.
fn word(text: &str) -> String {
    cleaned(text, LINE_CHARS)
}
