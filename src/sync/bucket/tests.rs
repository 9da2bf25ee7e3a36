//! An S3 server for tests. It runs in a thread, stores objects in a directory, and injects the
//! faults that a test specifies.

#[path = "../../../tests/it/remote/server/s3.rs"]
mod s3;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::{Request, Response};
use parking_lot::Mutex;
use s3s::service::S3Service;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::bucket::access::Bucket;
use crate::bucket::url::BucketUrl;
use s3::{Answer, Failure};

pub(crate) const KEY_ID: &str = "AKTESTTESTTEST";
pub(crate) const SECRET: &str = "SKTESTTESTTEST";

#[derive(Debug, Clone, Copy)]
pub(crate) enum InjectedFault {
    Pass,
    Status(u16),
    Late(Duration),
    Cut,
    Lost,
    /// A web page.
    Page,
}

#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) count: usize,
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) is_conditional: bool,
    pub(crate) has_checksum: bool,
}

type Hook = Arc<dyn Fn(&Seen) -> InjectedFault + Send + Sync>;

struct Shared {
    service: S3Service,
    log: Mutex<Vec<Seen>>,
    hook: Mutex<Hook>,
}

pub(crate) struct TestServer {
    _runtime: Runtime,
    directory: TempDir,
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl TestServer {
    pub(crate) fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("bkt")).unwrap();
        let fair: Hook = Arc::new(|_: &Seen| InjectedFault::Pass);
        let shared = Arc::new(Shared {
            service: s3::service(directory.path(), (KEY_ID, SECRET)),
            log: Mutex::default(),
            hook: Mutex::new(fair),
        });
        let runtime = s3::runtime(1);
        let listener = s3::listen(&runtime);
        let address = listener.local_addr().unwrap();
        let served = Arc::clone(&shared);
        runtime.spawn(s3::accept(listener, move |request| answer(Arc::clone(&served), request)));
        Self { _runtime: runtime, directory, address, shared }
    }

    pub(crate) fn set(&self, hook: impl Fn(&Seen) -> InjectedFault + Send + Sync + 'static) {
        *self.shared.hook.lock() = Arc::new(hook);
    }

    pub(crate) fn log(&self) -> Vec<Seen> {
        std::mem::take(&mut *self.shared.log.lock())
    }

    pub(crate) fn file(&self, key: &str) -> PathBuf {
        self.directory.path().join("bkt/pre/fix").join(key)
    }

    pub(crate) fn bucket(&self) -> Bucket {
        self.bucket_with(SECRET)
    }

    pub(crate) fn bucket_with(&self, secret: &str) -> Bucket {
        self.bucket_in(secret, [])
    }

    /// Opens the bucket with more variables in the environment.
    pub(crate) fn bucket_in<const N: usize>(
        &self,
        secret: &str,
        more: [(&str, &str); N],
    ) -> Bucket {
        let environment = [
            ("AWS_ENDPOINT_URL", format!("http://{}", self.address)),
            ("AWS_REGION", "us-east-1".to_owned()),
            ("AWS_ACCESS_KEY_ID", KEY_ID.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", secret.to_owned()),
        ];
        let more = more.map(|(name, value)| (name, value.to_owned()));
        let environment = environment.into_iter().chain(more);
        let environment = environment.map(|(name, value)| (name.to_owned(), value));
        Bucket::open(&BucketUrl::parse("s3://bkt/pre/fix").unwrap(), environment).unwrap()
    }
}

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Answer, Failure> {
    let fault = shared.see(&request);
    match fault {
        InjectedFault::Pass => s3::serve(&shared.service, request).await,
        InjectedFault::Status(status) => {
            // Read the body first. Otherwise the client may see a reset connection before the
            // response.
            drop(request.into_body().collect().await);
            Ok(refusal(status))
        }
        InjectedFault::Late(time) => {
            tokio::time::sleep(time).await;
            s3::serve(&shared.service, request).await
        }
        InjectedFault::Cut => cut(s3::serve(&shared.service, request).await?).await,
        InjectedFault::Page => {
            drop(request.into_body().collect().await);
            let mut page = s3::xml(200, "<html><body>Log in</body></html>".to_owned());
            let kind = "text/html; charset=utf-8".parse().unwrap();
            page.headers_mut().insert("content-type", kind);
            Ok(page)
        }
        InjectedFault::Lost => {
            drop(s3::serve(&shared.service, request).await);
            Err("the answer is lost".into())
        }
    }
}

impl Shared {
    fn see(&self, request: &Request<Incoming>) -> InjectedFault {
        let hook = Arc::clone(&self.hook.lock());
        let mut log = self.log.lock();
        let seen = Seen {
            count: log.len(),
            method: request.method().to_string(),
            path: request.uri().to_string(),
            is_conditional: request.headers().contains_key("if-none-match"),
            has_checksum: request
                .headers()
                .keys()
                .any(|name| name.as_str().starts_with("x-amz-checksum")),
        };
        let fault = hook(&seen);
        log.push(seen);
        fault
    }
}

fn refusal(status: u16) -> Answer {
    let code = match status {
        403 => "AccessDenied",
        501 => "NotImplemented",
        503 => "SlowDown",
        _ => "Odd",
    };
    let text = format!(
        "<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>fault</Message>\
         <AWSAccessKeyId>{KEY_ID}</AWSAccessKeyId></Error>"
    );
    s3::xml(status, text)
}

async fn cut(answer: Answer) -> Result<Answer, Failure> {
    let (mut parts, body) = answer.into_parts();
    let bytes = body.collect().await?.to_bytes();
    parts.headers.insert("content-length", bytes.len().into());
    let half = bytes.slice(..bytes.len() / 2);
    let frames = [Ok(Frame::data(half)), Err(Failure::from("cut"))];
    let frames = stream::iter(frames).then(|frame| async move {
        if frame.is_err() {
            // Wait until the first half has been sent.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        frame
    });
    Ok(Response::from_parts(parts, StreamBody::new(frames).boxed_unsync()))
}
