//! An S3 server in the process of the test.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::thread::JoinHandle;

use bytes::Bytes;
use http_body_util::BodyExt;
use http_body_util::Full;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::Method;
use hyper::Request;
use hyper::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use s3s::auth::SimpleAuth;
use s3s::service::S3Service;
use s3s::service::S3ServiceBuilder;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::support::Command;

const KEY_ID: &str = "AKTESTTESTTEST";
const SECRET: &str = "SECRETTESTTEST";

/// What the keys may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rights {
    All,
    Read,
    NoDelete,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Answer = Response<UnsyncBoxBody<Bytes, Failure>>;

struct Shared {
    service: S3Service,
    rights: Mutex<Rights>,
}

/// A server with the bucket `bkt`. It ends when it is dropped.
pub(super) struct Server {
    _directory: TempDir,
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub(super) fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("bkt")).unwrap();
        let mut builder = S3ServiceBuilder::new(s3s_fs::FileSystem::new(directory.path()).unwrap());
        builder.set_auth(SimpleAuth::from_single(KEY_ID, SECRET));
        let rights = Mutex::new(Rights::All);
        let shared = Arc::new(Shared { service: builder.build(), rights });
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let served = Arc::clone(&shared);
        let thread = Some(thread::spawn(move || run(listener, &served, stopped)));
        Self { _directory: directory, address, shared, stop: Some(stop), thread }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn set(&self, rights: Rights) {
        *self.shared.rights.lock() = rights;
    }

    /// Gives a command the bucket and its keys.
    pub(super) fn environment(&self, command: Command) -> Command {
        command
            .env("CTXFS_REMOTE_URL", "s3://bkt/pre/fix")
            .env("AWS_ENDPOINT_URL", format!("http://{}", self.address))
            .env("AWS_REGION", "us-east-1")
            .env("AWS_ACCESS_KEY_ID", KEY_ID)
            .env("AWS_SECRET_ACCESS_KEY", SECRET)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the server has failed the test already.
            drop(thread.join());
        }
    }
}

fn run(listener: std::net::TcpListener, shared: &Arc<Shared>, stopped: oneshot::Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async move {
        let listener = TcpListener::from_std(listener).unwrap();
        let accept = async {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let shared = Arc::clone(shared);
                tokio::spawn(async move {
                    let serve = service_fn(|request| answer(Arc::clone(&shared), request));
                    let connection =
                        http1::Builder::new().serve_connection(TokioIo::new(stream), serve);
                    // A client that is killed cuts its connection.
                    drop(connection.await);
                });
            }
        };
        tokio::select! {
            () = accept => {}
            _ = stopped => {}
        }
    });
}

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Answer, Failure> {
    let rights = *shared.rights.lock();
    if !may(rights, &request) {
        // The body is read, or the client may see a cut connection first.
        drop(request.into_body().collect().await);
        return Ok(refusal());
    }
    // The service has a method of the same name, for requests with other bodies.
    let served = Service::call(&shared.service, request).await;
    let answer = served.map_err(|error| Failure::from(format!("{error:?}")))?;
    Ok(answer.map(BodyExt::boxed_unsync))
}

fn may(rights: Rights, request: &Request<Incoming>) -> bool {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    // Many are deleted with one POST.
    let is_delete = *request.method() == Method::DELETE
        || request.uri().query().is_some_and(|query| query.starts_with("delete"));
    match rights {
        Rights::All => true,
        Rights::Read => is_read,
        Rights::NoDelete => !is_delete,
    }
}

fn refusal() -> Answer {
    let text = "<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code>\
                <Message>no</Message></Error>";
    let body = Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync();
    Response::builder().status(403).body(body).unwrap()
}
