//! An S3 server for tests: a thread with a directory, and weather as a test makes it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream;
use http_body_util::BodyExt;
use http_body_util::Full;
use http_body_util::StreamBody;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::Request;
use hyper::Response;
use hyper::body::Frame;
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

use crate::bucket::access::Bucket;
use crate::bucket::url::BucketUrl;

/// The key id and the secret that the server knows.
pub(in crate::bucket) const KEY_ID: &str = "AKTESTTESTTEST";
pub(in crate::bucket) const SECRET: &str = "SKTESTTESTTEST";

/// What happens to a request.
#[derive(Debug, Clone, Copy)]
pub(in crate::bucket) enum Weather {
    /// It is served.
    Fair,
    /// It gets this status and no service.
    Status(u16),
    /// It is served later.
    Late(Duration),
    /// It is served, and the connection is cut in the middle of the answer's body.
    Cut,
    /// It is served, and the answer is lost.
    Lost,
}

/// A request that came.
#[derive(Debug, Clone)]
pub(in crate::bucket) struct Seen {
    /// How many came before.
    pub(in crate::bucket) count: usize,
    pub(in crate::bucket) method: String,
    /// Path and query.
    pub(in crate::bucket) path: String,
    /// True if it has a condition.
    pub(in crate::bucket) is_conditional: bool,
}

type Hook = Arc<dyn Fn(&Seen) -> Weather + Send + Sync>;
type Failure = Box<dyn std::error::Error + Send + Sync>;
type Answer = Response<UnsyncBoxBody<Bytes, Failure>>;

struct Shared {
    service: S3Service,
    log: Mutex<Vec<Seen>>,
    hook: Mutex<Hook>,
}

/// A server with the bucket `bkt`. It ends when it is dropped.
pub(in crate::bucket) struct TestServer {
    directory: TempDir,
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl TestServer {
    pub(in crate::bucket) fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("bkt")).unwrap();
        let mut builder = S3ServiceBuilder::new(s3s_fs::FileSystem::new(directory.path()).unwrap());
        builder.set_auth(SimpleAuth::from_single(KEY_ID, SECRET));
        let fair: Hook = Arc::new(|_: &Seen| Weather::Fair);
        let shared = Arc::new(Shared {
            service: builder.build(),
            log: Mutex::default(),
            hook: Mutex::new(fair),
        });
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let served = Arc::clone(&shared);
        let thread = thread::spawn(move || run(listener, served, stopped));
        Self { directory, address, shared, stop: Some(stop), thread: Some(thread) }
    }

    /// Sets the weather from now on.
    pub(in crate::bucket) fn set(&self, hook: impl Fn(&Seen) -> Weather + Send + Sync + 'static) {
        *self.shared.hook.lock() = Arc::new(hook);
    }

    /// Returns the requests that came since the last call.
    pub(in crate::bucket) fn log(&self) -> Vec<Seen> {
        std::mem::take(&mut *self.shared.log.lock())
    }

    /// Returns where a key of `bucket` is on the disk of the server.
    pub(in crate::bucket) fn file(&self, key: &str) -> PathBuf {
        self.directory.path().join("bkt/pre/fix").join(key)
    }

    pub(in crate::bucket) fn bucket(&self) -> Bucket {
        self.bucket_with(SECRET)
    }

    pub(in crate::bucket) fn bucket_with(&self, secret: &str) -> Bucket {
        let environment = [
            ("AWS_ENDPOINT_URL", format!("http://{}", self.address)),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", KEY_ID.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", secret.to_owned()),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), value));
        Bucket::open(&BucketUrl::parse("s3://bkt/pre/fix").unwrap(), environment).unwrap()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic of the server has failed the test already.
            drop(thread.join());
        }
    }
}

fn run(listener: std::net::TcpListener, shared: Arc<Shared>, stopped: oneshot::Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async move {
        let listener = TcpListener::from_std(listener).unwrap();
        let accept = async {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let shared = Arc::clone(&shared);
                tokio::spawn(async move {
                    let serve = service_fn(|request| answer(Arc::clone(&shared), request));
                    let connection =
                        http1::Builder::new().serve_connection(TokioIo::new(stream), serve);
                    // A connection that is cut is an error, as the test wants it.
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
    let weather = shared.see(&request);
    match weather {
        Weather::Fair => serve(&shared, request).await,
        Weather::Status(status) => {
            // The body is read, or the client may see a cut connection first.
            drop(request.into_body().collect().await);
            Ok(refusal(status))
        }
        Weather::Late(time) => {
            tokio::time::sleep(time).await;
            serve(&shared, request).await
        }
        Weather::Cut => cut(serve(&shared, request).await?).await,
        Weather::Lost => {
            drop(serve(&shared, request).await);
            Err("the answer is lost".into())
        }
    }
}

impl Shared {
    fn see(&self, request: &Request<Incoming>) -> Weather {
        let hook = Arc::clone(&self.hook.lock());
        let mut log = self.log.lock();
        let seen = Seen {
            count: log.len(),
            method: request.method().to_string(),
            path: request.uri().to_string(),
            is_conditional: request.headers().contains_key("if-none-match"),
        };
        let weather = hook(&seen);
        log.push(seen);
        weather
    }
}

async fn serve(shared: &Shared, request: Request<Incoming>) -> Result<Answer, Failure> {
    let failure = |error: &dyn std::fmt::Debug| Failure::from(format!("{error:?}"));
    // The service has a method of the same name, for requests with other bodies.
    let served = Service::call(&shared.service, request).await;
    let answer = served.map_err(|error| failure(&error))?;
    Ok(answer.map(BodyExt::boxed_unsync))
}

fn refusal(status: u16) -> Answer {
    let code = match status {
        403 => "AccessDenied",
        501 => "NotImplemented",
        503 => "SlowDown",
        _ => "Odd",
    };
    let text = format!(
        "<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>weather</Message>\
         <AWSAccessKeyId>{KEY_ID}</AWSAccessKeyId></Error>"
    );
    let body = Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync();
    Response::builder().status(status).body(body).unwrap()
}

/// Announces the whole body and sends half of it.
async fn cut(answer: Answer) -> Result<Answer, Failure> {
    let (mut parts, body) = answer.into_parts();
    let bytes = body.collect().await?.to_bytes();
    parts.headers.insert("content-length", bytes.len().into());
    let half = bytes.slice(..bytes.len() / 2);
    let frames = [Ok(Frame::data(half)), Err(Failure::from("cut"))];
    let frames = stream::iter(frames).then(|frame| async move {
        if frame.is_err() {
            // Time for the first half to leave.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        frame
    });
    Ok(Response::from_parts(parts, StreamBody::new(frames).boxed_unsync()))
}
