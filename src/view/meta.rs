//! `.meta.json`: the record of an artifact.

use std::io::Write;

use serde::Serialize;

use crate::{RenderError, Rendered};
use ctxfs_core::model::{Analysis, Subject};
use ctxfs_core::redact::MaskCounts;

/// The fields of the record in output order. `size` is in bytes. `created` is in milliseconds since
/// the epoch.
#[derive(Serialize)]
struct Meta<'a> {
    reference: String,
    file: String,
    path: &'a str,
    generation: u64,
    size: u64,
    created: i64,
    call: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    directory: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uri: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
    mime: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    incomplete: Option<&'a str>,
    #[serde(skip_serializing_if = "MaskCounts::is_empty")]
    redacted: MaskCounts,
    // The analysis of the first `bytes` bytes of the artifact.
    analysis: &'a Analysis,
}

pub(super) fn render(subject: &Subject<'_>, out: &mut dyn Write) -> Result<Rendered, RenderError> {
    let provenance = &subject.record.provenance;
    let analysis = Analysis { shortcuts: None, ..subject.analysis.clone() };
    let mut meta = Meta {
        reference: subject.place.reference(),
        file: subject.place.address(),
        path: subject.place.path(),
        generation: subject.record.generation,
        size: subject.size(),
        created: subject.record.created,
        call: subject.record.call(),
        agent: provenance.agent.as_deref(),
        agent_type: provenance.agent_type.as_deref(),
        tool: provenance.tool.as_deref(),
        server: provenance.server.as_deref(),
        args: provenance.args.as_deref(),
        directory: provenance.directory.as_deref(),
        uri: provenance.uri.as_deref(),
        exit_code: provenance.exit_code,
        duration_ms: provenance.duration_ms,
        mime: provenance.mime.as_deref().unwrap_or(&subject.analysis.mime),
        incomplete: subject.record.incomplete(),
        redacted: MaskCounts::default(),
        analysis: &analysis,
    };
    if subject.redacts.is_some() {
        let text = serde_json::to_string(&meta).map_err(std::io::Error::from)?;
        meta.redacted = MaskCounts::of(&text, subject.mask_names());
    }
    serde_json::to_writer_pretty(&mut *out, &meta).map_err(std::io::Error::from)?;
    out.write_all(b"\n")?;
    let whole = subject.analysis.bytes == subject.content.len();
    Ok(Rendered { notice: None, whole })
}

#[cfg(test)]
mod tests {
    use crate::View;
    use crate::fixture::Fixture;
    use ctxfs_core::model::{ArtifactState, Provenance};

    #[test]
    fn fields_keep_their_order() {
        let mut fixture = Fixture::new("a\n").provenance(Provenance {
            agent: Some("a1b2".to_owned()),
            agent_type: Some("Explore".to_owned()),
            tool: Some("exec".to_owned()),
            server: Some("shell".to_owned()),
            args: Some("{\"cmd\": \"ls\"}".to_owned()),
            exit_code: Some(1),
            ..Provenance::default()
        });
        fixture.record.state = ArtifactState::Incomplete("the daemon died".to_owned());
        let want = r#"{
  "reference": "ctx://c7/artifacts/tool/9f3k.txt",
  "file": "/ctx/c7/artifacts/tool/9f3k.txt",
  "path": "artifacts/tool/9f3k.txt",
  "generation": 1,
  "size": 2,
  "created": 1763755200000,
  "call": "9f3k",
  "agent": "a1b2",
  "agent_type": "Explore",
  "tool": "exec",
  "server": "shell",
  "args": "{\"cmd\": \"ls\"}",
  "exit_code": 1,
  "mime": "text/plain",
  "incomplete": "the daemon died",
  "analysis": {
    "bytes": 2,
"#;
        let text = fixture.text(&View::Meta);
        assert!(text.starts_with(want), "{text}");
        assert!(text.ends_with("\n  }\n}\n"));
    }
}
