//! One server of the file.

use std::time::Duration;

use jsonc_parser::ast::{ObjectProp, Value};

use crate::config::reader::{Reader, Wrong};
use crate::config::secret::Secret;
use crate::config::tool_filter::ToolFilter;
use crate::config::{SERVERS, Server, Transport};
use ctxfs_core::model::visible;

/// The keys that are known, for messages.
const KNOWN: &str = "command, args, env, cwd, type, url, headers, trust, timeout, tools, prefix, \
                     shared, disabled";
/// The longest timeout, a week. Longer ones are slips, such as milliseconds.
const LONGEST: Duration = Duration::from_hours(7 * 24);

/// The keys of a server as they were read.
#[derive(Default)]
struct Keys {
    kind: Option<Kind>,
    command: Option<String>,
    args: Vec<Secret>,
    env: Vec<(String, Secret)>,
    cwd: Option<String>,
    url: Option<String>,
    headers: Vec<(String, Secret)>,
    trust: bool,
    timeout: Option<Duration>,
    tools: ToolFilter,
    prefix: Option<String>,
    shared: bool,
    disabled: bool,
}

/// The value of `type`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Stdio,
    Http,
}

/// Reads a server. Returns `None` if it is wrong, which is collected, or disabled.
pub(super) fn read(
    reader: &mut Reader<'_>,
    name: &str,
    property: &ObjectProp<'_>,
) -> Option<Server> {
    let (at, place) = (property.range.start, [SERVERS, name]);
    if name.is_empty() || name.contains('/') || name.chars().any(visible::is_hidden) {
        let what = "cannot be a name: it is empty, or holds `/` or hidden characters";
        reader.error(at, &[SERVERS, &visible::escaped(name, 100)], what);
        return None;
    }
    let Some(object) = property.value.as_object() else {
        reader.error(at, &place, "must be an object");
        return None;
    };
    let mut keys = Keys::default();
    let mut all_right = true;
    for property in &object.properties {
        all_right &= keys.read(reader, name, property).is_ok();
    }
    if keys.disabled {
        reader.warning(at, &place, "is disabled, so it is not started");
        return None;
    }
    let server = all_right.then(|| keys.into_server(name))?;
    server.map_err(|what| reader.error(at, &place, what)).ok()
}

impl Keys {
    fn read(
        &mut self,
        reader: &mut Reader<'_>,
        server: &str,
        property: &ObjectProp<'_>,
    ) -> Result<(), Wrong> {
        let (key, value) = (property.name.as_str(), &property.value);
        let place = [SERVERS, server, key];
        match key {
            "type" => self.kind = Some(kind(reader, value, &place)?),
            "command" => self.command = Some(reader.text(value, &place)?),
            "args" => {
                self.args = reader.texts(value, &place)?.into_iter().map(Secret::new).collect();
            }
            "env" => self.env = reader.secrets(value, &place, &is_variable)?,
            "cwd" => self.cwd = Some(reader.text(value, &place)?),
            "url" => self.url = Some(url(reader, value, &place)?),
            "headers" => self.headers = headers(reader, value, &place)?,
            "trust" => self.trust = reader.truth(value, &place)?,
            "timeout" => self.timeout = Some(timeout(reader, value, &place)?),
            "tools" => self.tools = tools(reader, value, &place)?,
            "prefix" => self.prefix = Some(reader.text(value, &place)?),
            "shared" => self.shared = reader.truth(value, &place)?,
            "disabled" => self.disabled = reader.truth(value, &place)?,
            _ => {
                let place = [SERVERS, server, &visible::escaped(key, 100)];
                let what = format!("is not known, so it is passed over: known are {KNOWN}");
                reader.warning(property.range.start, &place, &what);
            }
        }
        Ok(())
    }

    fn into_server(self, name: &str) -> Result<Server, &'static str> {
        let transport = match (self.kind, self.command, self.url) {
            (_, Some(_), Some(_)) => {
                return Err("has both `command` and `url`: remove one of them");
            }
            (Some(Kind::Http), Some(_), _) => return Err("has `command`, which `type` denies"),
            (Some(Kind::Stdio), _, Some(_)) => return Err("has `url`, which `type` denies"),
            (_, Some(command), None) if command.is_empty() => return Err("has an empty `command`"),
            (_, Some(command), None) => {
                Transport::Stdio { command, args: self.args, env: self.env, cwd: self.cwd }
            }
            (_, None, Some(url)) => {
                Transport::Http { url: Secret::new(url), headers: self.headers }
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

fn kind(reader: &mut Reader<'_>, value: &Value<'_>, place: &[&str]) -> Result<Kind, Wrong> {
    match reader.text(value, place)?.as_str() {
        "stdio" | "local" => Ok(Kind::Stdio),
        "http" | "streamable-http" | "streamableHttp" => Ok(Kind::Http),
        "sse" => Err(reader.wrong(
            value,
            place,
            "cannot be `sse`, which servers are leaving: use their address for `http`",
        )),
        _ => Err(reader.wrong(value, place, "must be `stdio`, `http` or `streamable-http`")),
    }
}

fn url(reader: &mut Reader<'_>, value: &Value<'_>, place: &[&str]) -> Result<String, Wrong> {
    let url = reader.text(value, place)?;
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    if rest.is_some_and(|rest| !rest.is_empty() && !rest.contains(|c: char| c <= ' ')) {
        Ok(url)
    } else {
        Err(reader.wrong(value, place, "must begin with `http://` or `https://`, without spaces"))
    }
}

fn headers(
    reader: &mut Reader<'_>,
    value: &Value<'_>,
    place: &[&str],
) -> Result<Vec<(String, Secret)>, Wrong> {
    let headers = reader.secrets(value, place, &is_header)?;
    let torn = headers.iter().find(|(_, text)| text.reveal().contains(['\r', '\n']));
    if let Some((name, _)) = torn {
        let place = [place, &[name]].concat();
        return Err(reader.wrong(value, &place, "holds the end of a line"));
    }
    Ok(headers)
}

fn timeout(reader: &mut Reader<'_>, value: &Value<'_>, place: &[&str]) -> Result<Duration, Wrong> {
    let seconds = reader.number(value, place)?;
    let timeout = Duration::try_from_secs_f64(seconds).ok();
    let timeout = timeout.filter(|timeout| !timeout.is_zero() && *timeout <= LONGEST);
    timeout.ok_or_else(|| {
        reader.wrong(value, place, "must be seconds, more than 0 and at most a week")
    })
}

fn tools(reader: &mut Reader<'_>, value: &Value<'_>, place: &[&str]) -> Result<ToolFilter, Wrong> {
    let patterns = reader.texts(value, place)?;
    ToolFilter::new(patterns.iter().map(String::as_str)).map_err(|what| {
        reader.wrong(value, place, &format!("has a pattern that is no glob: {what}"))
    })
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

/// A token of HTTP.
fn is_header(name: &str) -> bool {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    !name.is_empty() && name.chars().all(is_token)
}
