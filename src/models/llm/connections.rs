//! The connections to an endpoint, and the thread that drives them.

use std::time::Duration;
use std::{io, thread};

use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::client::legacy::{Builder, Client, Error};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::runtime;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::http_client::HttpClient;

/// The time that an unused connection stays open: less than most servers keep theirs.
const IDLE: Duration = Duration::from_secs(30);
/// The most unused connections.
const MOST_IDLE: usize = 8;
/// The most bytes of the head of an answer.
const MOST_HEAD: usize = 64 * 1024;

/// The connections to an endpoint. They end with it.
pub(super) struct Connections {
    client: HttpClient<String>,
    handle: Handle,
    /// Ends the thread when it is dropped.
    _end: oneshot::Sender<()>,
}

impl Connections {
    /// Starts the thread. Secure connections need the certificates of this system.
    pub(super) fn new(is_secure: bool) -> io::Result<Self> {
        let client = HttpClient::new(&builder(), is_secure)?;
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel::<()>();
        // Callers run their requests themselves; this thread runs connections and clocks for them,
        // also after a request was left, so that its connection closes.
        thread::Builder::new().name("llm".to_owned()).spawn(move || {
            let _ended = runtime.block_on(ended);
            // A look-up of a name that hangs must not hold the process.
            runtime.shutdown_background();
        })?;
        Ok(Self { client, handle, _end: end })
    }

    /// Runs `what` on the calling thread, which must not be one that runs asynchronous code.
    pub(super) fn run<T>(&self, what: impl Future<Output = T>) -> T {
        self.handle.block_on(what)
    }

    /// Sends a request, and waits for the head of its answer. If it is dropped before the answer
    /// has ended, the connection closes.
    pub(super) async fn send(&self, request: Request<String>) -> Result<Response<Incoming>, Error> {
        self.client.send(request).await
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
