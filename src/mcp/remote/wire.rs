//! Requests over HTTP to one server.

use hyper::body::Incoming;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Uri, header};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use parking_lot::Mutex;

use crate::json_body::JsonBody;
use crate::message::Outgoing;
use crate::remote::address::RemoteServer;
use ctxfs_models::http_client::{HttpClient, causes};

/// The most redirections of a request.
const REDIRECTIONS: usize = 3;

/// The connections to a server.
pub(super) struct Wire {
    client: HttpClient<JsonBody>,
    url: Mutex<Uri>,
    /// The headers of every request.
    headers: HeaderMap,
}

impl Wire {
    /// The error says what is wrong with the address.
    pub(super) fn new(server: &RemoteServer) -> Result<Self, String> {
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
        Ok(Self { client, url: Mutex::new(url), headers })
    }

    /// Sends a request, and waits for the head of its answer. Follows the server to another path.
    pub(super) async fn send(
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

    /// Notes that the server has moved, which it may on its own host alone: the headers are for
    /// nobody else.
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
