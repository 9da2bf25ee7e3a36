//! A login: chooses a client, has the user agree in a browser, and exchanges the code that the
//! browser brings back for tokens. Also the logout.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use percent_encoding::percent_decode_str;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::config::ClientOptions;
use crate::http_message::JSON;
use crate::oauth::discovery::{AuthorizationServer, METHOD, ProtectedServer, discover};
use crate::oauth::exchange::{self, form};
use crate::oauth::grants::{BASIC, Grant, GrantFile, NO_SECRET, OauthClient, POST};
use crate::session::random;
use ctxfs_core::model::visible::{self, IN_LISTS};

// Time that the user has to agree.
const LOGIN_TIME: Duration = Duration::from_mins(10);
// Time limit for a connection of the browser, and their maximum number at a time.
const VISIT_TIME: Duration = Duration::from_secs(5);
const MAX_VISITS: usize = 64;
const CALLBACK: &str = "/callback";
const OFFLINE: &str = "offline_access";

/// A login to the server at `url`. `scope` replaces the scopes that the server asks for. They are
/// separated by blanks.
#[derive(Debug, Clone, Default)]
#[expect(missing_docs, reason = "described above")]
pub struct LoginOptions {
    pub url: String,
    pub scope: Option<String>,
    pub client: ClientOptions,
}

/// Logs in, and stores the tokens in `file`. `show` gets the address that the user must open in a
/// browser of this machine. Waits until the user has agreed, for at most 10 minutes.
pub fn log_in(
    options: &LoginOptions,
    file: &GrantFile,
    show: &mut dyn FnMut(&str),
) -> Result<(), String> {
    let grant = run(agreed(options, file, show))?;
    let stored = file.change(|grants| {
        grants.insert(options.url.clone(), grant);
        Some(())
    });
    stored.map(drop).map_err(|error| format!("the tokens cannot be stored: {error}"))
}

/// Removes the tokens for the server at `url` from `file`, and has them revoked if the authorization
/// server offers that. Returns false if there were none. Fails if they cannot be revoked; they are
/// removed all the same.
pub fn log_out(url: &str, file: &GrantFile) -> Result<bool, String> {
    run(async {
        let renewals = file.lock_renewals(url).await;
        let removed = renewals.and_then(|_lock| file.change(|grants| grants.remove(url)));
        let removed = removed.map_err(|error| format!("the tokens cannot be removed: {error}"))?;
        let Some(grant) = removed else { return Ok(false) };
        let revoked = grant.revoke().await;
        revoked.map_err(|why| format!("the tokens are removed here, but not revoked: {why}"))?;
        Ok(true)
    })
}

fn run<T>(exchange: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(exchange)
}

async fn agreed(
    options: &LoginOptions,
    file: &GrantFile,
    show: &mut dyn FnMut(&str),
) -> Result<Grant, String> {
    let ProtectedServer { resource, scopes, issuer } = discover(&options.url).await?;
    let known = file.get(&options.url).map_err(|error| error.to_string())?;
    let scope = options.scope.clone().or_else(|| scope(scopes.as_deref(), known.as_ref(), &issuer));
    let port = options.client.port.unwrap_or_default();
    let listener = TcpListener::bind(("127.0.0.1", port)).await;
    let listener = listener.map_err(|error| format!("port {port} cannot be used: {error}"))?;
    let port = listener.local_addr().map_err(|error| error.to_string())?.port();
    let redirect = format!("http://127.0.0.1:{port}{CALLBACK}");
    let client = match chosen(&options.client, known.as_ref(), &issuer)? {
        Some(client) => client,
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
    let issuer = Arc::new(issuer);
    let came = timeout(LOGIN_TIME, redirected(&listener, &state, &issuer)).await;
    let code = came.map_err(|_| "nobody has agreed in time".to_owned())??;
    let mut grant = Grant {
        issuer: issuer.issuer.clone(),
        token_endpoint: issuer.token.clone(),
        revocation_endpoint: issuer.revocation.clone(),
        resource,
        client,
        scope,
        ..Grant::default()
    };
    let pairs = [
        ("grant_type", "authorization_code"),
        ("code", &*code),
        ("redirect_uri", &*redirect),
        ("code_verifier", &*verifier),
    ];
    grant.request(&pairs).await?;
    Ok(grant)
}

/// Returns the configured client, or `None` if a client must be registered. A client that the
/// authorization server of the last login knows is not presented to another one.
fn chosen(
    options: &ClientOptions,
    known: Option<&Grant>,
    issuer: &AuthorizationServer,
) -> Result<Option<OauthClient>, String> {
    let Some(id) = &options.id else {
        let document = options.document.as_ref().filter(|_| issuer.takes_documents);
        return document.map(|url| document_client(url)).transpose();
    };
    let other = known.filter(|known| known.client.id == *id && known.issuer != issuer.issuer);
    if let Some(known) = other {
        return Err(format!(
            "the client is known to `{}`, and the server names `{}` now: log out first if you \
                 trust that",
            visible::escaped(&known.issuer, IN_LISTS),
            visible::escaped(&issuer.issuer, IN_LISTS)
        ));
    }
    let secret = options.secret.as_ref().map(|secret| secret.reveal().to_owned());
    let takes = |method: &str| issuer.client_auth.iter().any(|known| known == method);
    let auth = match &secret {
        None => NO_SECRET,
        Some(_) if takes(POST) && !takes(BASIC) => POST,
        Some(_) => BASIC,
    };
    Ok(Some(OauthClient { id: id.clone(), secret, auth: auth.to_owned() }))
}

fn document_client(url: &str) -> Result<OauthClient, String> {
    let uri = exchange::checked(url)?;
    if uri.scheme_str() != Some("https") || uri.path() == "/" || url.contains('#') {
        let url = visible::escaped(url, IN_LISTS);
        return Err(format!("`{url}` is not the https address of a document"));
    }
    Ok(OauthClient { id: url.to_owned(), secret: None, auth: NO_SECRET.to_owned() })
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
    let methods = [NO_SECRET, POST, BASIC];
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
    issuer: &Arc<AuthorizationServer>,
) -> Result<String, String> {
    let mut visits = JoinSet::new();
    loop {
        tokio::select! {
            Some(visit) = visits.join_next() => {
                if let Ok(Some(code)) = visit {
                    return code;
                }
            }
            accepted = listener.accept(), if visits.len() < MAX_VISITS => {
                let (stream, _) = accepted.map_err(|error| error.to_string())?;
                visits.spawn(visit(stream, state.to_owned(), Arc::clone(issuer)));
            }
        }
    }
}

/// Answers one request. Returns the code, or why there is none, if the request has `state`.
async fn visit(
    stream: TcpStream,
    state: String,
    issuer: Arc<AuthorizationServer>,
) -> Option<Result<String, String>> {
    let found = Mutex::new(None);
    let answer = service_fn(|request: Request<Incoming>| {
        let query = request.uri().query().unwrap_or_default();
        let value = |name: &str| parameter(query, name);
        let (status, text) = if request.method() != Method::GET || request.uri().path() != CALLBACK
        {
            (StatusCode::NOT_FOUND, "There is nothing here.")
        } else if value("state").as_deref() != Some(&*state) {
            (StatusCode::BAD_REQUEST, "This is not of the login that runs.")
        } else {
            let code = code(&value, &issuer);
            let told = match &code {
                Ok(_) => "You are logged in. You may close this page.",
                Err(_) => "The login has failed. The terminal says why.",
            };
            *found.lock() = Some(code);
            (StatusCode::OK, told)
        };
        let answer = Response::builder()
            .status(status)
            .header(header::CONTENT_TYPE, "text/plain; charset=utf-8")
            .header(header::CACHE_CONTROL, "no-store")
            .body(text.to_owned());
        ready(answer)
    });
    let served =
        http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), answer);
    // The browser may be gone.
    timeout(VISIT_TIME, served).await.ok();
    found.into_inner()
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

fn secret() -> Result<String, String> {
    Ok(URL_SAFE_NO_PAD.encode(random().map_err(|error| error.to_string())?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Secret;

    fn issuer(names_itself: bool) -> AuthorizationServer {
        AuthorizationServer {
            issuer: "https://a.example".to_owned(),
            scopes: vec![OFFLINE.to_owned(), "other".to_owned()],
            names_itself,
            ..AuthorizationServer::default()
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

    #[test]
    fn a_configured_client_is_used_as_the_authorization_server_takes_it() {
        let mut issuer = issuer(false);
        let id = Some("known".to_owned());
        let with_secret =
            ClientOptions { id, secret: Some(Secret::new("s3cret")), ..ClientOptions::default() };
        for (methods, auth) in [
            (vec![], BASIC),
            (vec![POST], POST),
            (vec![POST, BASIC], BASIC),
            (vec!["private_key_jwt"], BASIC),
        ] {
            issuer.client_auth = methods.into_iter().map(str::to_owned).collect();
            let client = chosen(&with_secret, None, &issuer).unwrap().unwrap();
            assert_eq!((&*client.auth, client.secret.as_deref()), (auth, Some("s3cret")));
        }
        let other = Grant {
            issuer: "https://b.example".to_owned(),
            client: OauthClient { id: "known".to_owned(), ..OauthClient::default() },
            ..Grant::default()
        };
        let refused = chosen(&with_secret, Some(&other), &issuer).err();
        assert!(refused.unwrap().contains("b.example"));

        let document = |url: &str, issuer: &AuthorizationServer| {
            let document = Some(url.to_owned());
            chosen(&ClientOptions { document, ..ClientOptions::default() }, None, issuer)
        };
        assert!(document("https://c.example/c.json", &issuer).unwrap().is_none());
        issuer.takes_documents = true;
        let client = document("https://c.example/c.json", &issuer).unwrap().unwrap();
        assert_eq!((&*client.id, &*client.auth), ("https://c.example/c.json", NO_SECRET));
        for url in ["http://127.0.0.1/c.json", "https://c.example", "https://c.example/c#x", "c"] {
            assert!(document(url, &issuer).is_err(), "{url}");
        }
    }
}
