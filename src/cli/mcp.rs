//! `ctxfs mcp`: the gateway at standard input and output, or over HTTP.

mod behind;
mod http;
mod list;
mod mounting;
mod server_name;
mod servers;
mod survey;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use anyhow::Context as _;
use uuid::Uuid;

use crate::args::{Cli, McpAction, McpArgs, McpRuleArgs, StandInForm, ToolOffer};
use crate::context::Context;
use crate::env::Environment;
use crate::mcp::mounting::Mounting;
use crate::outcome::Failure;
use crate::remote::Sharing;
use crate::settings::{Key, Settings};
use crate::{engine, logging, places, remote};
use ctxfs_core::model::{Component, Limits, LimitsByTool as _, Root};
use ctxfs_mcp::permission::{Risk, Verdict};
use ctxfs_mcp::{
    GatewayOptions, IndexOptions, OfferMode, OpenShelf, ServerOptions, Shelf, Shelves, permission,
};
use ctxfs_store::Store;
use ctxfs_view::Form;

pub(super) use servers::{FileServers, is_error, read as read_servers};
pub(super) use survey::survey;

pub(super) fn run(args: &McpArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    let settings = Arc::new(context.settings(cli, args.settings())?);
    match &args.action {
        Some(McpAction::Allow(rule)) => return keep_rule(Verdict::Allow, rule, &settings, context),
        Some(McpAction::Deny(rule)) => return keep_rule(Verdict::Deny, rule, &settings, context),
        Some(McpAction::List(args)) => return list::run(args, &settings, cli, context),
        None => {}
    }
    logging::start(settings.text(Key::Log).unwrap_or("info"), false)?;
    let store = settings.store(&context.environment)?;
    let (mut servers, offer) = (servers(args, context)?, offer(args, &settings));
    if args.http.is_none() {
        // There is one session.
        for server in &mut servers {
            server.shared = false;
        }
    }
    let options = options(servers, offer, !args.no_context_tools, &settings);
    let environment = context.environment.clone();
    let mounting = args.mount.as_ref().map(|dir| {
        let dir = Some(Path::new(dir)).filter(|dir| !dir.as_os_str().is_empty());
        Mounting::begin(dir, &settings, cli, context)
    });
    let mounting = mounting.transpose()?;
    let form = match args.stand_in {
        StandInForm::Summary => Form::Summary,
        StandInForm::Handle => Form::Handle,
    };
    let sharing = Arc::new(OnceLock::new());
    let user = UserStore {
        settings: Arc::clone(&settings),
        store,
        environment,
        form,
        mounting,
        sharing: Arc::clone(&sharing),
    };
    let served = serve(options, user, args, &settings, context);
    if let Some(sharing) = sharing.get() {
        remote::end(sharing);
    }
    served
}

/// Serves one client, or those over HTTP, until the end.
fn serve(
    options: GatewayOptions,
    user: UserStore,
    args: &McpArgs,
    settings: &Settings,
    context: &mut Context,
) -> anyhow::Result<()> {
    match &args.http {
        None => {
            let id = conversation(args, context)?;
            ctxfs_mcp::serve(options, user.shelf(id)).context("cannot serve")
        }
        Some(address) => {
            let given = args.conversation.as_deref().map(places::conversation_id).transpose()?;
            let http = http::options(address, args, settings, context)?;
            let process = new_conversation("session")?;
            let shelves = UserShelves { user, given, process };
            ctxfs_mcp::serve_http(options, http, Arc::new(shelves)).context("cannot serve")
        }
    }
}

/// Keeps a rule in the store.
fn keep_rule(
    verdict: Verdict,
    rule: &McpRuleArgs,
    settings: &Settings,
    context: &mut Context,
) -> anyhow::Result<()> {
    let pattern = &rule.pattern;
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
    ctxfs_mcp::end_servers(&mut io::stdin().lock());
}

fn conversation(args: &McpArgs, context: &mut Context) -> Result<Component, Failure> {
    if let Some(id) = &args.conversation {
        return places::conversation_id(id);
    }
    let id = new_conversation("session")?;
    context.printer.say(&format_args!("results are stored in the conversation {id}"));
    Ok(id)
}

fn new_conversation(kind: &str) -> Result<Component, Failure> {
    places::conversation_id(&format!("{kind}-{}", Uuid::now_v7()))
}

/// Returns the options of a gateway.
fn options(
    servers: Vec<ServerOptions>,
    offer: OfferMode,
    context_tools: bool,
    settings: &Settings,
) -> GatewayOptions {
    GatewayOptions {
        servers,
        offer,
        context_tools,
        references: settings.is_on(Key::References),
        max_binary: settings.number(Key::MaxBinary).unwrap_or(u64::MAX),
        max_result: settings.number(Key::MaxResult).unwrap_or(u64::MAX),
        guard_command: ["/proc/self/exe", "end-servers"].map(OsString::from).into(),
    }
}

fn offer(args: &McpArgs, settings: &Settings) -> OfferMode {
    match args.tools {
        ToolOffer::Index => index(settings),
        ToolOffer::Direct if args.servers.is_some() => OfferMode::Direct,
        ToolOffer::Direct => OfferMode::Through,
    }
}

fn index(settings: &Settings) -> OfferMode {
    let batch_budget = settings.number(Key::BatchBudget).unwrap_or(u64::MAX);
    OfferMode::Index(Box::new(IndexOptions {
        risks: settings.calls().risks(),
        rules: settings.calls().permissions(),
        batch_budget: usize::try_from(batch_budget).unwrap_or(usize::MAX),
    }))
}

fn servers(args: &McpArgs, context: &mut Context) -> anyhow::Result<Vec<ServerOptions>> {
    match &args.servers {
        Some(path) => Ok(servers::of_file(path, &mut context.printer)?.servers),
        None => Ok(behind::server(&args.command, args.name.as_deref(), args.timeout)?
            .into_iter()
            .collect()),
    }
}

/// The settings and the store, as flags and environment name them.
#[derive(Clone)]
struct UserStore {
    settings: Arc<Settings>,
    store: PathBuf,
    environment: Environment,
    /// The form of the texts that stand for long results.
    form: Form,
    /// Present if the gateway sees to a mount.
    mounting: Option<Arc<Mounting>>,
    /// One for all conversations, once the first is opened.
    sharing: Arc<OnceLock<Sharing>>,
}

impl UserStore {
    fn shelf(&self, id: Component) -> Arc<dyn Shelf> {
        Arc::new(UserShelf { user: self.clone(), id })
    }
}

/// The conversations of clients over HTTP.
struct UserShelves {
    user: UserStore,
    /// The conversation of all clients, if one is given.
    given: Option<Component>,
    /// The conversation of requests without a session and a token.
    process: Component,
}

impl Shelves for UserShelves {
    fn of_session(&self) -> Arc<dyn Shelf> {
        let id = self.given.clone().or_else(|| new_conversation("session").ok());
        self.user.shelf(id.unwrap_or_else(|| self.process.clone()))
    }

    fn of_token(&self, token: Option<&str>) -> Arc<dyn Shelf> {
        let name = token.map(|token| format!("token-{token}"));
        let of_token = name.and_then(|name| places::conversation_id(&name).ok());
        let id = self.given.clone().or(of_token);
        self.user.shelf(id.unwrap_or_else(|| self.process.clone()))
    }
}

/// A conversation of the store.
struct UserShelf {
    user: UserStore,
    id: Component,
}

impl UserShelf {
    /// Returns the root for readers, and whether they see files there.
    fn root(&self, store: &Path) -> (Root, bool) {
        let advertised = self.user.settings.text(Key::Advertise);
        let mounted = self.user.mounting.as_ref().and_then(|mounting| mounting.wait());
        if let Some(target) = mounted.filter(|_| advertised.is_none()) {
            return (Root::All(target.display().to_string()), true);
        }
        let mounts = places::mounts_of(store);
        let shows = |only: &Option<Component>| only.as_ref().is_none_or(|only| *only == self.id);
        if advertised.is_none() && !mounts.iter().any(|mount| shows(&mount.only)) {
            return (Root::All(Root::REFERENCES.to_owned()), false);
        }
        let id = Some(&self.id);
        (places::reader_root_among(advertised, &mounts, id, &self.user.environment), true)
    }

    fn try_open(&self) -> anyhow::Result<OpenShelf> {
        let (root, mounted) = self.root(&self.user.store);
        let options = engine::options(&self.user.settings, &root, Some(&self.id))?;
        let store = Store::open(&self.user.store)?;
        let begin = || remote::begin(&store, &self.user.settings);
        let options = remote::take_part(self.user.sharing.get_or_init(begin), options);
        let engine = engine::open(store, options);
        let conversation = engine.store().create_conversation(&self.id)?;
        Ok(OpenShelf { engine, conversation, mounted, form: self.user.form })
    }
}

impl Shelf for UserShelf {
    fn limits(&self, tool: &str) -> Limits {
        self.user.settings.limits(Some(tool))
    }

    fn conversation(&self) -> &Component {
        &self.id
    }

    fn open(&self) -> Result<OpenShelf, String> {
        self.try_open().map_err(|error| error.to_string())
    }
}
