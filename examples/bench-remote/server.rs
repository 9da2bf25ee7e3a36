//! The S3 server, and the link before it: threads of this process, which end with it.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

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
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::counts::Counts;
use crate::link::Link;
use crate::names;

const KEY_ID: &str = "AKBENCHBENCH";
const SECRET: &str = "SECRETBENCH";
/// The threads of the server and the link together.
const WORKERS: usize = 2;

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Answer = Response<UnsyncBoxBody<Bytes, Failure>>;

struct Shared {
    service: S3Service,
    counts: Mutex<Counts>,
    /// The names that it makes up.
    names: AtomicUsize,
}

/// A server whose buckets are directories. It ends when it is dropped.
pub(crate) struct Server {
    dir: PathBuf,
    /// Where clients find it: the other end of the link.
    address: SocketAddr,
    link: Link,
    shared: Arc<Shared>,
    _runtime: Runtime,
}

impl Server {
    /// Starts a server in a directory, which it makes.
    pub(crate) fn start(dir: &Path) -> Self {
        fs::create_dir(dir).unwrap();
        fs::create_dir(dir.join(names::BUCKET)).unwrap();
        let mut builder = S3ServiceBuilder::new(s3s_fs::FileSystem::new(dir).unwrap());
        builder.set_auth(SimpleAuth::from_single(KEY_ID, SECRET));
        let shared = Arc::new(Shared {
            service: builder.build(),
            counts: Mutex::default(),
            names: AtomicUsize::new(0),
        });
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(WORKERS).enable_all().build().unwrap();
        let listen = || runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let (server, outside) = (listen(), listen());
        let address = outside.local_addr().unwrap();
        let link = Link::new(server.local_addr().unwrap());
        runtime.spawn(serve(server, Arc::clone(&shared)));
        runtime.spawn(link.clone().run(outside));
        Self { dir: dir.to_owned(), address, link, shared, _runtime: runtime }
    }

    /// Makes a bucket.
    pub(crate) fn make_bucket(&self, name: &str) {
        fs::create_dir(self.dir.join(name)).unwrap();
    }

    /// Removes a bucket with all that is in it.
    pub(crate) fn remove_bucket(&self, name: &str) {
        fs::remove_dir_all(self.dir.join(name)).unwrap();
    }

    /// Returns the key and the size of the largest object of a bucket below a prefix.
    pub(crate) fn largest(&self, bucket: &str, prefix: &str) -> Option<(String, u64)> {
        let entries = fs::read_dir(self.dir.join(bucket).join(prefix)).ok()?.flatten();
        let sizes = entries.filter_map(|entry| Some((entry.metadata().ok()?.len(), entry)));
        let (size, entry) = sizes.max_by_key(|(size, _)| *size)?;
        Some((format!("{prefix}/{}", entry.file_name().to_str()?), size))
    }

    /// Makes up so many names, in the bucket `names::BUCKET`.
    pub(crate) fn make_up(&self, names: usize) {
        self.shared.names.store(names, Relaxed);
    }

    /// Returns the variables by which all clients find the server.
    pub(crate) fn environment(&self) -> [(&'static str, String); 6] {
        [
            ("AWS_ENDPOINT_URL", format!("http://{}", self.address)),
            ("AWS_ALLOW_HTTP", "true".to_owned()),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_DEFAULT_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", KEY_ID.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", SECRET.to_owned()),
        ]
    }

    /// Returns what came until now.
    pub(crate) fn counts(&self) -> Counts {
        let (sent, received) = self.link.bytes();
        Counts { sent, received, ..*self.shared.counts.lock() }
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let serve = service_fn(|request| answer(Arc::clone(&shared), request));
            // A client that goes away is no failure of the server.
            drop(http1::Builder::new().serve_connection(TokioIo::new(stream), serve).await);
        });
    }
}

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Answer, Failure> {
    let query = request.uri().query().unwrap_or_default().to_owned();
    shared.counts.lock().count(request.method(), &query);
    let path = request.uri().path().trim_matches('/');
    if path == names::BUCKET && request.method() == Method::GET {
        return Ok(made_up(&query, shared.names.load(Relaxed)));
    }
    let joins = request.method() == Method::POST && query.contains("uploadId=");
    let began = Instant::now();
    // The service has a method of the same name, for requests with other bodies.
    let served = Service::call(&shared.service, request).await;
    if joins {
        shared.counts.lock().joining += began.elapsed();
    }
    let answer = served.map_err(|error| Failure::from(format!("{error:?}")))?;
    Ok(answer.map(BodyExt::boxed_unsync))
}

fn made_up(query: &str, names: usize) -> Answer {
    let text = Full::new(Bytes::from(names::page(query, names)));
    let body = text.map_err(|never| match never {}).boxed_unsync();
    let response = Response::builder().header("content-type", "application/xml");
    response.body(body).unwrap()
}
