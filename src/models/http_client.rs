//! HTTP clients: connections, errors with their causes, and the lines of event streams.

use std::error::Error;
use std::time::Duration;
use std::{fmt, io};

use hyper::body::{Body, Incoming};
use hyper::{Request, Response};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{self, Builder, Client};

const CONNECT: Duration = Duration::from_secs(10);
/// Time without traffic after which the kernel probes a connection.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Pool of connections for requests with bodies of type `B`, over `http` or over `https`.
#[expect(missing_docs, reason = "described above")]
pub enum HttpClient<B> {
    Plain(Client<HttpConnector, B>),
    Secure(Client<HttpsConnector<HttpConnector>, B>),
}

impl<B> fmt::Debug for HttpClient<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient").finish_non_exhaustive()
    }
}

impl<B> HttpClient<B>
where
    B: Body + Send + Unpin + 'static,
    B::Data: bytes::Buf + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    /// Creates a client for `https`, or for `http` if `is_secure` is false. A secure client needs
    /// the system's certificates, and fails if they are missing.
    pub fn new(builder: &Builder, is_secure: bool) -> io::Result<Self> {
        let mut connector = HttpConnector::new();
        connector.set_connect_timeout(Some(CONNECT));
        connector.set_keepalive(Some(KEEP_ALIVE));
        connector.set_nodelay(true);
        if !is_secure {
            return Ok(Self::Plain(builder.build(connector)));
        }
        connector.enforce_http(false);
        let connector = HttpsConnectorBuilder::new()
            .with_native_roots()?
            .https_only()
            .enable_http1()
            .wrap_connector(connector);
        Ok(Self::Secure(builder.build(connector)))
    }

    /// Sends a request and waits for the head of the response. Dropping the future closes the
    /// connection, and so does dropping the response before its end.
    pub async fn send(&self, request: Request<B>) -> Result<Response<Incoming>, legacy::Error> {
        match self {
            Self::Plain(client) => client.request(request).await,
            Self::Secure(client) => client.request(request).await,
        }
    }
}

/// Returns the text of an error, followed by its causes.
pub fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.ends_with(&more) {
            text += ": ";
            text += &more;
        }
        cause = error.source();
    }
    text
}

/// Splits a stream of server-sent events into lines. The stream may arrive in pieces. Lines end
/// with a newline, a carriage return, or both.
#[derive(Debug, Default)]
pub struct LineEnds {
    /// True if the last byte was a carriage return. A newline may follow it.
    after_return: bool,
}

impl LineEnds {
    /// Removes the next part of a line from `bytes`. Returns the part, and true if the line ends
    /// after it. Returns `None` if `bytes` is empty.
    pub fn next_part<'a>(&mut self, bytes: &mut &'a [u8]) -> Option<(&'a [u8], bool)> {
        let first = *bytes.first()?;
        if std::mem::take(&mut self.after_return) && first == b'\n' {
            *bytes = &bytes[1..];
            return self.next_part(bytes);
        }
        let Some(end) = memchr::memchr2(b'\n', b'\r', bytes) else {
            return Some((std::mem::take(bytes), false));
        };
        let part = &bytes[..end];
        self.after_return = bytes[end] == b'\r';
        *bytes = &bytes[end + 1..];
        Some((part, true))
    }
}
