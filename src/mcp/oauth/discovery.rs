//! Finds the authorization server of an MCP server: from the challenge that refuses a request, or at
//! the well-known addresses (RFC 9728, RFC 8414, `OpenID` Connect Discovery).

use hyper::header::{self, HeaderValue};
use hyper::{HeaderMap, StatusCode, Uri};
use serde_json::{Value, json};

use crate::http_message::JSON;
use crate::oauth::exchange;

use crate::revision;
use ctxfs_core::model::visible::{self, IN_LISTS};

const PROTECTED: &str = "/.well-known/oauth-protected-resource";
const AUTHORIZATION: &str = "/.well-known/oauth-authorization-server";
const OPENID: &str = "/.well-known/openid-configuration";
pub(super) const METHOD: &str = "S256";

/// Content of a `WWW-Authenticate` header of the scheme `Bearer`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Challenge {
    pub(crate) metadata: Option<String>,
    pub(crate) scope: Option<String>,
    pub(crate) error: Option<String>,
}

/// A server that needs tokens. `resource` is its name in requests for tokens, and `scopes` are the
/// scopes to request.
#[derive(Debug)]
pub(super) struct ProtectedServer {
    pub(super) resource: String,
    pub(super) scopes: Option<String>,
    pub(super) issuer: AuthorizationServer,
}

/// An authorization server. `names_itself` is true if its redirects have its `issuer`, and
/// `takes_documents` if the id of a client may be the address of a document about it.
#[derive(Debug, Default)]
pub(super) struct AuthorizationServer {
    pub(super) issuer: String,
    pub(super) authorization: String,
    pub(super) token: String,
    pub(super) registration: Option<String>,
    pub(super) revocation: Option<String>,
    pub(super) client_auth: Vec<String>,
    pub(super) scopes: Vec<String>,
    pub(super) names_itself: bool,
    pub(super) takes_documents: bool,
}

impl Challenge {
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let mut values = headers.get_all(header::WWW_AUTHENTICATE).iter();
        values.find_map(|value| Self::parse(value.to_str().ok()?))
    }

    /// Parses challenges such as `Basic realm="x", Bearer scope="a b", resource_metadata="..."`.
    fn parse(value: &str) -> Option<Self> {
        let (mut found, mut is_bearer) = (None, false);
        for part in parts(value) {
            let (name, text) = part.split_once('=').unwrap_or((&part, ""));
            let name = match name.trim().rsplit_once(' ') {
                Some((scheme, name)) => {
                    is_bearer = scheme.trim().eq_ignore_ascii_case("bearer");
                    name
                }
                None if !part.contains('=') => {
                    is_bearer = name.trim().eq_ignore_ascii_case("bearer");
                    ""
                }
                None => name.trim(),
            };
            if !is_bearer {
                continue;
            }
            let challenge = found.get_or_insert_with(Self::default);
            let text = unquoted(text.trim());
            match &*name.to_ascii_lowercase() {
                "resource_metadata" => challenge.metadata = Some(text),
                "scope" => challenge.scope = Some(text),
                "error" => challenge.error = Some(text),
                _ => {}
            }
        }
        found
    }
}

/// Splits a header value at commas outside quotes.
fn parts(value: &str) -> Vec<String> {
    let (mut parts, mut is_quoted, mut is_escaped) = (vec![String::new()], false, false);
    for c in value.chars() {
        match c {
            ',' if !is_quoted => {
                parts.push(String::new());
                continue;
            }
            '"' if !is_escaped => is_quoted = !is_quoted,
            _ => {}
        }
        is_escaped = c == '\\' && is_quoted && !is_escaped;
        parts.last_mut().into_iter().for_each(|part| part.push(c));
    }
    parts
}

fn unquoted(text: &str) -> String {
    let Some(inner) = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) else {
        return text.to_owned();
    };
    let mut plain = String::new();
    let mut escaped = false;
    for c in inner.chars() {
        escaped = c == '\\' && !escaped;
        if !escaped {
            plain.push(c);
        }
    }
    plain
}

/// Finds the authorization server, the resource name and the scopes for the server at `url`.
pub(super) async fn discover(url: &str) -> Result<ProtectedServer, String> {
    let server = exchange::checked(url)?;
    let challenge = challenged(url).await?.unwrap_or_default();
    let (metadata, resource) = protected(&server, challenge.metadata.as_deref()).await?;
    let issuers = metadata["authorization_servers"].as_array();
    let issuer = issuers.and_then(|issuers| issuers.first()?.as_str());
    let issuer = issuer.ok_or("the metadata of the server name no authorization server")?;
    let issuer = authorization_server(issuer, &server).await?;
    let scopes = challenge.scope.or_else(|| Some(words(&metadata["scopes_supported"])?.join(" ")));
    Ok(ProtectedServer { resource, scopes, issuer })
}

/// Sends first requests without a token. Returns the challenge with which one is refused. Some
/// servers answer `initialize` to anybody.
async fn challenged(url: &str) -> Result<Option<Challenge>, String> {
    let mut headers = HeaderMap::new();
    let accept = HeaderValue::from_static("application/json, text/event-stream");
    headers.insert(header::ACCEPT, accept);
    let introduction = json!({
        "protocolVersion": revision::negotiated(""), "capabilities": {},
        "clientInfo": {"name": "ctxfs", "version": env!("CARGO_PKG_VERSION")},
    });
    for (method, params) in [("initialize", introduction), ("tools/list", json!({}))] {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let answer = exchange::post(url, JSON, headers.clone(), request.to_string()).await?;
        if answer.status == StatusCode::UNAUTHORIZED {
            return Ok(Challenge::of(&answer.headers));
        }
    }
    Ok(None)
}

/// Checks an address that a server or its metadata name. Only a server on this machine may name
/// another address on this machine, so that no other has requests sent to programs here.
fn checked(url: &str, server: &Uri) -> Result<Uri, String> {
    let uri = exchange::checked(url)?;
    if uri.scheme() != server.scheme() && server.scheme_str() == Some("https") {
        let url = visible::escaped(url, IN_LISTS);
        return Err(format!("the address `{url}` is on this machine, and the server is not"));
    }
    Ok(uri)
}

async fn protected(uri: &Uri, named: Option<&str>) -> Result<(Value, String), String> {
    let path = uri.path().trim_end_matches('/');
    let known = [format!("{PROTECTED}{path}"), PROTECTED.to_owned()];
    let known = known.iter().map(|path| on(uri, path));
    let addresses = match named {
        Some(named) => {
            checked(named, uri)?;
            vec![named.to_owned()]
        }
        None => known.collect(),
    };
    let (found, address) = first_json(&addresses)
        .await
        .ok_or("the server names no authorization server: it may need no login")?;
    let resource = found["resource"].as_str().unwrap_or_default().to_owned();
    if !covers(&resource, uri) {
        let (resource, address) =
            (visible::escaped(&resource, IN_LISTS), visible::escaped(&address, IN_LISTS));
        return Err(format!("`{address}` is about `{resource}`, which is another server"));
    }
    Ok((found, resource))
}

/// Returns true if `resource` names the server at `uri`: it has the same origin, and its path leads
/// to the server.
fn covers(resource: &str, uri: &Uri) -> bool {
    let Ok(named) = resource.parse::<Uri>() else { return false };
    let below = uri.path().strip_prefix(named.path().trim_end_matches('/'));
    named.scheme() == uri.scheme()
        && named.authority().map(|it| it.as_str().to_ascii_lowercase())
            == uri.authority().map(|it| it.as_str().to_ascii_lowercase())
        && below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

async fn authorization_server(issuer: &str, server: &Uri) -> Result<AuthorizationServer, String> {
    let uri = checked(issuer, server)?;
    let path = uri.path().trim_end_matches('/');
    let mut paths = vec![format!("{AUTHORIZATION}{path}"), format!("{OPENID}{path}")];
    if !path.is_empty() {
        paths.push(format!("{path}{OPENID}"));
    }
    let addresses: Vec<String> = paths.iter().map(|path| on(&uri, path)).collect();
    let found = first_json(&addresses).await;
    let (found, address) =
        found.ok_or_else(|| format!("`{}` has no metadata", visible::escaped(issuer, IN_LISTS)))?;
    let text = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
    let named = text("issuer");
    if named.trim_end_matches('/') != issuer.trim_end_matches('/') {
        let (address, named) =
            (visible::escaped(&address, IN_LISTS), visible::escaped(&named, IN_LISTS));
        return Err(format!("`{address}` is about `{named}`, which is another issuer"));
    }
    let methods = words(&found["code_challenge_methods_supported"]).unwrap_or_default();
    if !methods.iter().any(|method| method == METHOD) {
        return Err(format!("`{named}` does not support PKCE, without which no login is safe"));
    }
    let (authorization, token) = (text("authorization_endpoint"), text("token_endpoint"));
    let optional = |name: &str| found[name].as_str().map(str::to_owned);
    let registration = optional("registration_endpoint");
    let revocation = optional("revocation_endpoint");
    for endpoint in [&authorization, &token].into_iter().chain(&registration).chain(&revocation) {
        checked(endpoint, server)?;
    }
    Ok(AuthorizationServer {
        authorization,
        token,
        registration,
        revocation,
        client_auth: words(&found["token_endpoint_auth_methods_supported"]).unwrap_or_default(),
        scopes: words(&found["scopes_supported"]).unwrap_or_default(),
        names_itself: found["authorization_response_iss_parameter_supported"] == true,
        takes_documents: found["client_id_metadata_document_supported"] == true,
        issuer: named,
    })
}

/// Returns the first answer that is a JSON object, and its address.
async fn first_json(addresses: &[String]) -> Option<(Value, String)> {
    for address in addresses {
        match exchange::get(address).await {
            Ok(answer) if answer.status == StatusCode::OK && answer.json.is_object() => {
                return Some((answer.json, address.clone()));
            }
            Ok(answer) => tracing::debug!("`{address}`: {}", answer.status),
            Err(why) => tracing::debug!("{why}"),
        }
    }
    None
}

fn on(uri: &Uri, path: &str) -> String {
    let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
    format!("{}://{authority}{path}", uri.scheme_str().unwrap_or_default())
}

fn words(list: &Value) -> Option<Vec<String>> {
    Some(list.as_array()?.iter().filter_map(|word| Some(word.as_str()?.to_owned())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_is_found_among_others() {
        let all = r#"Basic realm="a, b", Bearer error="insufficient_scope", scope="read write",resource_metadata="https://a.example/m?x=1,2", error_description="say \"please\"""#;
        let found = Challenge::parse(all).unwrap();
        assert_eq!(found.metadata.as_deref(), Some("https://a.example/m?x=1,2"));
        assert_eq!(found.scope.as_deref(), Some("read write"));
        assert_eq!(found.error.as_deref(), Some("insufficient_scope"));
        assert_eq!(Challenge::parse("bearer"), Some(Challenge::default()));
        assert_eq!(Challenge::parse("Bearer, Basic scope=x"), Some(Challenge::default()));
        let plain = Challenge::parse("Bearer scope=x").unwrap();
        assert_eq!(plain.scope.as_deref(), Some("x"));
        assert_eq!(Challenge::parse(r#"Basic scope="x""#), None);
    }

    #[test]
    fn only_a_server_on_this_machine_names_addresses_on_this_machine() {
        let (here, there) = ("http://127.0.0.1:8/mcp", "https://a.example/mcp");
        let taken = |url: &str, server: &str| checked(url, &server.parse().unwrap()).is_ok();
        assert!(taken("http://localhost/token", here) && taken("https://b.example/token", here));
        assert!(taken("https://b.example/token", there));
        assert!(!taken("http://localhost/token", there));
    }

    #[test]
    fn metadata_of_another_server_are_refused() {
        let uri: Uri = "https://a.example/team/mcp".parse().unwrap();
        for resource in [
            "https://a.example/team/mcp",
            "https://A.example/team",
            "https://a.example",
            "https://a.example/",
        ] {
            assert!(covers(resource, &uri), "{resource}");
        }
        for resource in [
            "https://b.example/team/mcp",
            "http://a.example/team/mcp",
            "https://a.example/tea",
            "https://a.example/team/mcp/more",
            "https://a.example:8443/team/mcp",
            "",
        ] {
            assert!(!covers(resource, &uri), "{resource}");
        }
    }
}
