//! The endpoint of a model: its connections, the thread that runs them, and a single request.

use std::time::Duration;
use std::{io, thread};

use hyper::body::Incoming;
use hyper::{HeaderMap, Method, Request, Response, StatusCode, header};
use hyper_util::client::legacy::{Builder, Client};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::runtime;
use tokio::sync::oneshot;

use crate::extract::{ModelReply, ProviderKind, TokenUsage};
use crate::http_client::HttpClient;
use crate::llm::address::Address;
use crate::llm::fault::{AttemptFault, Complaint, FaultKind, Hint, MOST_ERROR};
use crate::llm::patience::WaitLimit;
use crate::llm::{patience, reading};

const ERROR_TEXT: Duration = Duration::from_secs(10);

pub(super) struct ModelEndpoint {
    pub(super) kind: ProviderKind,
    pub(super) address: Address,
    pub(super) headers: HeaderMap,
    pub(super) connections: EndpointConnections,
}

impl ModelEndpoint {
    pub(super) async fn attempt(
        &self,
        body: String,
        patience: WaitLimit<'_>,
    ) -> Result<ModelReply, AttemptFault> {
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.address.uri().clone();
        *request.headers_mut() = self.headers.clone();
        let sent = patience.wait_for(self.connections.client.send(request)).await;
        let response =
            sent.map_err(|late| AttemptFault::from(late).costing(TokenUsage::default()))?;
        let response = response.map_err(|error| {
            let (what, hint) = if error.is_connect() {
                ("cannot be reached", Hint::Server)
            } else {
                ("did not answer", Hint::Later)
            };
            AttemptFault::new(FaultKind::Passing(None), what, hint).caused_by(&error)
        })?;
        if response.status() != StatusCode::OK {
            return Err(refused(response, patience).await);
        }
        reading::read(response.into_body(), self.kind, patience).await
    }
}

async fn refused(response: Response<Incoming>, patience: WaitLimit<'_>) -> AttemptFault {
    let status = response.status();
    if status.is_redirection() {
        return redirected(&response);
    }
    let asked = patience::asked_for(response.headers());
    let (mut body, mut text) = (response.into_body(), Vec::new());
    let patience = patience.at_most(ERROR_TEXT);
    while text.len() < MOST_ERROR {
        match patience.wait_for(reading::next(&mut body)).await.map_err(AttemptFault::from) {
            Ok(Some(Ok(bytes))) => text.extend_from_slice(&bytes),
            Err(fault) if fault.kind == FaultKind::Stopped => return fault,
            // The status alone is sufficient.
            _ => break,
        }
    }
    AttemptFault::of_status(status, Complaint::read(&text), asked)
}

/// Returns the fault for a redirection. Redirections are not followed, because the key would be
/// sent to the new address.
fn redirected(response: &Response<Incoming>) -> AttemptFault {
    let to = response.headers().get(header::LOCATION).map(header::HeaderValue::as_bytes);
    let to = String::from_utf8_lossy(to.unwrap_or_default());
    let to = to.split(['?', '#']).next().unwrap_or_default().to_owned();
    let what = format!("answered {}, a redirection, which is not followed", response.status());
    AttemptFault::new(FaultKind::Rejected, what, Hint::Address).saying(to)
}

/// Time for which an unused connection stays open. Most servers keep it open for longer.
const IDLE: Duration = Duration::from_secs(30);
const MOST_IDLE: usize = 8;
const MOST_HEAD: usize = 64 * 1024;

/// The connections to an endpoint, and the thread that runs them. Dropping this value ends both.
pub(super) struct EndpointConnections {
    pub(super) client: HttpClient<String>,
    /// A handle to the runtime of the thread. Its `block_on` runs a future on the calling thread,
    /// which must not be running asynchronous code.
    pub(super) handle: tokio::runtime::Handle,
    _end: oneshot::Sender<()>,
}

impl EndpointConnections {
    /// Starts the thread. Secure connections need the system's certificates.
    pub(super) fn new(is_secure: bool) -> io::Result<Self> {
        let client = HttpClient::new(&builder(), is_secure)?;
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel::<()>();
        // Callers run their requests on their own threads. This thread runs connections and timers
        // for them. The thread outlives an abandoned request, so that it can close the connection
        // of this request.
        thread::Builder::new().name("llm".to_owned()).spawn(move || {
            let _ended = runtime.block_on(ended);
            // A name lookup that hangs must not keep the process alive.
            runtime.shutdown_background();
        })?;
        Ok(Self { client, handle, _end: end })
    }
}

fn builder() -> Builder {
    let mut builder = Client::builder(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(MOST_IDLE)
        .http1_max_buf_size(MOST_HEAD);
    builder
}
