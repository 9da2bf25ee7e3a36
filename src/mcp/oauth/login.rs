//! A login: registers a client, has the user agree in a browser, and exchanges the code that the
//! browser brings back for tokens.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::HeaderMap;
use percent_encoding::percent_decode_str;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::http_message::JSON;
use crate::oauth::discovery::{AuthorizationServer, METHOD, ProtectedServer, discover};
use crate::oauth::exchange::{self, form};
use crate::oauth::grants::{BASIC, Grant, GrantFile, NO_SECRET, OauthClient};
use crate::session::random;
use ctxfs_core::model::visible::{self, IN_LISTS};

// Time that the user has to agree.
const LOGIN_TIME: Duration = Duration::from_mins(10);
// Time limit for the head of a request of the browser, and its maximum length.
const HEAD_TIME: Duration = Duration::from_secs(5);
const MAX_HEAD: usize = 16 << 10;
const CALLBACK: &str = "/callback";
const OFFLINE: &str = "offline_access";

/// A login to the server at `url`. `scope` replaces the scopes that the server asks for. They are
/// separated by blanks. `client` is the id of a client that the authorization server knows already;
/// without it, a client is registered.
#[derive(Debug, Clone, Default)]
#[expect(missing_docs, reason = "described above")]
pub struct LoginOptions {
    pub url: String,
    pub scope: Option<String>,
    pub client: Option<String>,
}

/// Logs in, and stores the tokens in `file`. `show` gets the address that the user must open in a
/// browser of this machine. Waits until the user has agreed, for at most 10 minutes.
pub fn log_in(
    options: &LoginOptions,
    file: &GrantFile,
    show: &mut dyn FnMut(&str),
) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    runtime.block_on(async {
        let mut grant = agreed(options, file, show).await?;
        grant.wanted = None;
        let stored = file.put(&options.url, grant);
        stored.map_err(|error| format!("the tokens cannot be stored: {error}"))
    })
}

async fn agreed(
    options: &LoginOptions,
    file: &GrantFile,
    show: &mut dyn FnMut(&str),
) -> Result<Grant, String> {
    let ProtectedServer { resource, scopes, issuer } = discover(&options.url).await?;
    let known = file.get(&options.url).map_err(|error| error.to_string())?;
    let scope = options.scope.clone().or_else(|| scope(scopes.as_deref(), known.as_ref(), &issuer));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(|error| error.to_string())?;
    let port = listener.local_addr().map_err(|error| error.to_string())?.port();
    let redirect = format!("http://127.0.0.1:{port}{CALLBACK}");
    let client = match &options.client {
        Some(id) => OauthClient { id: id.clone(), ..OauthClient::default() },
        None => registered(&issuer, &redirect, scope.as_deref()).await?,
    };
    let (verifier, state) = (secret()?, secret()?);
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier.as_bytes()));
    let mut pairs = vec![
        ("response_type", "code"),
        ("client_id", &*client.id),
        ("redirect_uri", &*redirect),
        ("code_challenge", &*challenge),
        ("code_challenge_method", METHOD),
        ("state", &*state),
        ("resource", &*resource),
    ];
    pairs.extend(scope.as_deref().map(|scope| ("scope", scope)));
    let mark = if issuer.authorization.contains('?') { '&' } else { '?' };
    show(&format!("{}{mark}{}", issuer.authorization, form(&pairs)));
    let came = timeout(LOGIN_TIME, redirected(&listener, &state, &issuer)).await;
    let code = came.map_err(|_| "nobody has agreed in time".to_owned())??;
    let token_endpoint = issuer.token;
    let issuer = issuer.issuer;
    let mut grant = Grant { issuer, token_endpoint, resource, client, scope, ..Grant::default() };
    let pairs = [
        ("grant_type", "authorization_code"),
        ("code", &*code),
        ("redirect_uri", &*redirect),
        ("code_verifier", &*verifier),
    ];
    grant.request(&pairs).await?;
    Ok(grant)
}

/// Returns the scopes to ask for: the scopes that the server names, the granted ones if it has
/// missed others, and the scope for tokens that can be renewed.
fn scope(
    named: Option<&str>,
    known: Option<&Grant>,
    issuer: &AuthorizationServer,
) -> Option<String> {
    let wanted = known.and_then(|known| Some((known.wanted.as_deref()?, known.scope.as_deref())));
    let (wanted, granted) = wanted.unzip();
    let all = [named, wanted, granted.flatten()].into_iter().flatten();
    let offline = issuer.scopes.iter().map(String::as_str).filter(|scope| *scope == OFFLINE);
    let mut scopes: Vec<&str> = Vec::new();
    for scope in all.flat_map(str::split_whitespace).chain(offline) {
        if !scopes.contains(&scope) {
            scopes.push(scope);
        }
    }
    (!scopes.is_empty()).then(|| scopes.join(" "))
}

async fn registered(
    issuer: &AuthorizationServer,
    redirect: &str,
    scope: Option<&str>,
) -> Result<OauthClient, String> {
    let endpoint = issuer.registration.as_deref().ok_or_else(|| {
        let issuer = visible::escaped(&issuer.issuer, IN_LISTS);
        format!("`{issuer}` registers no clients: give the id of one that it knows")
    })?;
    let supported = &issuer.client_auth;
    let methods = [NO_SECRET, "client_secret_post", BASIC];
    let auth = methods.into_iter().find(|method| supported.iter().any(|known| known == method));
    let mut client = json!({
        "client_name": "ctxfs",
        "application_type": "native",
        "redirect_uris": [redirect],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": auth.unwrap_or(NO_SECRET),
    });
    if let Some(scope) = scope {
        client["scope"] = scope.into();
    }
    let answer = exchange::post(endpoint, JSON, HeaderMap::new(), client.to_string()).await?;
    let text = |name: &str| answer.json[name].as_str().map(str::to_owned);
    let id = text("client_id").filter(|_| answer.status.is_success()).ok_or_else(|| {
        format!(
            "`{}` registers no client: {}",
            visible::escaped(&issuer.issuer, IN_LISTS),
            answer.reason()
        )
    })?;
    let auth = text("token_endpoint_auth_method").or(auth.map(str::to_owned));
    Ok(OauthClient { id, secret: text("client_secret"), auth: auth.unwrap_or_default() })
}

/// Waits for the browser to come back with the code. Other requests, which anybody on this machine
/// can send, change nothing.
async fn redirected(
    listener: &TcpListener,
    state: &str,
    issuer: &AuthorizationServer,
) -> Result<String, String> {
    loop {
        let (mut stream, _) = listener.accept().await.map_err(|error| error.to_string())?;
        let asked = timeout(HEAD_TIME, target(&mut stream)).await.ok().flatten();
        let query = asked.as_deref().and_then(|target| target.strip_prefix(CALLBACK));
        let Some(query) = query.and_then(|query| query.strip_prefix('?')) else {
            tell(&mut stream, "404 Not Found", "There is nothing here.").await;
            continue;
        };
        let value = |name: &str| parameter(query, name);
        if value("state").as_deref() != Some(state) {
            tell(&mut stream, "400 Bad Request", "This is not of the login that runs.").await;
            continue;
        }
        let code = code(&value, issuer);
        let told = match &code {
            Ok(_) => "You are logged in. You may close this page.",
            Err(_) => "The login has failed. The terminal says why.",
        };
        tell(&mut stream, "200 OK", told).await;
        return code;
    }
}

fn code(
    value: &dyn Fn(&str) -> Option<String>,
    issuer: &AuthorizationServer,
) -> Result<String, String> {
    match value("iss") {
        Some(named) if named != issuer.issuer => {
            return Err(format!(
                "the answer is of `{}`, another issuer",
                visible::escaped(&named, IN_LISTS)
            ));
        }
        None if issuer.names_itself => return Err("the answer does not name its issuer".to_owned()),
        _ => {}
    }
    if let Some(error) = value("error") {
        let about =
            value("error_description").map_or_else(String::new, |about| format!(": {about}"));
        return Err(format!("it was refused: {}", visible::escaped(&(error + &about), IN_LISTS)));
    }
    value("code").ok_or_else(|| "the answer has no code".to_owned())
}

fn parameter(query: &str, name: &str) -> Option<String> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.find(|(key, _)| *key == name)?;
    let value = value.replace('+', " ");
    Some(percent_decode_str(&value).decode_utf8_lossy().into_owned())
}

/// Returns the target of a GET request.
async fn target(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") && head.len() < MAX_HEAD {
        let mut block = [0; 1024];
        match stream.read(&mut block).await {
            Ok(0) | Err(_) => return None,
            Ok(count) => head.extend_from_slice(&block[..count]),
        }
    }
    let line = String::from_utf8_lossy(head.split(|byte| *byte == b'\r').next()?).into_owned();
    let mut words = line.split(' ');
    (words.next()? == "GET").then(|| words.next().map(str::to_owned))?
}

async fn tell(stream: &mut TcpStream, status: &str, text: &str) {
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\n\
         cache-control: no-store\r\nconnection: close\r\n\r\n{text}",
        text.len()
    );
    // The browser may be gone.
    stream.write_all(answer.as_bytes()).await.ok();
    stream.shutdown().await.ok();
}

fn secret() -> Result<String, String> {
    Ok(URL_SAFE_NO_PAD.encode(random().map_err(|error| error.to_string())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn issuer(names_itself: bool) -> AuthorizationServer {
        AuthorizationServer {
            issuer: "https://a.example".to_owned(),
            authorization: String::new(),
            token: String::new(),
            registration: None,
            client_auth: Vec::new(),
            scopes: vec![OFFLINE.to_owned(), "other".to_owned()],
            names_itself,
        }
    }

    #[test]
    fn a_code_is_taken_from_its_issuer_alone() {
        let found =
            |query: &str, names_itself| code(&|name| parameter(query, name), &issuer(names_itself));
        let iss = "iss=https%3A%2F%2Fa.example";
        assert_eq!(found("code=a%2Bb+c", false).unwrap(), "a+b c");
        assert_eq!(found(&format!("code=x&{iss}"), true).unwrap(), "x");
        assert!(found("code=x", true).is_err());
        assert!(found("code=x&iss=https%3A%2F%2Fevil.example", false).is_err());
        assert!(found("error=access_denied&code=x", false).unwrap_err().contains("access_denied"));
        assert!(found("x=y", false).is_err());
    }

    #[test]
    fn scopes_are_asked_for_once_with_those_that_were_missed() {
        let issuer = issuer(false);
        let grant = |wanted: Option<&str>| Grant {
            scope: Some("read list".to_owned()),
            wanted: wanted.map(str::to_owned),
            ..Grant::default()
        };
        let asked =
            |named: Option<&str>, known: Option<&Grant>| scope(named, known, &issuer).unwrap();
        assert_eq!(asked(None, None), "offline_access");
        assert_eq!(asked(Some("read"), Some(&grant(None))), "read offline_access");
        assert_eq!(
            asked(Some("read"), Some(&grant(Some("write")))),
            "read write list offline_access"
        );
    }
}
