//! Parses a file that lists the servers of the gateway. The file has an object `mcpServers`, in the
//! format of MCP clients.
//!
//! An invalid server is skipped and reported; the others are kept. Values of `env`, `headers` and
//! variables are secrets, so no error and no `Debug` output shows them.

pub(crate) mod reader;

pub use reader::{Flaw, Secret, Severity};

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use globset::{Glob, GlobMatcher};
use jsonc_parser::ast::{self, ObjectProp, Value};
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use crate::config::reader::{InvalidValue, ValueReader};
use ctxfs_core::model::visible;

const SERVERS: &str = "mcpServers";
/// Default timeout of a call to a server.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_mins(1);
/// JSON with comments and trailing commas, as clients accept it in their settings. All other JSON
/// rules are enforced.
pub const AS_CLIENTS_HAVE_IT: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: true,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};
const KNOWN: &str = "command, args, env, cwd, type, url, headers, oauth, trust, timeout, tools, \
                     prefix, shared, disabled";
const OAUTH_KNOWN: &str =
    "clientId, clientSecret, clientSecretFile, clientMetadataUrl, callbackPort";
// A timeout of more than a week is assumed to be a mistake, such as a value in milliseconds.
const MAX_TIMEOUT: Duration = Duration::from_hours(7 * 24);

/// The result of parsing a file: the servers that can be started, and the flaws found in the file.
/// An invalid server is missing from `servers` and has an error in `flaws`. An unknown key is a
/// warning.
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Servers {
    pub servers: Vec<Server>,
    pub flaws: Vec<Flaw>,
}

/// A server from the file, with variables substituted and all values checked. No name
/// begins like another one and a `/`. `timeout` is the longest time that a call may go without progress. If `prefix` is `None`,
/// the server's name is the prefix; an empty `prefix` means no prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as in the file")]
pub struct Server {
    pub name: String,
    pub transport: Transport,
    pub trust: bool,
    pub timeout: Duration,
    pub tools: ToolFilter,
    pub prefix: Option<String>,
    pub shared: bool,
}

/// A process to start, or the URL of a server. The file has either `command` or `url` for each
/// server. The URL starts with `http://` or `https://`. Values that may be secret are [`Secret`]s.
/// `env` is added to the few variables that every server gets.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as in the file")]
pub enum Transport {
    Stdio { command: String, args: Vec<Secret>, env: Vec<(String, Secret)>, cwd: Option<String> },
    Http { url: Secret, headers: Vec<(String, Secret)>, client: ClientOptions },
}

/// The client as which the user logs in. All fields are optional.
///
/// `id` is the id of a client that the authorization server knows already, and `secret` is its
/// secret. `secret_file` is a file whose first line is the secret; a login does not read it. Without
/// `id`, `document` is used if the authorization server allows it: the `https` address of a public
/// document about the client, which is then its id. Otherwise, a client is registered. The browser
/// comes back to `port` on this machine, or else to any free port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub struct ClientOptions {
    pub id: Option<String>,
    pub secret: Option<Secret>,
    pub secret_file: Option<PathBuf>,
    pub document: Option<String>,
    pub port: Option<u16>,
}

impl Server {
    /// Returns a server with default options, as for a command after `--`.
    pub fn new(name: String, transport: Transport) -> Self {
        let (trust, shared, timeout) = (false, false, DEFAULT_TIMEOUT);
        Self { name, transport, trust, timeout, tools: ToolFilter::default(), prefix: None, shared }
    }

    /// Returns the prefix of the server's tool names: the configured one, or the server's name.
    pub fn prefix(&self) -> &str {
        self.prefix.as_deref().unwrap_or(&self.name)
    }
}

impl Servers {
    /// Parses `text`, the content of a file. Messages refer to the file as `file`. `variable` looks
    /// up environment variables. Parsing never fails as a whole: an invalid server is skipped and
    /// reported in `flaws`.
    pub fn parse(file: &str, text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Self {
        let mut reader = ValueReader::new(file, text, variable);
        let servers = read(&mut reader, text);
        Self { servers, flaws: reader.into_flaws() }
    }
}

fn read(reader: &mut ValueReader<'_>, text: &str) -> Vec<Server> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let parsed = match parse_to_ast(text, &CollectOptions::default(), &AS_CLIENTS_HAVE_IT) {
        Ok(parsed) => parsed,
        Err(error) => {
            reader.flaw(
                Severity::Error,
                error.range().start,
                &[],
                &format!("is not JSON: {}", error.kind()),
            );
            return Vec::new();
        }
    };
    let root = parsed.value.as_ref().and_then(ast::Value::as_object);
    let all = root.and_then(|root| root.properties.iter().find(|p| p.name.as_str() == SERVERS));
    match all.map(|property| (&property.value, property.range.start)) {
        Some((ast::Value::Object(all), _)) => read_all(reader, all),
        Some((_, at)) => {
            reader.flaw(Severity::Error, at, &[SERVERS], "must be an object");
            Vec::new()
        }
        None => {
            reader.flaw(
                Severity::Error,
                0,
                &[SERVERS],
                "is missing: the file must be {\"mcpServers\": {NAME: {...}}}",
            );
            Vec::new()
        }
    }
}

fn read_all(reader: &mut ValueReader<'_>, all: &ast::Object<'_>) -> Vec<Server> {
    let mut servers: Vec<Server> = Vec::new();
    for property in &all.properties {
        let name = property.name.as_str();
        if servers.iter().any(|server| server.name == name) {
            reader.flaw(
                Severity::Error,
                property.range.start,
                &[SERVERS, name],
                "is there twice: this one is not used",
            );
            continue;
        }
        let begins_like = |one: &str, other: &str| {
            one.strip_prefix(other).is_some_and(|rest| rest.starts_with('/'))
        };
        let alike = servers
            .iter()
            .find(|server| begins_like(name, &server.name) || begins_like(&server.name, name));
        if let Some(other) = alike {
            // `a/b/c` would be a tool of either.
            let what = format!(
                "cannot be told from `{}` in rules for SERVER/TOOL: rename one of them",
                visible::escaped(&other.name, 100)
            );
            reader.flaw(Severity::Error, property.range.start, &[SERVERS, name], &what);
            continue;
        }
        servers.extend(read_server(reader, name, property));
    }
    servers
}

#[derive(Default)]
struct ServerKeys {
    kind: Option<TransportKind>,
    command: Option<String>,
    args: Vec<Secret>,
    env: Vec<(String, Secret)>,
    cwd: Option<String>,
    url: Option<String>,
    headers: Vec<(String, Secret)>,
    client: ClientOptions,
    trust: bool,
    timeout: Option<Duration>,
    tools: ToolFilter,
    prefix: Option<String>,
    shared: bool,
    disabled: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TransportKind {
    Stdio,
    Http,
}

/// Reads one server entry. Returns `None` if the server is disabled or invalid. An invalid entry is
/// reported.
fn read_server(
    reader: &mut ValueReader<'_>,
    name: &str,
    property: &ObjectProp<'_>,
) -> Option<Server> {
    let (at, place) = (property.range.start, [SERVERS, name]);
    if name.is_empty() || name.chars().any(visible::is_hidden) {
        let what = "cannot be a name: it is empty, or holds hidden characters";
        reader.flaw(Severity::Error, at, &[SERVERS, &visible::escaped(name, 100)], what);
        return None;
    }
    let Some(object) = property.value.as_object() else {
        reader.flaw(Severity::Error, at, &place, "must be an object");
        return None;
    };
    let mut keys = ServerKeys::default();
    let mut all_right = true;
    for property in &object.properties {
        all_right &= keys.read(reader, name, property).is_ok();
    }
    if keys.disabled {
        reader.flaw(Severity::Warning, at, &place, "is disabled, so it is not started");
        return None;
    }
    let server = all_right.then(|| keys.into_server(name))?;
    server.map_err(|what| reader.flaw(Severity::Error, at, &place, what)).ok()
}

impl ServerKeys {
    fn read(
        &mut self,
        reader: &mut ValueReader<'_>,
        server: &str,
        property: &ObjectProp<'_>,
    ) -> Result<(), InvalidValue> {
        let (key, value) = (property.name.as_str(), &property.value);
        let place = [SERVERS, server, key];
        match key {
            "type" => self.kind = Some(reader.kind(value, &place)?),
            "command" => self.command = Some(reader.text(value, &place)?),
            "args" => {
                self.args = reader.texts(value, &place)?.into_iter().map(Secret::new).collect();
            }
            "env" => self.env = reader.secrets(value, &place, &is_variable)?,
            "cwd" => self.cwd = Some(reader.text(value, &place)?),
            "url" => self.url = Some(reader.address(value, &place)?),
            "headers" => self.headers = reader.headers(value, &place)?,
            "oauth" => self.client = reader.client(value, &place)?,
            "trust" => self.trust = reader.truth(value, &place)?,
            "timeout" => self.timeout = Some(reader.duration(value, &place)?),
            "tools" => self.tools = reader.filter(value, &place)?,
            "prefix" => self.prefix = Some(reader.text(value, &place)?),
            "shared" => self.shared = reader.truth(value, &place)?,
            "disabled" => self.disabled = reader.truth(value, &place)?,
            _ => reader.unknown(property, &place[..2], KNOWN),
        }
        Ok(())
    }

    fn into_server(self, name: &str) -> Result<Server, &'static str> {
        let transport = match (self.kind, self.command, self.url) {
            (_, Some(_), Some(_)) => {
                return Err("has both `command` and `url`: remove one of them");
            }
            (Some(TransportKind::Http), Some(_), _) => {
                return Err("has `command`, which `type` denies");
            }
            (Some(TransportKind::Stdio), _, Some(_)) => {
                return Err("has `url`, which `type` denies");
            }
            (_, Some(command), None) if command.is_empty() => return Err("has an empty `command`"),
            (_, Some(command), None) => {
                Transport::Stdio { command, args: self.args, env: self.env, cwd: self.cwd }
            }
            (_, None, Some(url)) => {
                let (headers, client) = (self.headers, self.client);
                Transport::Http { url: Secret::new(url), headers, client }
            }
            (_, None, None) => return Err("needs `command` or `url`"),
        };
        let mut server = Server::new(name.to_owned(), transport);
        server.timeout = self.timeout.unwrap_or(server.timeout);
        (server.trust, server.shared) = (self.trust, self.shared);
        (server.tools, server.prefix) = (self.tools, self.prefix);
        Ok(server)
    }
}

impl ValueReader<'_> {
    fn kind(&mut self, value: &Value<'_>, place: &[&str]) -> Result<TransportKind, InvalidValue> {
        match self.text(value, place)?.as_str() {
            "stdio" | "local" => Ok(TransportKind::Stdio),
            "http" | "streamable-http" | "streamableHttp" => Ok(TransportKind::Http),
            "sse" => Err(self.wrong(
                value,
                place,
                "cannot be `sse`, which servers are leaving: use their address for `http`",
            )),
            _ => Err(self.wrong(value, place, "must be `stdio`, `http` or `streamable-http`")),
        }
    }

    fn address(&mut self, value: &Value<'_>, place: &[&str]) -> Result<String, InvalidValue> {
        let url = self.text(value, place)?;
        let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
        if rest.is_some_and(|rest| !rest.is_empty() && !rest.contains(|c: char| c <= ' ')) {
            Ok(url)
        } else {
            Err(self.wrong(value, place, "must begin with `http://` or `https://`, without spaces"))
        }
    }

    fn headers(
        &mut self,
        value: &Value<'_>,
        place: &[&str],
    ) -> Result<Vec<(String, Secret)>, InvalidValue> {
        let headers = self.secrets(value, place, &is_header)?;
        let torn = headers.iter().find(|(_, text)| text.reveal().contains(['\r', '\n']));
        if let Some((name, _)) = torn {
            let place = [place, &[name]].concat();
            return Err(self.wrong(value, &place, "holds the end of a line"));
        }
        Ok(headers)
    }

    fn client(&mut self, value: &Value<'_>, place: &[&str]) -> Result<ClientOptions, InvalidValue> {
        let Some(object) = value.as_object() else {
            return Err(self.wrong(value, place, "must be an object"));
        };
        let mut client = ClientOptions::default();
        for property in &object.properties {
            let (key, value) = (property.name.as_str(), &property.value);
            let within = [place, &[key]].concat();
            match key {
                "clientId" => client.id = Some(self.text(value, &within)?),
                "clientSecret" => client.secret = Some(Secret::new(self.text(value, &within)?)),
                "clientSecretFile" => client.secret_file = Some(self.text(value, &within)?.into()),
                "clientMetadataUrl" => client.document = Some(self.text(value, &within)?),
                "callbackPort" => client.port = Some(self.port(value, &within)?),
                _ => self.unknown(property, place, OAUTH_KNOWN),
            }
        }
        Ok(client)
    }

    fn port(&mut self, value: &Value<'_>, place: &[&str]) -> Result<u16, InvalidValue> {
        let port = value.as_number_lit().and_then(|literal| literal.value.parse().ok());
        let port = port.filter(|port| *port != 0);
        port.ok_or_else(|| self.wrong(value, place, "must be a port, from 1 to 65535"))
    }

    fn unknown(&mut self, property: &ObjectProp<'_>, place: &[&str], known: &str) {
        let name = visible::escaped(property.name.as_str(), 100);
        let place = [place, &[&*name]].concat();
        let what = format!("is not known, so it is passed over: known are {known}");
        self.flaw(Severity::Warning, property.range.start, &place, &what);
    }

    fn duration(&mut self, value: &Value<'_>, place: &[&str]) -> Result<Duration, InvalidValue> {
        let seconds = self.number(value, place)?;
        let timeout = Duration::try_from_secs_f64(seconds).ok();
        let timeout = timeout.filter(|timeout| !timeout.is_zero() && *timeout <= MAX_TIMEOUT);
        timeout.ok_or_else(|| {
            self.wrong(value, place, "must be seconds, more than 0 and at most a week")
        })
    }

    fn filter(&mut self, value: &Value<'_>, place: &[&str]) -> Result<ToolFilter, InvalidValue> {
        let patterns = self.texts(value, place)?;
        ToolFilter::new(patterns.iter().map(String::as_str)).map_err(|what| {
            self.wrong(value, place, &format!("has a pattern that is no glob: {what}"))
        })
    }
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

fn is_header(name: &str) -> bool {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    !name.is_empty() && name.chars().all(is_token)
}

/// Globs that select tools by the server's own names. A glob either offers or hides tools. If no
/// glob offers tools, all tools that are not hidden are offered.
#[derive(Clone, Default)]
pub struct ToolFilter(Vec<FilterPattern>);

#[derive(Clone)]
struct FilterPattern {
    hides: bool,
    matcher: GlobMatcher,
}

impl ToolFilter {
    /// Parses patterns. A pattern that starts with `!` hides tools. The error names the first
    /// pattern that is not a valid glob.
    pub fn new<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let read = |pattern: &str| {
            let glob = pattern.strip_prefix('!').unwrap_or(pattern);
            let hides = glob.len() < pattern.len();
            let glob = Glob::new(glob).map_err(|error| format!("`{pattern}`: {}", error.kind()))?;
            Ok(FilterPattern { hides, matcher: glob.compile_matcher() })
        };
        patterns.into_iter().map(read).collect::<Result<_, String>>().map(Self)
    }

    /// Returns true if `tool`, the server's own name of a tool, is offered. It is offered if no
    /// pattern hides it, and if a pattern offers it or no pattern offers anything.
    pub fn offers(&self, tool: &str) -> bool {
        let matches = |hides| self.0.iter().any(|p| p.hides == hides && p.matcher.is_match(tool));
        let offered = self.0.iter().all(|pattern| pattern.hides) || matches(false);
        offered && !matches(true)
    }
}

impl fmt::Debug for ToolFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown =
            |p: &FilterPattern| format!("{}{}", if p.hides { "!" } else { "" }, p.matcher.glob());
        f.debug_list().entries(self.0.iter().map(shown)).finish()
    }
}

impl PartialEq for ToolFilter {
    fn eq(&self, other: &Self) -> bool {
        let same = |(a, b): (&FilterPattern, &FilterPattern)| {
            a.hides == b.hides && a.matcher.glob() == b.matcher.glob()
        };
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(same)
    }
}

impl Eq for ToolFilter {}

#[cfg(test)]
mod tests;
