//! S3 from a directory, for tests and measurements: the part that all such servers share.
//!
//! The tests of the library and an example have this file too.

use std::path::Path;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

pub(super) type Failure = Box<dyn std::error::Error + Send + Sync>;
pub(super) type Answer = Response<UnsyncBoxBody<Bytes, Failure>>;

/// Returns a service for who has these keys. The directories in `directory` are its buckets.
pub(super) fn service(directory: &Path, (key_id, secret): (&str, &str)) -> S3Service {
    let mut builder = S3ServiceBuilder::new(s3s_fs::FileSystem::new(directory).unwrap());
    builder.set_auth(SimpleAuth::from_single(key_id, secret));
    builder.build()
}

/// Starts threads that serve until it is dropped.
pub(super) fn runtime(threads: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(threads).enable_all().build().unwrap()
}

/// Listens on a free port of this machine.
pub(super) fn listen(runtime: &Runtime) -> TcpListener {
    runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap()
}

/// Takes all connections, and gives each request what `answer` makes of it.
pub(super) async fn accept<F, A>(listener: TcpListener, answer: F)
where
    F: Fn(Request<Incoming>) -> A + Clone + Send + 'static,
    A: Future<Output = Result<Answer, Failure>> + Send + 'static,
{
    while let Ok((stream, _)) = listener.accept().await {
        let answer = answer.clone();
        tokio::spawn(async move {
            let connection = http1::Builder::new();
            // A client that goes away is no failure of the server, and an answer may be cut.
            drop(connection.serve_connection(TokioIo::new(stream), service_fn(answer)).await);
        });
    }
}

/// Has a request served.
pub(super) async fn serve(
    service: &S3Service,
    request: Request<Incoming>,
) -> Result<Answer, Failure> {
    // The service has a method of the same name, for requests with other bodies.
    let served = Service::call(service, request).await;
    let answer = served.map_err(|error| Failure::from(format!("{error:?}")))?;
    Ok(answer.map(BodyExt::boxed_unsync))
}

/// Returns an answer of XML.
pub(super) fn xml(status: u16, text: String) -> Answer {
    let body = Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync();
    let answer = Response::builder().status(status).header("content-type", "application/xml");
    answer.body(body).unwrap()
}
