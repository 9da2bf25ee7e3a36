//! Clients of the stores, built from a URL and the environment.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, Checksum};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::list::PaginatedListStore;
use object_store::memory::InMemory;
use object_store::multipart::MultipartStore;
use object_store::{ClientOptions, ObjectStore, RetryConfig};

use super::lists::ListConnector;
use super::{BucketUrl, Service, environment};
use crate::bucket::directory::Directory;
use crate::bucket::error::BucketError;

///+ Time limit for a connection, including name resolution.
const CONNECT: Duration = Duration::from_secs(5);
///+ Keys per delete request of S3.
const S3_DELETES: usize = 1000;
///+ Keys per delete request of Azure.
const AZURE_DELETES: usize = 256;
///+ Variables with an endpoint, which may use plain HTTP to this host.
const ENDPOINTS: [&str; 6] = [
    "aws_endpoint_url",
    "aws_endpoint_url_s3",
    "aws_endpoint",
    "google_base_url",
    "azure_storage_endpoint",
    "azure_endpoint",
];

///+ A store whose pages and parts are single requests.
pub(crate) trait Cloud: ObjectStore + PaginatedListStore + MultipartStore {}

impl<T: ObjectStore + PaginatedListStore + MultipartStore> Cloud for T {}

///+ Client of a store. Each call makes one request without retries.
#[derive(Clone)]
pub(crate) enum Opened {
    Cloud {
        store: Arc<dyn Cloud>,
        ///+ Keys per delete request.
        deletes: usize,
    },
    Directory(Arc<Directory>),
    Memory(Arc<dyn ObjectStore>),
}

///+ Variables of one service, in lower case as its builder takes them.
struct Settings {
    url: String,
    pairs: Vec<(String, String)>,
}

impl BucketUrl {
    ///+ Creates a client. Reads credentials, region, endpoint and encryption from `environment`,
    ///+ under the names that the tools of each service use.
    ///+
    ///+ Makes no request. A directory may be missing, but not its parent: the first writer creates
    ///+ it. Plain HTTP needs `AWS_ALLOW_HTTP=true`, except to this host.
    pub(crate) fn open(
        &self,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Opened, BucketError> {
        match &self.service {
            Service::S3 { bucket } => self.settings("aws_", environment).s3(bucket),
            Service::Google { bucket } => self.settings("google_", environment).google(bucket),
            Service::Azure { container } => self.settings("azure_", environment).azure(container),
            Service::Directory(path) => self.directory(path),
            Service::Memory => Ok(Opened::Memory(Arc::new(InMemory::new()))),
        }
    }

    fn settings(
        &self,
        start: &str,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Settings {
        let pairs = environment
            .into_iter()
            .map(|(name, value)| (name.to_ascii_lowercase(), value))
            .filter(|(name, value)| name.starts_with(start) && !value.is_empty())
            .collect();
        Settings { url: self.to_string(), pairs }
    }

    fn directory(&self, path: &Path) -> Result<Opened, BucketError> {
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
        Ok(Opened::Directory(Arc::new(Directory::new(path))))
    }
}

impl Settings {
    ///+ Later values override earlier ones in the builder: the environment can change the checksum,
    ///+ but not the bucket.
    fn s3(&self, bucket: &str) -> Result<Opened, BucketError> {
        let first = AmazonS3Builder::new()
            .with_client_options(self.client()?)
            .with_http_connector(ListConnector)
            .with_checksum_algorithm(Checksum::SHA256);
        let store = self
            .known()
            .fold(first, |builder, (key, value)| builder.with_config(key, value))
            .with_bucket_name(bucket)
            .with_retry(once())
            .build()
            .map_err(|error| self.refuse(&error))?;
        let is_single = self.pairs.iter().any(|(name, value)| {
            name == "aws_disable_bulk_delete" && !value.eq_ignore_ascii_case("false")
        });
        let deletes = if is_single { 1 } else { S3_DELETES };
        Ok(Opened::Cloud { store: Arc::new(store), deletes })
    }

    fn google(&self, bucket: &str) -> Result<Opened, BucketError> {
        let first = GoogleCloudStorageBuilder::new()
            .with_client_options(self.client()?)
            .with_http_connector(ListConnector);
        let store = self
            .known()
            .fold(first, |builder, (key, value)| builder.with_config(key, value))
            .with_bucket_name(bucket)
            .with_retry(once())
            .build()
            .map_err(|error| self.refuse(&error))?;
        Ok(Opened::Cloud { store: Arc::new(store), deletes: 1 })
    }

    fn azure(&self, container: &str) -> Result<Opened, BucketError> {
        let first = MicrosoftAzureBuilder::new()
            .with_client_options(self.client()?)
            .with_http_connector(ListConnector);
        let store = self
            .known()
            .fold(first, |builder, (key, value)| builder.with_config(key, value))
            .with_container_name(container)
            .with_retry(once())
            .build()
            .map_err(|error| self.refuse(&error))?;
        Ok(Opened::Cloud { store: Arc::new(store), deletes: AZURE_DELETES })
    }

    fn known<K: std::str::FromStr>(&self) -> impl Iterator<Item = (K, &str)> {
        self.pairs.iter().filter_map(|(name, value)| Some((name.parse().ok()?, value.as_str())))
    }

    ///+ The client has no time limits of its own: callers have deadlines that grow with the size of
    ///+ the body.
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

    ///+ Refuses variables at which a client would panic in its first request.
    fn check(&self) -> Result<(), BucketError> {
        for (name, value) in &self.pairs {
            if let Some(flaw) = environment::flaw(name, value) {
                let why = format!("`{}` {flaw}", name.to_ascii_uppercase());
                return Err(BucketError::Url { url: self.url.clone(), why });
            }
        }
        Ok(())
    }

    ///+ The texts of the builders name the setting, and print a value only if it is a number, a
    ///+ switch or a path.
    fn refuse(&self, error: &object_store::Error) -> BucketError {
        let error = error.to_string();
        let why = format!(
            "{}. Correct that in the environment: docs/REMOTE.md has the variables of each service",
            error.trim_end_matches('.')
        );
        BucketError::Url { url: self.url.clone(), why }
    }
}

///+ Requests are retried by the caller, which counts them and has a deadline.
fn once() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

fn use_ring() {
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        // The error is a provider that another thread has just installed.
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
