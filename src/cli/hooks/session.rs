//! The facts about a session that an event tells: the directory, and the first words of the user,
//! which are in the transcript of the host.

use std::io::{BufRead as _, BufReader, Read as _};
use std::{borrow::Cow, path::Path};

use serde::Deserialize;
use serde_json::Value;

use crate::hooks::event::{EventText, HookError, Spill};
use crate::hooks::host::{Host, Machine};
use crate::hooks::keeper::Shelf;
use ctxfs_core::model::visible;
use ctxfs_store::About;

// Maximum number of bytes of a transcript that are searched for the first prompt.
const MAX_BYTES: u64 = 256 << 10;
// Maximum number of characters of a prompt that are kept.
const PROMPT: usize = 200;
// Beginnings of texts that hosts add in the name of the user.
const ADDED: [&str; 3] = ["<", "# AGENTS.md", "Caveat: "];

#[derive(Deserialize)]
struct SessionEvent<'a> {
    #[serde(borrow, alias = "sessionId", alias = "conv")]
    session_id: Cow<'a, str>,
    #[serde(borrow)]
    transcript_path: Option<EventText<'a>>,
}

#[derive(Deserialize)]
struct DirectoryOfEvent<'a> {
    #[serde(borrow)]
    cwd: Option<EventText<'a>>,
}

/// Returns the working directory of the session, or else that of the hook.
pub(crate) fn directory(event: &[u8], machine: &Machine) -> Option<String> {
    let told = serde_json::from_slice(event).ok().and_then(|of: DirectoryOfEvent<'_>| of.cwd);
    let own = || Some(machine.directory.as_ref()?.display().to_string());
    told.map(|cwd| cwd.0.into_owned()).or_else(own)
}

/// Adds what the event tells of its session to the conversation, if there is one. A session of which
/// nothing is stored gets no conversation.
pub(crate) fn note(
    host: Host,
    event: &[u8],
    directory: Option<String>,
    shelf: &dyn Shelf,
) -> Result<(), HookError> {
    let session: SessionEvent<'_> = serde_json::from_slice(event)?;
    let Some(known) = shelf.about(&session.session_id) else { return Ok(()) };
    let transcript = session.transcript_path.filter(|_| known.prompt.is_none());
    let prompt = transcript.and_then(|path| first_prompt(Path::new(&*path.0)));
    if known.host.is_some() && known.directory.is_some() && prompt.is_none() {
        return Ok(());
    }
    let Some(open) = shelf.find(&session.session_id)? else { return Ok(()) };
    let about = About { directory, host: Some(host.name().to_owned()), prompt };
    Ok(ctxfs_engine::add_about(&open.engine, &open.conversation, about)
        .map_err(ctxfs_engine::EngineError::from)?)
}

// Returns the first words of the user in a transcript, which has a JSON object on each line.
fn first_prompt(transcript: &Path) -> Option<String> {
    let lines = BufReader::new(Spill::open(transcript).ok()?.file.take(MAX_BYTES)).split(b'\n');
    let prompt = lines.map_while(Result::ok).find_map(|line| prompt_in(&line))?;
    Some(prompt.chars().take(PROMPT).collect())
}

// Claude Code has a message in `message`, Codex in `payload`; that of Gemini CLI is the line.
fn prompt_in(line: &[u8]) -> Option<String> {
    let line: Value = serde_json::from_slice(line).ok()?;
    let inner = ["message", "payload"].map(|name| &line[name]);
    let message = inner.into_iter().find(|inner| inner.is_object()).unwrap_or(&line);
    let is_user = message["role"] == "user" || message["type"] == "user";
    if !is_user || line["isMeta"] == true {
        return None;
    }
    let content = &message["content"];
    let blocks = content.as_array().into_iter().flatten().map(|block| &block["text"]);
    let mut texts = [content].into_iter().chain(blocks).filter_map(Value::as_str);
    let is_own =
        |text: &&str| !text.is_empty() && !ADDED.iter().any(|added| text.starts_with(added));
    texts.find_map(|text| Some(text.trim()).filter(is_own)).map(visible::one_line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_prompt_is_what_the_user_wrote() {
        let cases = [
            (
                r#"{"type":"user","message":{"role":"user","content":" fix\n\nit "}}"#,
                Some("fix it"),
            ),
            (
                r#"{"type":"user","message":{"role":"user","content":[{"type":"text","text":"fix it"}]}}"#,
                Some("fix it"),
            ),
            (
                r#"{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>"},{"type":"input_text","text":"fix it"}]}}"#,
                Some("fix it"),
            ),
            (r#"{"id":"1","type":"user","content":[{"text":"fix it"}]}"#, Some("fix it")),
            (r#"{"type":"user","isMeta":true,"message":{"role":"user","content":"x"}}"#, None),
            (
                r#"{"type":"user","message":{"content":"<command-name>/clear</command-name>"}}"#,
                None,
            ),
            (
                r#"{"type":"user","message":{"role":"user","content":[{"type":"tool_result","content":"x"}]}}"#,
                None,
            ),
            (r#"{"type":"assistant","message":{"role":"assistant","content":"x"}}"#, None),
            (r##"{"payload":{"role":"user","content":"# AGENTS.md instructions for /p"}}"##, None),
            (r#"{"type":"summary","summary":"x"}"#, None),
            ("7", None),
            ("{", None),
        ];
        for (line, want) in cases {
            assert_eq!(prompt_in(line.as_bytes()).as_deref(), want, "{line}");
        }
    }

    #[test]
    fn a_transcript_is_read_to_a_limit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.jsonl");
        let line = "{\"type\":\"user\",\"content\":\"fix it\"}\n";
        std::fs::write(&path, format!("{{\"type\":\"mode\"}}\n{line}")).unwrap();
        assert_eq!(first_prompt(&path).as_deref(), Some("fix it"));
        std::fs::write(&path, "x".repeat(MAX_BYTES as usize) + "\n" + line).unwrap();
        assert_eq!(first_prompt(&path), None);
        let long = format!("{{\"type\":\"user\",\"content\":\"{}\"}}\n", "\u{e9}".repeat(300));
        std::fs::write(&path, long).unwrap();
        assert_eq!(first_prompt(&path), Some("\u{e9}".repeat(200)));
        assert_eq!(first_prompt(dir.path()), None);
        assert_eq!(first_prompt(Path::new("/dev/zero")), None);
    }
}
