//! An S3 server in the process of the test.

mod s3;

use std::net::SocketAddr;
use std::sync::Arc;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::{Method, Request};
use parking_lot::Mutex;
use s3s::service::S3Service;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::support::Command;
use s3::{Answer, Failure};

const KEY_ID: &str = "AKTESTTESTTEST";
pub(crate) const SECRET: &str = "SECRETTESTTEST";

/// What the keys may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rights {
    All,
    Read,
    NoDelete,
}

struct Shared {
    service: S3Service,
    rights: Mutex<Rights>,
}

/// A server with the bucket `bkt`. It ends when it is dropped.
pub(crate) struct Server {
    /// Before the directory, which it writes.
    _runtime: Runtime,
    _directory: TempDir,
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Server {
    pub(crate) fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("bkt")).unwrap();
        let service = s3::service(directory.path(), (KEY_ID, SECRET));
        let shared = Arc::new(Shared { service, rights: Mutex::new(Rights::All) });
        let runtime = s3::runtime(1);
        let listener = s3::listen(&runtime);
        let address = listener.local_addr().unwrap();
        let served = Arc::clone(&shared);
        runtime.spawn(s3::accept(listener, move |request| answer(Arc::clone(&served), request)));
        Self { _runtime: runtime, _directory: directory, address, shared }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn set(&self, rights: Rights) {
        *self.shared.rights.lock() = rights;
    }

    /// Gives a command the bucket and its keys.
    pub(crate) fn environment(&self, command: Command) -> Command {
        command
            .env("CTXFS_REMOTE_URL", "s3://bkt/pre/fix")
            .env("AWS_ENDPOINT_URL", format!("http://{}", self.address))
            .env("AWS_REGION", "us-east-1")
            .env("AWS_ACCESS_KEY_ID", KEY_ID)
            .env("AWS_SECRET_ACCESS_KEY", SECRET)
    }
}

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Answer, Failure> {
    let rights = *shared.rights.lock();
    if !may(rights, &request) {
        // The body is read, or the client may see a cut connection first.
        drop(request.into_body().collect().await);
        return Ok(refusal());
    }
    s3::serve(&shared.service, request).await
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
    s3::xml(403, text.to_owned())
}
