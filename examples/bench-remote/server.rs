//! The S3 server and the link before it, in threads of this process.

#[path = "../../tests/it/remote/server/s3.rs"]
mod s3;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use hyper::body::Incoming;
use hyper::{Method, Request};
use parking_lot::Mutex;
use s3s::service::S3Service;
use tokio::runtime::Runtime;

use crate::counts::Counts;
use crate::link::Link;
use crate::names;
use s3::{Answer, Failure};

const KEY_ID: &str = "AKBENCHBENCH";
const SECRET: &str = "SECRETBENCH";
/// Number of threads of server and link together.
const WORKERS: usize = 2;

struct Shared {
    service: S3Service,
    counts: Mutex<Counts>,
    /// Number of generated names.
    names: AtomicUsize,
}

/// S3 server whose buckets are directories. It stops on drop.
pub(crate) struct Server {
    dir: PathBuf,
    /// Address for clients: the client end of the link.
    address: SocketAddr,
    link: Link,
    shared: Arc<Shared>,
    _runtime: Runtime,
}

impl Server {
    /// Creates the directory `dir` and starts a server in it.
    pub(crate) fn start(dir: &Path) -> Self {
        fs::create_dir(dir).unwrap();
        fs::create_dir(dir.join(names::BUCKET)).unwrap();
        let shared = Arc::new(Shared {
            service: s3::service(dir, (KEY_ID, SECRET)),
            counts: Mutex::default(),
            names: AtomicUsize::new(0),
        });
        let runtime = s3::runtime(WORKERS);
        let (server, outside) = (s3::listen(&runtime), s3::listen(&runtime));
        let address = outside.local_addr().unwrap();
        let link = Link::new(server.local_addr().unwrap());
        let served = Arc::clone(&shared);
        runtime.spawn(s3::accept(server, move |request| answer(Arc::clone(&served), request)));
        runtime.spawn(link.clone().run(outside));
        Self { dir: dir.to_owned(), address, link, shared, _runtime: runtime }
    }

    pub(crate) fn make_bucket(&self, name: &str) {
        fs::create_dir(self.dir.join(name)).unwrap();
    }

    /// Removes a bucket with its content.
    pub(crate) fn remove_bucket(&self, name: &str) {
        fs::remove_dir_all(self.dir.join(name)).unwrap();
    }

    /// Returns the key and the size of the largest object of a bucket below a prefix.
    pub(crate) fn largest(&self, bucket: &str, prefix: &str) -> Option<(String, u64)> {
        let entries = fs::read_dir(self.dir.join(bucket).join(prefix)).ok()?.flatten();
        let sizes = entries.filter_map(|entry| Some((entry.metadata().ok()?.len(), entry)));
        let (size, entry) = sizes.max_by_key(|(size, _)| *size)?;
        Some((Path::new(prefix).join(entry.file_name()).to_str()?.to_owned(), size))
    }

    /// Sets the number of generated names in the bucket `names::BUCKET`.
    pub(crate) fn make_up(&self, names: usize) {
        self.shared.names.store(names, Relaxed);
    }

    /// Returns the environment variables with which clients use the server.
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

    /// Returns the counts so far.
    pub(crate) fn counts(&self) -> Counts {
        let (sent, received) = self.link.bytes();
        Counts { sent, received, ..*self.shared.counts.lock() }
    }
}

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Answer, Failure> {
    let query = request.uri().query().unwrap_or_default().to_owned();
    shared.counts.lock().count(request.method(), &query);
    let path = request.uri().path().trim_matches('/');
    if path == names::BUCKET && request.method() == Method::GET {
        return Ok(s3::xml(200, names::page(&query, shared.names.load(Relaxed))));
    }
    let joins = request.method() == Method::POST && query.contains("uploadId=");
    let began = Instant::now();
    let answer = s3::serve(&shared.service, request).await;
    if joins {
        shared.counts.lock().joining += began.elapsed();
    }
    answer
}
