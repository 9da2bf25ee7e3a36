//! URLs of buckets, as in the setting `[remote] url`, and the clients of the object stores that
//! contain the buckets. A client is built from a URL and the environment.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use hyper::Uri;
use hyper::header::{CONTENT_TYPE, DATE, HeaderMap, HeaderValue};
use memchr::memmem;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, Checksum};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
    ReqwestConnector,
};
use object_store::list::PaginatedListStore;
use object_store::multipart::MultipartStore;
use object_store::{ClientOptions, ObjectStore, RetryConfig};
use percent_encoding::percent_decode_str;
use serde::Deserialize;

use crate::bucket::directory::Directory;
use crate::bucket::error::BucketError;
use crate::bucket::name::{fits_directory, fits_store};
use ctxfs_core::model::Component;

/// Maximum length of the name of a bucket or container. The object stores have lower limits.
const LONGEST_NAME: usize = 255;
/// Maximum length of a prefix. With this maximum, the keys of a conversation with a name in ASCII
/// stay below the limit of S3, 1024 bytes.
const LONGEST_PREFIX: usize = 512;
const FORMS: &str = "write `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix` or \
                     `file:///directory`";

#[derive(Debug, Clone, PartialEq, Eq)]
enum Service {
    S3 { bucket: String },
    Google { bucket: String },
    Azure { container: String },
    Directory(PathBuf),
    Memory,
}

/// Checked URL of a bucket. The URL contains no secret and may be printed. Credentials belong in
/// the environment. Errors show only the scheme of a refused URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketUrl {
    service: Service,
    prefix: String,
}

impl BucketUrl {
    /// Parses a URL. Refuses URLs with a user, a password or a query, because credentials belong in
    /// the environment.
    pub fn parse(text: &str) -> Result<Self, BucketError> {
        if text == "memory:" {
            return Ok(Self { service: Service::Memory, prefix: String::new() });
        }
        let refuse = |why: &str| refusal(text, why);
        let (scheme, rest) = text.split_once("://").ok_or_else(|| refuse(FORMS))?;
        if scheme == "file" {
            return directory(rest).ok_or_else(|| {
                refuse("write an absolute directory after `file://`, without `..`")
            });
        }
        let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if !is_name(name) {
            return Err(refuse(
                "the name of the bucket has letters, digits, `.`, `-` and `_` alone; keys and \
                 endpoint go into the environment",
            ));
        }
        let prefix = prefix.trim_end_matches('/');
        if !is_prefix(prefix) {
            return Err(refuse("the prefix is not a path of plain names"));
        }
        let service = service(scheme, name.to_owned()).ok_or_else(|| refuse(FORMS))?;
        Ok(Self { service, prefix: prefix.to_owned() })
    }

    /// Returns the directory of a `file://` bucket.
    pub fn local_directory(&self) -> Option<&Path> {
        match &self.service {
            Service::Directory(path) => Some(path),
            _ => None,
        }
    }

    /// Returns true if the bucket can have the conversation. The name of a conversation may be too
    /// long for a directory, or for a key.
    pub fn fits(&self, conversation: &Component) -> bool {
        match self.service {
            Service::Directory(_) => fits_directory(conversation),
            _ => fits_store(conversation, &self.prefix),
        }
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }
}

impl fmt::Display for BucketUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, name) = match &self.service {
            Service::S3 { bucket } => ("s3", bucket),
            Service::Google { bucket } => ("gs", bucket),
            Service::Azure { container } => ("az", container),
            Service::Directory(path) => return write!(f, "file://{}", path.display()),
            Service::Memory => return f.write_str("memory:"),
        };
        write!(f, "{scheme}://{name}")?;
        if self.prefix.is_empty() { Ok(()) } else { write!(f, "/{}", self.prefix) }
    }
}

fn service(scheme: &str, name: String) -> Option<Service> {
    match scheme {
        "s3" => Some(Service::S3 { bucket: name }),
        "gs" => Some(Service::Google { bucket: name }),
        "az" => Some(Service::Azure { container: name }),
        _ => None,
    }
}

fn directory(rest: &str) -> Option<BucketUrl> {
    if rest.contains(['?', '#']) {
        return None;
    }
    let path = percent_decode_str(rest).decode_utf8().ok()?;
    let is_plain = !path.contains('\0') && path.split('/').all(|part| part != "..");
    (path.starts_with('/') && is_plain).then(|| BucketUrl {
        service: Service::Directory(PathBuf::from(path.into_owned())),
        prefix: String::new(),
    })
}

fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    (1..=LONGEST_NAME).contains(&name.len())
        && name.bytes().all(is_plain)
        && !name.bytes().all(|byte| byte == b'.')
}

fn is_prefix(prefix: &str) -> bool {
    let is_part = |part: &str| !matches!(part, "" | "." | "..");
    let is_odd = |c: char| !c.is_ascii_graphic() || "?#@\\%".contains(c);
    prefix.len() <= LONGEST_PREFIX
        && (prefix.is_empty() || prefix.split('/').all(is_part))
        && !prefix.contains(is_odd)
}

/// Returns the error for a refused URL. Shows only the scheme of `text`, because the rest may
/// contain a secret.
fn refusal(text: &str, why: &str) -> BucketError {
    let scheme = text.split_once(':').map_or("", |(scheme, _)| scheme);
    let is_scheme = scheme.len() <= 16 && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let scheme = if is_scheme { scheme } else { "" };
    BucketError::Url { url: format!("{scheme}://..."), why: why.to_owned() }
}

const CONNECT: Duration = Duration::from_secs(5);
const S3_DELETES: usize = 1000;
const AZURE_DELETES: usize = 256;
/// Variables that contain an endpoint URL. Plain HTTP is allowed if the endpoint is on this host.
const ENDPOINTS: [&str; 6] = [
    "aws_endpoint_url",
    "aws_endpoint_url_s3",
    "aws_endpoint",
    "google_base_url",
    "azure_storage_endpoint",
    "azure_endpoint",
];

/// A client that can request each page of a list and each part of an upload separately.
pub(crate) trait CloudStore: ObjectStore + PaginatedListStore + MultipartStore {}

impl<T: ObjectStore + PaginatedListStore + MultipartStore> CloudStore for T {}

/// Client of an object store. Each call makes one request without retries.
///
/// - `plain`: a client of the same store whose requests carry no checksums, for a store that refuses
///   checksums
/// - `clock`: the time that responses tell
#[derive(Clone)]
pub(crate) enum OpenStore {
    Cloud {
        store: Arc<dyn CloudStore>,
        plain: Option<Arc<dyn CloudStore>>,
        deletes: usize,
        clock: ResponseClock,
    },
    Directory(Arc<Directory>),
    Memory(Arc<dyn ObjectStore>),
}

/// The checksum that requests to S3 carry: none, the one that a setting names, or SHA-256 unless
/// the store refuses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WantedChecksum {
    None,
    Named,
    IfAccepted,
}

struct ClientSettings {
    url: String,
    pairs: Vec<(String, String)>,
}

impl BucketUrl {
    /// Creates a client. Reads credentials, region, endpoint and encryption from `environment`. The
    /// variables have the same names as for the tools of the service.
    ///
    /// Makes no request. A directory may be missing, since the first writer creates it, but its
    /// parent must exist. Plain HTTP needs `AWS_ALLOW_HTTP=true`, except for endpoints on this
    /// host.
    pub(crate) fn open(
        &self,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<OpenStore, BucketError> {
        match &self.service {
            Service::S3 { bucket } => self.settings("aws_", environment).s3(bucket),
            Service::Google { bucket } => self.settings("google_", environment).google(bucket),
            Service::Azure { container } => self.settings("azure_", environment).azure(container),
            Service::Directory(path) => self.directory(path),
            Service::Memory => {
                Ok(OpenStore::Memory(Arc::new(object_store::memory::InMemory::new())))
            }
        }
    }

    fn settings(
        &self,
        start: &str,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> ClientSettings {
        let pairs = environment
            .into_iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), value))
            .filter(|(name, value)| name.starts_with(start) && !value.is_empty())
            .collect();
        ClientSettings { url: self.to_string(), pairs }
    }

    fn directory(&self, path: &Path) -> Result<OpenStore, BucketError> {
        let refuse = |why: &str| BucketError::Url { url: self.to_string(), why: why.to_owned() };
        if path.is_file() {
            return Err(refuse("that is no directory: name one"));
        }
        if !path.is_dir() && !path.parent().is_some_and(Path::is_dir) {
            return Err(refuse(
                "there is no such directory, and none that it would be in: is its disk mounted? \
                 Else make it, or its parent",
            ));
        }
        Ok(OpenStore::Directory(Arc::new(Directory::new(path))))
    }
}

impl ClientSettings {
    /// Creates an S3 client. Later values override earlier ones in the builder, so the environment
    /// can change the checksum but not the bucket.
    fn s3(&self, bucket: &str) -> Result<OpenStore, BucketError> {
        let checksum = self.checksum();
        let is_single = self.pairs.iter().any(|(name, value)| {
            name == "aws_disable_bulk_delete" && !value.eq_ignore_ascii_case("false")
        });
        let is_single = is_single || checksum == WantedChecksum::None;
        let clock = ResponseClock::default();
        let build = |with_checksum| -> Result<Arc<dyn CloudStore>, BucketError> {
            let mut builder = AmazonS3Builder::new()
                .with_client_options(self.client()?)
                .with_http_connector(AnswerConnector(clock.clone()));
            if with_checksum {
                builder = builder.with_checksum_algorithm(Checksum::SHA256);
            }
            for (key, value) in self.known() {
                if key != AmazonS3ConfigKey::Checksum || checksum == WantedChecksum::Named {
                    builder = builder.with_config(key, value);
                }
            }
            // The request for bulk deletion has a checksum in any case.
            let builder = builder.with_disable_bulk_delete(!with_checksum || is_single);
            let store = builder.with_bucket_name(bucket).with_retry(once()).build();
            Ok(Arc::new(store.map_err(|error| self.refuse(&error))?))
        };
        let store = build(checksum != WantedChecksum::None)?;
        let may_adapt = checksum == WantedChecksum::IfAccepted;
        let plain = if may_adapt { Some(build(false)?) } else { None };
        let deletes = if is_single { 1 } else { S3_DELETES };
        Ok(OpenStore::Cloud { store, plain, deletes, clock })
    }

    fn checksum(&self) -> WantedChecksum {
        let value = |wanted| self.pairs.iter().find(|(name, _)| name == wanted);
        let is = |wanted, text| value(wanted).is_some_and(|(_, it)| it.eq_ignore_ascii_case(text));
        let algorithm = "aws_checksum_algorithm";
        if is(algorithm, "none") {
            WantedChecksum::None
        } else if value(algorithm).is_some() {
            WantedChecksum::Named
        } else if is("aws_request_checksum_calculation", "when_required") {
            WantedChecksum::None
        } else {
            WantedChecksum::IfAccepted
        }
    }

    fn google(&self, bucket: &str) -> Result<OpenStore, BucketError> {
        let clock = ResponseClock::default();
        let first = object_store::gcp::GoogleCloudStorageBuilder::new()
            .with_client_options(self.client()?)
            .with_http_connector(AnswerConnector(clock.clone()));
        let store = self
            .known()
            .fold(first, |builder, (key, value)| builder.with_config(key, value))
            .with_bucket_name(bucket)
            .with_retry(once())
            .build()
            .map_err(|error| self.refuse(&error))?;
        Ok(OpenStore::Cloud { store: Arc::new(store), plain: None, deletes: 1, clock })
    }

    fn azure(&self, container: &str) -> Result<OpenStore, BucketError> {
        let clock = ResponseClock::default();
        let first = object_store::azure::MicrosoftAzureBuilder::new()
            .with_client_options(self.client()?)
            .with_http_connector(AnswerConnector(clock.clone()));
        let store = self
            .known()
            .fold(first, |builder, (key, value)| builder.with_config(key, value))
            .with_container_name(container)
            .with_retry(once())
            .build()
            .map_err(|error| self.refuse(&error))?;
        let store = Arc::new(store);
        Ok(OpenStore::Cloud { store, plain: None, deletes: AZURE_DELETES, clock })
    }

    fn known<K: std::str::FromStr>(&self) -> impl Iterator<Item = (K, &str)> {
        self.pairs.iter().filter_map(|(name, value)| Some((name.parse().ok()?, value.as_str())))
    }

    /// Returns the options of the HTTP client. The client has no time limits of its own, because
    /// the callers have deadlines that grow with the size of the body.
    fn client(&self) -> Result<ClientOptions, BucketError> {
        self.check()?;
        use_ring();
        let options = ClientOptions::new().with_connect_timeout(CONNECT).with_timeout_disabled();
        let plain = self.pairs.iter().find(|(name, value)| {
            ENDPOINTS.contains(&name.as_str()) && value.starts_with("http://")
        });
        let Some((name, endpoint)) = plain else { return Ok(options) };
        if is_this_host(endpoint) {
            return Ok(options.with_allow_http(true));
        }
        if self.pairs.iter().any(|(name, _)| name.ends_with("_allow_http")) {
            return Ok(options);
        }
        let variable = name.to_ascii_uppercase();
        let allow = variable.split('_').next().unwrap_or_default().to_owned() + "_ALLOW_HTTP";
        let why = format!(
            "`{variable}` is not encrypted: write `https://`, or set `{allow}=true` if you trust \
             the network"
        );
        Err(BucketError::Url { url: self.url.clone(), why })
    }

    fn check(&self) -> Result<(), BucketError> {
        for (name, value) in &self.pairs {
            if let Some(flaw) = flaw(name, value) {
                let why = format!("`{}` {flaw}", name.to_ascii_uppercase());
                return Err(BucketError::Url { url: self.url.clone(), why });
            }
        }
        Ok(())
    }

    /// Converts an error of a client builder. The error text names the setting, and contains the
    /// value only if that is a number, a switch or a path.
    fn refuse(&self, error: &object_store::Error) -> BucketError {
        let error = error.to_string();
        let why = format!(
            "{}. Correct that in the environment: docs/REMOTE.md has the variables of each service",
            error.trim_end_matches('.')
        );
        BucketError::Url { url: self.url.clone(), why }
    }
}

/// Returns a configuration without retries. The caller retries requests, counts them, and has a
/// deadline.
fn once() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

fn use_ring() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // An error means that another thread has just installed the provider.
        drop(rustls::crypto::ring::default_provider().install_default());
    }
}

fn is_this_host(url: &str) -> bool {
    let rest = url.trim_start_matches("http://");
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Variables that contain URLs, in lower case.
const ADDRESSES: [&str; 8] = [
    "aws_endpoint_url",
    "aws_endpoint_url_s3",
    "aws_endpoint_url_sts",
    "aws_endpoint",
    "aws_metadata_endpoint",
    "google_base_url",
    "azure_storage_endpoint",
    "azure_endpoint",
];
const KEYS: [&str; 4] =
    ["aws_access_key_id", "aws_secret_access_key", "aws_session_token", "aws_token"];
/// Variables that contain the path of a service account file, and the variable that contains its
/// content.
const ACCOUNT_FILES: [&str; 2] = ["google_service_account", "google_service_account_path"];
const ACCOUNT: &str = "google_service_account_key";
const REGIONS: [&str; 2] = ["aws_region", "aws_default_region"];

/// Returns the reason why a client of an object store would panic at `value`, or `None` if it would
/// not. The text does not quote the value, which may be a secret.
fn flaw(name: &str, value: &str) -> Option<&'static str> {
    if ADDRESSES.contains(&name) && !is_address(value) {
        return Some("is not the URL of a host: write `https://HOST` or `https://HOST:PORT`");
    }
    if KEYS.contains(&name) && !value.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Some("has a space, an end of a line or another byte that no key has: set it again");
    }
    if REGIONS.contains(&name) && !value.bytes().all(is_of_a_name) {
        return Some("is not the name of a region: write one such as `us-east-1`");
    }
    let is_right = address_of_account(name, value).is_none_or(|address| is_address(&address));
    (!is_right).then_some(
        "leads to a service account whose `gcs_base_url` is not the URL of a host: write \
         `https://HOST` there, or remove that line",
    )
}

#[derive(Deserialize)]
struct Account {
    gcs_base_url: Option<String>,
}

/// Returns the `gcs_base_url` of a service account. `value` is the value of the variable `name`:
/// the account itself, or the path of its file. Returns `None` if the account has no such URL or is
/// unreadable. The client of the object store reports an unreadable account.
fn address_of_account(name: &str, value: &str) -> Option<String> {
    let account = match name {
        ACCOUNT => value.as_bytes().to_vec(),
        name if ACCOUNT_FILES.contains(&name) => std::fs::read(value).ok()?,
        _ => return None,
    };
    serde_json::from_slice::<Account>(&account).ok()?.gcs_base_url
}

fn is_address(text: &str) -> bool {
    let Ok(uri) = text.parse::<Uri>() else { return false };
    let Some(authority) = uri.authority() else { return false };
    let host = authority.host();
    let whole = authority.as_str();
    let place = whole.rsplit_once('@').map_or(whole, |(_, place)| place);
    let is_port = match place.strip_prefix(host) {
        Some("") => true,
        Some(port) => port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok()),
        None => false,
    };
    matches!(uri.scheme_str(), Some("http" | "https")) && is_host(host) && is_port
}

fn is_host(host: &str) -> bool {
    if let Some(address) = host.strip_prefix('[') {
        let address = address.strip_suffix(']').unwrap_or_default();
        return address.parse::<Ipv6Addr>().is_ok();
    }
    let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    if last.starts_with("0x") || last.bytes().all(|byte| byte.is_ascii_digit()) {
        return host.parse::<Ipv4Addr>().is_ok();
    }
    host.bytes().all(is_of_a_name)
}

fn is_of_a_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._".contains(&byte)
}

/// Query parameters that identify list requests: first for S3 and Google, then for Azure.
const REQUESTS: [&str; 2] = ["list-type=2", "comp=list"];
const ANSWERS: [&str; 2] = ["<ListBucketResult", "<EnumerationResults"];
const TRUNCATED: &str = "<IsTruncated>true</IsTruncated>";
const NEXT: &str = "<NextContinuationToken>";

#[derive(Debug, thiserror::Error)]
enum NoList {
    #[error("it answers a request for a list with something else")]
    Other,
    #[error("it answers a request for a list with a page, and not with where the next one begins")]
    NoNext,
}

/// The error for a web page that came in place of the answer of an object store.
#[derive(Debug, thiserror::Error)]
#[error(
    "a web page came in place of an answer. If this network wants a login (a captive portal), log in \
     with a browser; if the endpoint is that of a web site, correct it"
)]
pub(crate) struct WebPage;

/// Types of web pages. No object of ctxfs has one of them.
const PAGES: [&str; 2] = ["text/html", "application/xhtml+xml"];
/// Network Authentication Required, RFC 6585.
const LOGIN: u16 = 511;

/// HTTP connector that checks responses. A request fails if its response is a web page. A list
/// request fails if its response is not a list, or is a truncated list without the token for the
/// next page.
///
/// The clients of `object_store` take any other XML, such as the error page of a proxy, for an
/// empty list, and any successful response for a finished upload. The caller would then treat all
/// objects as missing, or bytes as sent.
#[derive(Debug)]
struct AnswerConnector(ResponseClock);

#[derive(Debug)]
struct CheckedClient(HttpClient, ResponseClock);

/// Time that the last response of an object store told. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct ResponseClock(Arc<AtomicU64>);

impl ResponseClock {
    /// Returns the time in milliseconds since the epoch, if there was any.
    pub(super) fn last_ms(&self) -> Option<u64> {
        Some(self.0.load(Relaxed)).filter(|time| *time > 0)
    }

    fn hear(&self, headers: &HeaderMap) {
        let date = headers.get(DATE).and_then(|date| date.to_str().ok());
        let time = date.and_then(|date| jiff::fmt::rfc2822::parse(date).ok());
        let time = time.and_then(|time| time.timestamp().as_millisecond().try_into().ok());
        self.0.store(time.unwrap_or_default(), Relaxed);
    }
}

impl HttpConnector for AnswerConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(CheckedClient(client, self.0.clone())))
    }
}

impl HttpService for CheckedClient {
    fn call<'service, 'future>(
        &'service self,
        request: HttpRequest,
    ) -> futures_util::future::BoxFuture<'future, Result<HttpResponse, HttpError>>
    where
        'service: 'future,
        Self: 'future,
    {
        Box::pin(async move {
            let asks_for_list = is_for_list(&request);
            let response = self.0.execute(request).await?;
            self.1.hear(response.headers());
            if is_page(&response) {
                return Err(HttpError::new(HttpErrorKind::Decode, WebPage));
            }
            if !asks_for_list || !response.status().is_success() {
                return Ok(response);
            }
            let (parts, body) = response.into_parts();
            let body = body.bytes().await?;
            check(&body).map_err(|error| HttpError::new(HttpErrorKind::Decode, error))?;
            Ok(HttpResponse::from_parts(parts, body.into()))
        })
    }
}

fn is_page(response: &HttpResponse) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let status = response.status();
    let is_page = PAGES.iter().any(|page| {
        kind.get(..page.len()).is_some_and(|start| start.eq_ignore_ascii_case(page.as_bytes()))
    });
    status.as_u16() == LOGIN || is_page && (status.is_success() || status.is_redirection())
}

fn is_for_list(request: &HttpRequest) -> bool {
    let query = request.uri().query().unwrap_or_default();
    request.method().as_str() == "GET"
        && query.split('&').any(|parameter| REQUESTS.contains(&parameter))
}

fn check(body: &[u8]) -> Result<(), NoList> {
    let element = first_element(body);
    if !ANSWERS.iter().any(|answer| element.starts_with(answer.as_bytes())) {
        return Err(NoList::Other);
    }
    let has = |part: &str| memmem::find(body, part.as_bytes()).is_some();
    if has(TRUNCATED) && !has(NEXT) { Err(NoList::NoNext) } else { Ok(()) }
}

fn first_element(body: &[u8]) -> &[u8] {
    let body = body.strip_prefix("\u{feff}".as_bytes()).unwrap_or(body).trim_ascii_start();
    let declared = body.starts_with(b"<?").then(|| memmem::find(body, b"?>")).flatten();
    declared.map_or(body, |end| body[end + 2..].trim_ascii_start())
}

#[cfg(test)]
mod tests;
