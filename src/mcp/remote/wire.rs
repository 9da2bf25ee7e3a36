//! HTTP requests to one server.

use hyper::body::Incoming;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use parking_lot::Mutex;

use crate::http_message::{JsonBody, METHOD, NAME, VERSION, encoded};
use crate::json_rpc::{MessageKind, Parsed};
use crate::message::Outgoing;
use crate::oauth::discovery::Challenge;
use crate::oauth::grants::ServerGrant;
use crate::options::{RemoteServer, ServerLogin};
use ctxfs_models::http_client::{HttpClient, causes};

const REDIRECTIONS: usize = 3;

/// `login` has the tokens, unless the configured headers have one, and the command that gets them.
pub(crate) struct Wire {
    client: HttpClient<JsonBody>,
    url: Mutex<Uri>,
    headers: HeaderMap,
    login: Option<(ServerGrant, String)>,
}

impl Wire {
    pub(crate) fn new(server: &RemoteServer) -> Result<Self, String> {
        let url: Uri = server.url.parse().map_err(|error| format!("has no valid URL: {error}"))?;
        let is_secure = match url.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err("has a URL that is neither http:// nor https://".to_owned()),
        };
        let builder = Client::builder(TokioExecutor::new());
        let client = HttpClient::new(&builder, is_secure).map_err(|error| {
            format!("cannot be trusted: this system has no certificates: {error}")
        })?;
        let headers = headers(&server.headers)?;
        let login = server.login.as_ref().filter(|_| !headers.contains_key(header::AUTHORIZATION));
        let login = login.map(|ServerLogin { file, command }| {
            (ServerGrant::new(file.clone(), server.url.clone()), command.clone())
        });
        Ok(Self { client, url: Mutex::new(url), headers, login })
    }

    /// Sends a request with the token for the server, if there is one. A request that is refused for
    /// its token is sent once more with a new one.
    pub(crate) async fn send(
        &self,
        method: Method,
        headers: &HeaderMap,
        message: &Outgoing,
    ) -> Result<Response<Incoming>, String> {
        let Some((grant, command)) = &self.login else {
            return self.send_on(method, headers, message).await;
        };
        let login = |why: &str| format!("needs a login, as {why}: run `{command}`");
        let token = grant.token().await.map_err(|why| login(&why))?;
        let with = |token: Option<&str>| {
            let mut headers = headers.clone();
            let value =
                token.and_then(|token| HeaderValue::from_str(&format!("Bearer {token}")).ok());
            if let Some(mut value) = value {
                value.set_sensitive(true);
                headers.insert(header::AUTHORIZATION, value);
            }
            headers
        };
        let sent = self.send_on(method.clone(), &with(token.as_deref()), message).await;
        let mut response = sent?;
        if let Some(token) = token.filter(|_| response.status() == StatusCode::UNAUTHORIZED) {
            let token = grant.renewed(&token).await.map_err(|why| login(&why))?;
            response = self.send_on(method, &with(Some(&token)), message).await?;
        }
        let Some(challenge) = Challenge::of(response.headers()) else { return Ok(response) };
        match response.status() {
            StatusCode::UNAUTHORIZED => Err(login("it takes no request without a valid token")),
            StatusCode::FORBIDDEN if challenge.error.as_deref() == Some("insufficient_scope") => {
                grant.want(&challenge).await;
                let scope = challenge.scope.unwrap_or_default();
                Err(login(&format!("the token does not cover this request (scope `{scope:.200}`)")))
            }
            _ => Ok(response),
        }
    }

    async fn send_on(
        &self,
        method: Method,
        headers: &HeaderMap,
        message: &Outgoing,
    ) -> Result<Response<Incoming>, String> {
        for _ in 0..=REDIRECTIONS {
            let response = self.send_once(method.clone(), headers, message.clone()).await?;
            let is_moved = matches!(
                response.status(),
                StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
            );
            if !is_moved {
                return Ok(response);
            }
            self.follow(&response)?;
        }
        Err("redirects without end".to_owned())
    }

    async fn send_once(
        &self,
        method: Method,
        headers: &HeaderMap,
        message: Outgoing,
    ) -> Result<Response<Incoming>, String> {
        let mut request = Request::new(JsonBody::new(message));
        *request.method_mut() = method;
        *request.uri_mut() = self.url.lock().clone();
        *request.headers_mut() = self.headers.clone();
        request.headers_mut().extend(headers.clone());
        self.client.send(request).await.map_err(|error| {
            let what = if error.is_connect() { "cannot be reached" } else { "did not answer" };
            format!("{what}: {}", causes(&error))
        })
    }

    fn follow(&self, response: &Response<Incoming>) -> Result<(), String> {
        let to = response.headers().get(header::LOCATION).and_then(|to| to.to_str().ok());
        let to = to.unwrap_or_default();
        let mut url = self.url.lock();
        let there: Option<Uri> = if to.starts_with('/') && !to.starts_with("//") {
            let authority = url.authority().map(ToString::to_string).unwrap_or_default();
            format!("{}://{authority}{to}", url.scheme_str().unwrap_or_default()).parse().ok()
        } else {
            to.parse().ok()
        };
        let is_same =
            |there: &Uri| there.scheme() == url.scheme() && there.authority() == url.authority();
        *url = there.filter(is_same).ok_or_else(|| format!("redirects to `{to:.200}`"))?;
        Ok(())
    }
}

fn headers(given: &[(String, String)]) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    let agent = concat!("ctxfs/", env!("CARGO_PKG_VERSION"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
    for (name, value) in given {
        let wrong = || format!("has a header `{name}` that HTTP does not allow");
        let key: HeaderName = name.parse().map_err(|_| wrong())?;
        let mut value = HeaderValue::from_str(value).map_err(|_| wrong())?;
        value.set_sensitive(true);
        headers.insert(key, value);
    }
    Ok(headers)
}

/// The parts of a message that are repeated in HTTP headers. `number` is set for requests.
/// `revision` is set if the message states its revision, as messages since 2026-07-28 do.
#[derive(Default)]
pub(crate) struct RequestHead {
    pub(crate) method: Option<String>,
    pub(crate) number: Option<u64>,
    pub(crate) revision: Option<String>,
    name: Option<String>,
}

impl RequestHead {
    pub(crate) fn of(message: &Outgoing) -> Option<Self> {
        let parsed = Parsed::of(message.outline()).ok()?;
        let (method, number) = match &parsed.envelope.kind {
            MessageKind::Request { method } => {
                (Some(method.clone()), parsed.envelope.id(&parsed.message)?.parse().ok())
            }
            MessageKind::Notification { method } => (Some(method.clone()), None),
            MessageKind::Response { .. } => (None, None),
        };
        let name = method.as_deref().and_then(|method| parsed.named(method));
        Some(Self { method, number, revision: parsed.revision(), name })
    }

    pub(crate) fn is(&self, method: &str) -> bool {
        self.method.as_deref() == Some(method)
    }

    pub(crate) fn opens(&self) -> bool {
        self.is("initialize") || self.is("server/discover")
    }

    pub(crate) fn add_to(&self, headers: &mut HeaderMap) {
        let Some(revision) = &self.revision else { return };
        let values = [
            (&VERSION, Some(revision)),
            (&METHOD, self.method.as_ref()),
            (&NAME, self.name.as_ref()),
        ];
        for (name, value) in values {
            let value = value.and_then(|value| HeaderValue::from_str(&encoded(value)).ok());
            if let Some(value) = value {
                headers.insert(name, value);
            }
        }
    }
}
