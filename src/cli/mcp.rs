//! `ctxfs mcp`: the MCP gateway on standard input and output, or over HTTP.

mod login;
mod mounting;
mod servers;

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use anyhow::Context as _;
use uuid::Uuid;

use crate::args::{McpAction, McpArgs, McpRuleArgs, StandInForm, ToolOffer};
use crate::mcp::mounting::BackgroundMount;
use crate::remote::{self, Sharing};
use crate::{Cli, Context, Environment, Failure, SettingKey, Settings, engine, logging, places};
use ctxfs_core::model::{Component, Limits, LimitsByTool as _, Root};
use ctxfs_mcp::permission::{self, Risk, Verdict};
use ctxfs_mcp::{
    ConversationSources, GatewayConversation, GatewayOptions, HttpOptions, OfferMode,
    ServerOptions, Shelf,
};
use ctxfs_store::Store;
use ctxfs_view::Form;

pub(crate) use crate::mcp::login::with_logins;
pub(crate) use crate::mcp::servers::{FileServers, is_error, read_servers, survey};

pub(crate) fn run(args: &McpArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    let settings = Arc::new(context.settings(cli, args.settings())?);
    match &args.action {
        Some(McpAction::Allow(rule)) => return keep_rule(Verdict::Allow, rule, &settings, context),
        Some(McpAction::Deny(rule)) => return keep_rule(Verdict::Deny, rule, &settings, context),
        Some(McpAction::List(args)) => return servers::list(args, &settings, cli, context),
        Some(McpAction::Login(args)) => return login::login(args, context),
        Some(McpAction::Logout(args)) => return login::logout(args, context),
        None => {}
    }
    logging::start(settings.text(SettingKey::Log).unwrap_or("info"), false)?;
    let store = settings.store(&context.environment)?;
    let (mut servers, offer) = (servers(args, context)?, offer(args, &settings));
    if args.http.is_none() {
        for server in &mut servers {
            server.shared = false;
        }
    }
    let options = servers::gateway_options(servers, offer, !args.no_context_tools, &settings);
    let environment = context.environment.clone();
    let mounting = args.mount.as_ref().map(|dir| {
        let dir = Some(Path::new(dir)).filter(|dir| !dir.as_os_str().is_empty());
        BackgroundMount::begin(dir, &settings, cli, context)
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
            let http = http_options(address, args, settings, context)?;
            let process = new_conversation("session")?;
            let shelves = GatewayShelves { user, given, process };
            ctxfs_mcp::serve_http(options, http, Arc::new(shelves)).context("cannot serve")
        }
    }
}

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
    context.printer.message(&format_args!("calls of `{pattern}`: {verdict}"));
    Ok(())
}

fn conversation(args: &McpArgs, context: &mut Context) -> Result<Component, Failure> {
    if let Some(id) = &args.conversation {
        return places::conversation_id(id);
    }
    let id = new_conversation("session")?;
    context.printer.message(&format_args!("results are stored in the conversation {id}"));
    Ok(id)
}

fn new_conversation(kind: &str) -> Result<Component, Failure> {
    places::conversation_id(&format!("{kind}-{}", Uuid::now_v7()))
}

fn offer(args: &McpArgs, settings: &Settings) -> OfferMode {
    match args.tools {
        ToolOffer::Index => servers::index_offer(settings),
        ToolOffer::Direct if args.servers.is_some() => OfferMode::Direct,
        ToolOffer::Direct => OfferMode::Through,
    }
}

fn servers(args: &McpArgs, context: &mut Context) -> anyhow::Result<Vec<ServerOptions>> {
    let servers = match &args.servers {
        Some(path) => servers::servers_of_file(path, &mut context.printer)?.servers,
        None => servers::server_behind(&args.command, args.name.as_deref(), args.timeout)?
            .into_iter()
            .collect(),
    };
    Ok(with_logins(servers, args.servers.as_deref(), &context.environment))
}

#[derive(Clone)]
struct UserStore {
    settings: Arc<Settings>,
    store: PathBuf,
    environment: Environment,
    form: Form,
    mounting: Option<Arc<BackgroundMount>>,
    // Shared by all conversations. Set when the first conversation is opened.
    sharing: Arc<OnceLock<Sharing>>,
}

impl UserStore {
    fn shelf(&self, id: Component) -> Arc<dyn Shelf> {
        Arc::new(GatewayShelf { user: self.clone(), id })
    }
}

struct GatewayShelves {
    user: UserStore,
    given: Option<Component>,
    // The conversation for requests without a session and a token.
    process: Component,
}

impl ConversationSources for GatewayShelves {
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

struct GatewayShelf {
    user: UserStore,
    id: Component,
}

impl GatewayShelf {
    // Returns the root of the tree, and true if readers see files there.
    fn root(&self, store: &Path) -> (Root, bool) {
        let advertised = self.user.settings.text(SettingKey::Advertise);
        let mounted = self.user.mounting.as_ref().and_then(|mounting| mounting.wait());
        if let Some(target) = mounted.filter(|_| advertised.is_none()) {
            return (Root::All(target.display().to_string()), true);
        }
        let mounts = places::mounts_of(store);
        let shows = |only: &Option<Component>| only.as_ref().is_none_or(|only| *only == self.id);
        if advertised.is_none() && !mounts.iter().any(|mount| shows(&mount.only)) {
            return (Root::All(Root::REFERENCES.to_owned()), false);
        }
        let future = || places::future_root(&self.user.environment);
        (places::reader_root(advertised, || &mounts, Some(&self.id), future), true)
    }

    fn try_open(&self) -> anyhow::Result<GatewayConversation> {
        let (root, mounted) = self.root(&self.user.store);
        let options = engine::options(&self.user.settings, &root, Some(&self.id))?;
        let store = Store::open(&self.user.store)?;
        let begin = || remote::begin(&store, &self.user.settings, true);
        let options = remote::take_part(self.user.sharing.get_or_init(begin), options);
        let engine = engine::open(store, options);
        let conversation = engine.store().create_conversation(&self.id)?;
        Ok(GatewayConversation { engine, conversation, mounted, form: self.user.form })
    }
}

impl Shelf for GatewayShelf {
    fn limits(&self, tool: &str) -> Limits {
        self.user.settings.limits(Some(tool))
    }

    fn conversation(&self) -> &Component {
        &self.id
    }

    fn answers_questions(&self) -> bool {
        self.user.settings.models.has_target() || self.user.form == Form::Handle
    }

    fn open(&self) -> Result<GatewayConversation, String> {
        self.try_open().map_err(|error| error.to_string())
    }
}

const MOST_BYTES: u64 = 64 * 1024;
const SHORTEST: usize = 16;

// Prints the address of the gateway. If other machines can reach the address and no token is given,
// creates a token and prints it.
fn http_options(
    address: &str,
    args: &McpArgs,
    settings: &Settings,
    context: &mut Context,
) -> anyhow::Result<HttpOptions> {
    let mut tokens = args.token_file.as_deref().map(tokens).transpose()?.unwrap_or_default();
    let (host, listener) = crate::system::listen(address)?;
    let local = listener.local_addr()?;
    if tokens.is_empty() && !local.ip().is_loopback() {
        let token = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        context.printer.message(&format_args!("clients need the token {token}"));
        tokens.push(token);
    }
    context.printer.message(&format_args!("listening on http://{local}/mcp"));
    let seconds = settings.number(SettingKey::SessionIdle).unwrap_or(u64::from(u32::MAX));
    Ok(HttpOptions {
        listener,
        names: vec![host.to_owned()],
        tokens,
        session_idle: std::time::Duration::from_secs(seconds),
        max_body: settings.number(SettingKey::MaxBody).unwrap_or(u64::MAX),
    })
}

fn tokens(path: &Path) -> Result<Vec<String>, Failure> {
    let text = read_tokens(path).map_err(|error| {
        let text = format!("cannot read the tokens in `{}`: {error}", path.display());
        Failure::usage(text, "give a readable file with a token on each line")
    })?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let tokens: Vec<String> = lines.map(str::to_owned).collect();
    let is_good = |token: &String| {
        token.len() >= SHORTEST && token.bytes().all(|byte| byte.is_ascii_graphic())
    };
    if tokens.is_empty() || !tokens.iter().all(is_good) {
        let text = format!("`{}` has a line that is no token, or none", path.display());
        let hint =
            "a token is 16 or more visible ASCII characters; `openssl rand -hex 32` prints one";
        return Err(Failure::usage(text, hint));
    }
    Ok(tokens)
}

fn read_tokens(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(MOST_BYTES).read_to_string(&mut text)?;
    Ok(text)
}
