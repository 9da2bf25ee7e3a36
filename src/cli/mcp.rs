//! `ctxfs mcp`: the gateway at standard input and output.

mod server_name;
mod servers;

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use uuid::Uuid;

use crate::cli::args::Cli;
use crate::cli::args::McpAction;
use crate::cli::args::McpArgs;
use crate::cli::args::ToolOffer;
use crate::cli::context::Context;
use crate::cli::engine;
use crate::cli::env;
use crate::cli::env::Environment;
use crate::cli::logging;
use crate::cli::outcome::Failure;
use crate::cli::places;
use crate::cli::settings::Key;
use crate::cli::settings::Settings;
use crate::engine::Engine;
use crate::mcp;
use crate::mcp::GatewayOptions;
use crate::mcp::IndexOptions;
use crate::mcp::Offer;
use crate::mcp::OfferMode;
use crate::mcp::OpenShelf;
use crate::mcp::ServerCommand;
use crate::mcp::ServerOptions;
use crate::mcp::Shelf;
use crate::mcp::config::ToolFilter;
use crate::mcp::permission;
use crate::mcp::permission::Risk;
use crate::mcp::permission::Verdict;
use crate::mcp::tool_name::Naming;
use crate::model::Component;
use crate::model::Limits;
use crate::model::LimitsByTool as _;
use crate::model::Root;
use crate::store::Store;

/// The most bytes of the reply to a batch.
const BATCH_BUDGET: usize = 16 << 10;
/// The most bytes of one message of a server.
const MAX_RESULT: u64 = 1 << 30;

pub(super) fn run(args: &McpArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    let settings = Arc::new(context.settings(cli, args.settings())?);
    if let Some(action) = &args.action {
        return rule(action, &settings, context);
    }
    logging::start(settings.text(Key::Log).unwrap_or("info"), false)?;
    let store = settings.store(&context.environment)?;
    let id = conversation(args, context)?;
    let environment = context.environment.clone();
    let (servers, offer) = (servers(args, context)?, offer(args, &settings));
    let shelf = UserShelf { settings, store, id, environment };
    let options = GatewayOptions {
        servers,
        offer,
        context_tools: !args.no_context_tools,
        max_result: MAX_RESULT,
        guard_command: ["/proc/self/exe", "end-servers"].map(OsString::from).into(),
    };
    mcp::serve(options, Arc::new(shelf)).context("cannot serve")
}

/// Keeps a rule in the store.
fn rule(action: &McpAction, settings: &Settings, context: &mut Context) -> anyhow::Result<()> {
    let (verdict, pattern) = match action {
        McpAction::Allow(rule) => (Verdict::Allow, &rule.pattern),
        McpAction::Deny(rule) => (Verdict::Deny, &rule.pattern),
    };
    if !pattern.contains('/') && Risk::of_word(pattern).is_none() {
        let text = format!("`{pattern}` is neither a pattern of SERVER/TOOL nor a risk");
        return Err(Failure::usage(text, "give SERVER/TOOL, such as `github/create_issue`").into());
    }
    let store = Store::open(&settings.store(&context.environment)?)?;
    permission::keep(&store, pattern, verdict).map_err(|error| {
        Failure::usage(error.to_string(), "the rules are in `permissions.toml` of the store")
    })?;
    context.printer.say(&format_args!("calls of `{pattern}`: {verdict}"));
    Ok(())
}

/// Ends the servers that standard input tells of, after it has ended.
pub(super) fn end_servers() {
    let _ = rustix::thread::set_name(c"ctxfs-end");
    mcp::end_servers(&mut io::stdin().lock());
}

fn conversation(args: &McpArgs, context: &mut Context) -> Result<Component, Failure> {
    if let Some(id) = &args.conversation {
        return places::conversation_id(id);
    }
    let id = format!("session-{}", Uuid::now_v7());
    context.printer.say(&format_args!("results are stored in the conversation {id}"));
    places::conversation_id(&id)
}

fn offer(args: &McpArgs, settings: &Settings) -> OfferMode {
    match args.tools {
        ToolOffer::Index => OfferMode::Index(Box::new(IndexOptions {
            risks: settings.calls().risks(),
            rules: settings.calls().permissions(),
            batch_budget: BATCH_BUDGET,
        })),
        ToolOffer::Direct if args.servers.is_some() => OfferMode::Direct,
        ToolOffer::Direct => OfferMode::Through,
    }
}

fn servers(args: &McpArgs, context: &mut Context) -> anyhow::Result<Vec<ServerOptions>> {
    match &args.servers {
        Some(path) => servers::of_file(path, &mut context.printer),
        None => Ok(behind(args)?.into_iter().collect()),
    }
}

/// Returns the server behind `--`.
fn behind(args: &McpArgs) -> Result<Option<ServerOptions>, Failure> {
    let Some((program, arguments)) = args.command.split_first() else { return Ok(None) };
    let program_text = program.to_string_lossy();
    if program_text.starts_with("http://") || program_text.starts_with("https://") {
        return Err(Failure::usage(
            "servers over HTTP are not supported",
            "give the command of a server that speaks on standard input and output",
        ));
    }
    let name = args.name.clone().unwrap_or_else(|| server_name::of(&args.command));
    let command = ServerCommand {
        program: program.clone(),
        arguments: arguments.to_vec(),
        environment: env::of_servers(),
        directory: None,
    };
    let timeout = (args.timeout > 0).then(|| Duration::from_secs(args.timeout));
    let offer = Offer { naming: Naming::AsIs, tools: ToolFilter::default(), trust: false };
    Ok(Some(ServerOptions { name, command, timeout, offer }))
}

/// The settings and the store, as flags and environment name them.
struct UserShelf {
    settings: Arc<Settings>,
    store: PathBuf,
    id: Component,
    environment: Environment,
}

impl UserShelf {
    /// Returns the root for readers, and whether they see files there.
    fn root(&self, store: &Path) -> (Root, bool) {
        let advertised = self.settings.text(Key::Advertise);
        let mounts = places::mounts_of(store);
        let shows = |only: &Option<Component>| only.as_ref().is_none_or(|only| *only == self.id);
        if advertised.is_none() && !mounts.iter().any(|mount| shows(&mount.only)) {
            return (Root::All(Root::REFERENCES.to_owned()), false);
        }
        let id = Some(&self.id);
        (places::reader_root_among(advertised, &mounts, id, &self.environment), true)
    }

    fn try_open(&self) -> anyhow::Result<OpenShelf> {
        let (root, mounted) = self.root(&self.store);
        let options = engine::options(&self.settings, &root, Some(&self.id))?;
        let engine = Engine::new(Store::open(&self.store)?, options);
        let conversation = engine.store().create_conversation(&self.id)?;
        Ok(OpenShelf { engine, conversation, mounted })
    }
}

impl Shelf for UserShelf {
    fn limits(&self, tool: &str) -> Limits {
        self.settings.limits(Some(tool))
    }

    fn conversation(&self) -> &Component {
        &self.id
    }

    fn open(&self) -> Result<OpenShelf, String> {
        self.try_open().map_err(|error| error.to_string())
    }
}
