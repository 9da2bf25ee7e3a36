//! The servers of the gateway. They come from a file in the format of MCP clients, or from the
//! command after `--`. Also lists their tools for `ctxfs mcp list`.

use std::{ffi::OsString, fmt::Write as _, fs, path::Path, sync::Arc};

use anyhow::Context as _;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::args::McpListArgs;
use crate::mcp::with_logins;
use crate::output::Printer;
use crate::{Cli, Context, Failure, FailureKind, SettingKey, Settings, env, logging, places};
use ctxfs_core::model::visible::{self, IN_LISTS};
use ctxfs_core::model::{Component, Limits, LimitsByTool as _};
use ctxfs_engine::{Engine, EngineOptions};
use ctxfs_mcp::config::{Flaw, Secret, Server, Servers, Severity, ToolFilter, Transport};
use ctxfs_mcp::{
    GatewayConversation, GatewayOptions, IndexOptions, Offer, OfferMode, RemoteServer,
    ServerCommand, ServerOptions, ServerPlace, Shelf, Survey, SurveyedOffer, SurveyedServer,
    SurveyedTool, tool_name::Naming,
};
use ctxfs_view::Form;

/// The usable servers of a file, and the flaws of the file: servers that cannot be used, and
/// unknown keys.
pub(crate) struct FileServers {
    pub(crate) servers: Vec<ServerOptions>,
    pub(crate) flaws: Vec<Flaw>,
}

/// Reads the servers of a file. Prints flaws, and fails if they leave no usable server.
pub(crate) fn servers_of_file(path: &Path, printer: &mut Printer) -> anyhow::Result<FileServers> {
    let file = read_servers(path)?;
    for flaw in &file.flaws {
        printer.message(flaw);
    }
    if file.servers.is_empty() && file.flaws.iter().any(is_error) {
        let text = format!("no server of `{}` can be used", path.display());
        return Err(Failure::usage(text, "mend what is said above").into());
    }
    Ok(file)
}

// Returns true for a flaw that makes a server unusable.
pub(crate) fn is_error(flaw: &Flaw) -> bool {
    flaw.severity == Severity::Error
}

pub(crate) fn read_servers(path: &Path) -> Result<FileServers, Failure> {
    let text = fs::read_to_string(path).map_err(|error| {
        let text = format!("cannot read the servers in `{}`: {error}", path.display());
        Failure::usage(text, "give a file like `{\"mcpServers\": {\"NAME\": {\"command\": ...}}}`")
    })?;
    let variable = |name: &str| std::env::var(name).ok();
    let Servers { servers, flaws } = Servers::parse(&path.to_string_lossy(), &text, &variable);
    Ok(FileServers { servers: servers.into_iter().map(server_options).collect(), flaws })
}

fn server_options(server: Server) -> ServerOptions {
    let naming = Naming::with_prefix(server.prefix());
    let offer = Offer { naming, tools: server.tools, trust: server.trust };
    let (place, timeout, shared) =
        (server_place(server.transport), Some(server.timeout), server.shared);
    ServerOptions { name: server.name, place, timeout, offer, shared }
}

fn server_place(transport: Transport) -> ServerPlace {
    match transport {
        Transport::Stdio { command, args, env, cwd } => {
            let given = env.iter().map(|(name, value)| (name.into(), value.reveal().into()));
            ServerPlace::Command(ServerCommand {
                program: command.into(),
                arguments: args.iter().map(Secret::reveal).map(OsString::from).collect(),
                environment: env::of_listed_servers().into_iter().chain(given).collect(),
                directory: cwd.map(Into::into),
            })
        }
        Transport::Http { url, headers, client } => {
            let headers = headers.iter();
            let headers = headers.map(|(name, value)| (name.clone(), value.reveal().to_owned()));
            let (url, headers) = (url.reveal().to_owned(), headers.collect());
            ServerPlace::Remote(RemoteServer { url, headers, client, login: None })
        }
    }
}

/// Returns the server for `command`, which is a command line or a URL. Returns `None` if `command`
/// is empty. `timeout` is in seconds, and 0 means no limit.
pub(crate) fn server_behind(
    command: &[OsString],
    name: Option<&str>,
    timeout: u64,
) -> Result<Option<ServerOptions>, Failure> {
    let Some((program, arguments)) = command.split_first() else { return Ok(None) };
    let text = program.to_string_lossy();
    let is_url = text.starts_with("http://") || text.starts_with("https://");
    if is_url && !arguments.is_empty() {
        let hint = "give the URL alone, or the command of a server";
        return Err(Failure::usage("a server over HTTP has no arguments", hint));
    }
    let name = match name {
        Some(name) => name.to_owned(),
        None if is_url => name_of_url(&text),
        None => name_of_command(command),
    };
    let place = if is_url {
        ServerPlace::Remote(RemoteServer { url: text.into_owned(), ..RemoteServer::default() })
    } else {
        ServerPlace::Command(ServerCommand {
            program: program.clone(),
            arguments: arguments.to_vec(),
            environment: env::of_servers(),
            directory: None,
        })
    };
    let timeout = (timeout > 0).then(|| std::time::Duration::from_secs(timeout));
    let offer = Offer { naming: Naming::AsIs, tools: ToolFilter::default(), trust: false };
    Ok(Some(ServerOptions { name, place, timeout, offer, shared: false }))
}

const RUNNERS: [&str; 11] =
    ["npx", "bunx", "pnpx", "uvx", "pipx", "node", "bun", "deno", "python", "python3", "uv"];
// Arguments of runner programs that are not the name of a program.
const WORDS: [&str; 6] = ["run", "exec", "dlx", "tool", "-m", "--"];

// Returns the name of a server. For runners such as `npx`, this is the name of the program that
// they run.
fn name_of_command(command: &[OsString]) -> String {
    let mut words = command.iter().map(|word| word.to_string_lossy());
    let program = last_part(&words.next().unwrap_or_default());
    if !RUNNERS.contains(&&*program) {
        return program;
    }
    let named = words.find(|word| !word.starts_with('-') && !WORDS.contains(&&**word));
    named.map_or(program, |named| last_part(&named))
}

fn name_of_url(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    host.rsplit_once(':')
        .filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()))
        .map_or(host, |(host, _)| host)
        .to_owned()
}

fn last_part(name: &str) -> String {
    let name = name.rsplit('/').find(|part| !part.is_empty()).unwrap_or(name);
    let name = name.split_once('@').map_or(name, |(before, _)| before);
    let stem = Path::new(name).extension().filter(|extension| {
        ["js", "mjs", "cjs", "ts", "py"].iter().any(|known| *extension == *known)
    });
    let stem = stem.and_then(|_| Path::new(name).file_stem());
    stem.map_or_else(|| name.to_owned(), |stem| stem.to_string_lossy().into_owned())
}

/// Returns the options of a gateway. If the gateway is killed, a helper process ends its servers.
pub(crate) fn gateway_options(
    servers: Vec<ServerOptions>,
    offer: OfferMode,
    context_tools: bool,
    settings: &Settings,
) -> GatewayOptions {
    GatewayOptions {
        servers,
        offer,
        context_tools,
        references: settings.is_on(SettingKey::References),
        max_binary: settings.number(SettingKey::MaxBinary).unwrap_or(u64::MAX),
        keeps_structure: settings.text(SettingKey::Structured) != Some("offload"),
        max_result: settings.number(SettingKey::MaxResult).unwrap_or(u64::MAX),
        guard_command: crate::helper::Role::EndServers.words().into(),
    }
}

pub(crate) fn index_offer(settings: &Settings) -> OfferMode {
    let batch_budget = settings.number(SettingKey::BatchBudget).unwrap_or(u64::MAX);
    OfferMode::Index(Box::new(IndexOptions {
        risks: settings.calls.risks(&settings.floor),
        rules: settings.calls.permissions(&settings.floor),
        batch_budget: usize::try_from(batch_budget).unwrap_or(usize::MAX),
    }))
}

pub(crate) fn list(
    args: &McpListArgs,
    settings: &Arc<Settings>,
    cli: &Cli,
    context: &mut Context,
) -> anyhow::Result<()> {
    if cli.log.is_some() {
        logging::start(settings.text(SettingKey::Log).unwrap_or_default(), false)?;
    }
    let (servers, flaws) = named(args, context)?;
    let survey = survey(servers, settings)?;
    context.printer.report(|| survey_text(&survey), || survey_json(&survey, &flaws))?;
    let left_out = flaws.iter().filter(|flaw| is_error(flaw)).count();
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

fn named(
    args: &McpListArgs,
    context: &mut Context,
) -> anyhow::Result<(Vec<ServerOptions>, Vec<Flaw>)> {
    if let Some(path) = &args.servers {
        let file = servers_of_file(path, &mut context.printer)?;
        let servers = with_logins(file.servers, Some(path), &context.environment);
        return Ok((servers, file.flaws));
    }
    let server = server_behind(&args.command, args.name.as_deref(), args.timeout)?;
    let servers = with_logins(server.into_iter().collect(), None, &context.environment);
    Ok((servers, Vec::new()))
}

fn survey_json(survey: &Survey, flaws: &[Flaw]) -> Value {
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

// Negative if the schemas are shorter than the index.
fn saved(survey: &Survey) -> i64 {
    let signed = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
    signed(survey.schema_tokens).saturating_sub(signed(survey.index_tokens))
}

fn survey_text(survey: &Survey) -> String {
    let mut text =
        table_line(["tools", "prompts", "resources", "templates", "schemas", "index"], "server");
    for server in &survey.servers {
        let name = visible::escaped(&server.name, IN_LISTS);
        match &server.offer {
            Some(offer) => text += &table_line(counts(offer), &name),
            None => text += &table_line(["-"; 6], &name),
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

fn table_line<T: std::fmt::Display>(columns: [T; 6], name: &str) -> String {
    let [tools, prompts, resources, templates, schemas, index] = columns;
    format!(
        "{tools:>8} {prompts:>8} {resources:>9} {templates:>9} {schemas:>9} {index:>9}  {name}\n"
    )
}

/// Starts servers, lists what they offer, and ends them. Stores nothing.
pub(crate) fn survey(
    mut servers: Vec<ServerOptions>,
    settings: &Arc<Settings>,
) -> anyhow::Result<Survey> {
    for server in &mut servers {
        server.shared = false;
    }
    let options = gateway_options(servers, index_offer(settings), true, settings);
    let id = places::conversation_id("survey")?;
    let shelf = TemporaryShelf { settings: Arc::clone(settings), id, dir: Mutex::new(None) };
    ctxfs_mcp::survey(options, Arc::new(shelf)).context("cannot ask the servers")
}

// A temporary store for messages that are too long for memory. It is created for the first such
// message, and removed at the end.
struct TemporaryShelf {
    settings: Arc<Settings>,
    id: Component,
    dir: Mutex<Option<tempfile::TempDir>>,
}

impl TemporaryShelf {
    fn try_open(&self) -> anyhow::Result<GatewayConversation> {
        let dir = tempfile::Builder::new().prefix("ctxfs-survey-").tempdir()?;
        let engine = Engine::new(ctxfs_store::Store::open(dir.path())?, EngineOptions::default());
        *self.dir.lock() = Some(dir);
        let conversation = engine.store().create_conversation(&self.id)?;
        Ok(GatewayConversation { engine, conversation, mounted: false, form: Form::Summary })
    }
}

impl Shelf for TemporaryShelf {
    fn limits(&self, tool: &str) -> Limits {
        self.settings.limits(Some(tool))
    }

    fn conversation(&self) -> &Component {
        &self.id
    }

    fn answers_questions(&self) -> bool {
        self.settings.models.has_target()
    }

    fn open(&self) -> Result<GatewayConversation, String> {
        self.try_open().map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_host_of_a_url() {
        for (url, name) in [
            ("https://mcp.example.com/mcp", "mcp.example.com"),
            ("http://127.0.0.1:8080/mcp?x=a:b", "127.0.0.1"),
            ("http://[::1]:80", "[::1]"),
            ("https://user:secret@example.com:1/x@y", "example.com"),
        ] {
            assert_eq!(name_of_url(url), name, "{url}");
        }
    }

    #[test]
    fn it_is_the_last_part() {
        for (command, name) in [
            ("/usr/bin/github-mcp-server stdio", "github-mcp-server"),
            ("npx -y @modelcontextprotocol/server-everything@2026.1.1", "server-everything"),
            ("uvx mcp-server-git --repository /x", "mcp-server-git"),
            ("python3 -m mcp_server_time", "mcp_server_time"),
            ("node /srv/build/index.js /data", "index"),
            ("npx", "npx"),
            ("./server.py", "server"),
            ("docker run -i mcp/fetch", "docker"),
        ] {
            let words: Vec<OsString> = command.split(' ').map(OsString::from).collect();
            assert_eq!(name_of_command(&words), name, "{command}");
        }
    }
}
