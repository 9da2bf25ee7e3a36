//! The reports of Claude Code's sub-agents, each an artifact that is named after its agent.
//!
//! The host calls a hook when an agent has reported. Of an agent that was stopped or failed, only a
//! message to the parent tells, and the host does not call a hook for an agent that ended with the
//! session. In these cases, the artifact has what the agent wrote before, from its transcript.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::hooks::event::{HookError, SubAgent, ToolOutput, ToolResult};
use crate::hooks::{keeper::OutputKeeper, transcript};

const TOOL: &str = "Agent";
const UNFINISHED: &str = "the agent ended before it reported";
const NOTIFICATION: &str = "<task-notification>";
const RESULT: &str = "<result>";
// Maximum number of unfinished agents of a session that are looked at.
const AGENTS: usize = 32;

/// The facts that the host stores about an agent, beside its transcript.
#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct AgentFacts {
    #[serde(rename(deserialize = "agentType", serialize = "subagent_type"))]
    kind: Option<String>,
    description: Option<String>,
    #[serde(skip_serializing)]
    finished: bool,
}

impl AgentFacts {
    fn of(transcript: &Path) -> Self {
        let facts = fs::read(transcript.with_extension("meta.json")).unwrap_or_default();
        serde_json::from_slice(&facts).unwrap_or_default()
    }
}

/// Returns the id under which the report of an agent is stored.
pub(crate) fn call(agent: &str) -> Cow<'static, str> {
    Cow::Owned(format!("agent-{agent}"))
}

/// Stores the report of an agent, or without one what the agent wrote. Returns the path of the
/// artifact, and `None` if the agent wrote nothing.
pub(crate) fn store(
    session: &str,
    agent: &str,
    transcript: &Path,
    report: Option<&str>,
    keeper: &OutputKeeper<'_>,
) -> Result<Option<String>, HookError> {
    let facts = AgentFacts::of(transcript);
    let (text, incomplete) = match report.filter(|report| !report.is_empty()) {
        Some(report) => (Cow::Borrowed(report), None),
        None => (Cow::Owned(transcript::written(transcript)?), Some(UNFINISHED)),
    };
    if text.is_empty() {
        return Ok(None);
    }
    let args = serde_json::value::to_raw_value(&facts)?;
    let output = ToolOutput::Text(text);
    let result = ToolResult::new(session, call(agent), (TOOL, Some(&args)), output);
    let agent = SubAgent { id: agent, kind: facts.kind.as_deref() };
    keeper.store(ToolResult { agent: Some(agent), ..result }, incomplete).map(Some)
}

/// Returns the id of the agent that `prompt`, a message of the host, reports as stopped or failed.
pub(crate) fn unreported(prompt: &str) -> Option<&str> {
    let head = prompt.strip_prefix(NOTIFICATION)?;
    let head = head.split_once(RESULT).map_or(head, |(head, _)| head);
    let member = |name: &str| {
        let (_, rest) = head.split_once(&format!("<{name}>"))?;
        Some(rest.split_once(&format!("</{name}>"))?.0)
    };
    let is_id = |id: &&str| id.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    matches!(member("status")?, "killed" | "failed")
        .then(|| member("task-id"))
        .flatten()
        .filter(is_id)
}

/// Returns the transcript of an agent in the session with the transcript `main`.
pub(crate) fn transcript_of(main: &Path, agent: &str) -> PathBuf {
    main.with_extension("").join("subagents").join(format!("agent-{agent}.jsonl"))
}

/// Stores what the agents wrote that ended with their session. The session goes on, so none of them
/// runs.
pub(crate) fn store_unfinished(
    session: &str,
    main: &Path,
    keeper: &OutputKeeper<'_>,
) -> Result<(), HookError> {
    let entries = fs::read_dir(main.with_extension("").join("subagents"));
    let paths = entries.into_iter().flatten().flatten().map(|entry| entry.path());
    for path in paths.filter(|path| path.extension().is_some_and(|end| end == "jsonl")).take(AGENTS)
    {
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let Some(agent) = stem.and_then(|stem| stem.strip_prefix("agent-")) else { continue };
        if !AgentFacts::of(&path).finished && !keeper.is_stored(session, &call(agent))? {
            store(session, agent, &path, None, keeper)?;
        }
    }
    Ok(())
}
