//! Plain and secure connections.

use std::fmt;
use std::io;
use std::time::Duration;

use bytes::Buf;
use hyper::body::{Body, Incoming};
use hyper::{Request, Response};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Builder, Client, Error};

/// The time for a connection to one address of a host.
const CONNECT: Duration = Duration::from_secs(10);
/// The time after which the kernel looks after a silent connection.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// The connections of a client that sends bodies of type `B`.
pub enum HttpClient<B> {
    /// Over `http`.
    Plain(Client<HttpConnector, B>),
    /// Over `https`.
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
    B::Data: Buf + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    /// Makes a client for `https` alone, or for `http` alone. Fails if this system has no
    /// certificates, which a secure one needs.
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

    /// Sends a request, and waits for the head of its answer. If it is dropped before the answer
    /// has ended, the connection closes.
    pub async fn send(&self, request: Request<B>) -> Result<Response<Incoming>, Error> {
        match self {
            Self::Plain(client) => client.request(request).await,
            Self::Secure(client) => client.request(request).await,
        }
    }
}
