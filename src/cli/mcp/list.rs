//! `ctxfs mcp list`: what servers offer, and what that weighs in the context of a model.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::args::{Cli, McpListArgs};
use crate::context::Context;
use crate::logging;
use crate::mcp::survey::survey;
use crate::mcp::{behind, servers};
use crate::outcome::{Failure, FailureKind};
use crate::settings::{Key, Settings};
use ctxfs_core::model::visible;
use ctxfs_core::model::visible::IN_LISTS;
use ctxfs_mcp::config::Flaw;
use ctxfs_mcp::{ServerOptions, Survey, SurveyedOffer, SurveyedServer, SurveyedTool};

pub(super) fn run(
    args: &McpListArgs,
    settings: &Arc<Settings>,
    cli: &Cli,
    context: &mut Context,
) -> anyhow::Result<()> {
    if cli.log.is_some() {
        // What the servers write is shown to whoever asks for it.
        logging::start(settings.text(Key::Log).unwrap_or_default(), false)?;
    }
    let (servers, flaws) = named(args, context)?;
    let survey = survey(servers, settings)?;
    let text = if cli.json { json(&survey, &flaws).to_string() + "\n" } else { text(&survey) };
    context.printer.data(&text)?;
    let left_out = flaws.iter().filter(|flaw| servers::is_error(flaw)).count();
    let failing = survey.servers.iter().filter(|server| !server.flaws.is_empty()).count();
    if left_out + failing == 0 {
        return Ok(());
    }
    let text = match left_out + failing {
        1 => "a server cannot be used, or not all of it".to_owned(),
        several => format!("{several} servers cannot be used, or not all of them"),
    };
    let hint = "with `--log info` before `mcp`, what they write is shown";
    Err(Failure::new(FailureKind::Failed, text, hint).into())
}

/// Returns the servers that are named, and what is wrong with others.
fn named(
    args: &McpListArgs,
    context: &mut Context,
) -> anyhow::Result<(Vec<ServerOptions>, Vec<Flaw>)> {
    if let Some(path) = &args.servers {
        let file = servers::of_file(path, &mut context.printer)?;
        return Ok((file.servers, file.flaws));
    }
    let server = behind::server(&args.command, args.name.as_deref(), args.timeout)?;
    Ok((server.into_iter().collect(), Vec::new()))
}

fn json(survey: &Survey, flaws: &[Flaw]) -> Value {
    let flaws: Vec<String> = flaws.iter().map(ToString::to_string).collect();
    json!({
        "servers": survey.servers.iter().map(server_json).collect::<Vec<_>>(),
        "flaws": flaws,
        "schemaTokens": survey.schema_tokens,
        "indexTokens": survey.index_tokens,
        "savedTokens": saved(survey),
    })
}

fn server_json(server: &SurveyedServer) -> Value {
    let mut value = json!({"server": server.name, "flaws": server.flaws});
    let Some(offer) = &server.offer else { return value };
    let tool = |tool: &SurveyedTool| json!({"name": tool.name, "tool": tool.tool, "risk": tool.risk.as_str()});
    value["tools"] = offer.tools.iter().map(tool).collect();
    value["prompts"] = offer.prompts.into();
    value["resources"] = offer.resources.into();
    value["templates"] = offer.templates.into();
    value["schemaTokens"] = offer.schema_tokens.into();
    value["indexTokens"] = offer.index_tokens.into();
    value
}

/// Returns the tokens that a model is spared by the index; negative where schemas are shorter.
fn saved(survey: &Survey) -> i64 {
    let signed = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
    signed(survey.schema_tokens).saturating_sub(signed(survey.index_tokens))
}

fn text(survey: &Survey) -> String {
    let mut text =
        line(["tools", "prompts", "resources", "templates", "schemas", "index"], "server");
    for server in &survey.servers {
        let name = visible::escaped(&server.name, IN_LISTS);
        match &server.offer {
            Some(offer) => text += &line(counts(offer), &name),
            None => text += &line(["-"; 6], &name),
        }
        for flaw in &server.flaws {
            let _ = writeln!(text, "{:59}it {}", "", visible::escaped(flaw, IN_LISTS));
        }
    }
    text += &tools(survey);
    let Survey { schema_tokens, index_tokens, .. } = survey;
    if *schema_tokens > 0 {
        let saved = saved(survey);
        let _ = writeln!(
            text,
            "\n{schema_tokens} tokens as schemas, {index_tokens} behind the index: {saved} saved"
        );
    }
    text
}

/// Returns a line for each tool, as rules and limits name it.
fn tools(survey: &Survey) -> String {
    let mut text = String::new();
    for SurveyedServer { name, offer, .. } in &survey.servers {
        for SurveyedTool { tool, risk, .. } in offer.iter().flat_map(|offer| &offer.tools) {
            let heading = if text.is_empty() { "\nrisk     tool\n" } else { "" };
            let named = visible::escaped(&format!("{name}/{tool}"), IN_LISTS);
            let _ = writeln!(text, "{heading}{:8} {named}", risk.as_str());
        }
    }
    text
}

fn counts(offer: &SurveyedOffer) -> [String; 6] {
    let SurveyedOffer { tools, prompts, resources, templates, schema_tokens, index_tokens } = offer;
    let counts = [tools.len(), *prompts, *resources, *templates].map(|count| count.to_string());
    let [tools, prompts, resources, templates] = counts;
    [tools, prompts, resources, templates, schema_tokens.to_string(), index_tokens.to_string()]
}

fn line<T: std::fmt::Display>(columns: [T; 6], name: &str) -> String {
    let [tools, prompts, resources, templates, schemas, index] = columns;
    format!(
        "{tools:>8} {prompts:>8} {resources:>9} {templates:>9} {schemas:>9} {index:>9}  {name}\n"
    )
}
