//! The file with the tokens of a user, their renewal and their end.
//!
//! Several gateways use the file at a time. A change is made under the lock of another file beside
//! it, by a new file in its place. The tokens for a server are renewed under a lock of their own,
//! because a server may accept a token for renewal only once, and may be slow.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{self, HeaderValue};
use hyper::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use percent_encoding::utf8_percent_encode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::oauth::discovery::Challenge;
use crate::oauth::exchange::{self, FORM, HttpAnswer, UNRESERVED, form};
use ctxfs_core::model::visible::{self, IN_LISTS};

// A token is renewed this many seconds before it expires, but not in the first half of its life.
const EARLY: u64 = 30;
// Interval between checks whether the tokens of a server are still being renewed elsewhere.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
pub(super) const BASIC: &str = "client_secret_basic";
pub(super) const POST: &str = "client_secret_post";
pub(super) const NO_SECRET: &str = "none";

/// The tokens for a server, with the data that renews them. `wanted` are scopes that the server
/// has missed in a request. `expires` is the time to renew them, in seconds since the epoch.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Grant {
    pub(super) issuer: String,
    pub(super) token_endpoint: String,
    pub(super) revocation_endpoint: Option<String>,
    pub(super) resource: String,
    pub(super) client: OauthClient,
    pub(super) scope: Option<String>,
    pub(super) wanted: Option<String>,
    pub(super) access_token: String,
    pub(super) refresh_token: Option<String>,
    pub(super) expires: Option<u64>,
}

/// The client that an authorization server knows. `auth` is the way in which it sends its secret.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct OauthClient {
    pub(super) id: String,
    pub(super) secret: Option<String>,
    pub(super) auth: String,
}

impl Grant {
    /// Requests tokens from the authorization server.
    pub(super) async fn request(&mut self, pairs: &[(&str, &str)]) -> Result<(), String> {
        let pairs = [&[("resource", &*self.resource)], pairs].concat();
        let answer = self.post(&self.token_endpoint, pairs).await?;
        if answer.status != StatusCode::OK {
            let issuer = visible::escaped(&self.issuer, IN_LISTS);
            return Err(format!("`{issuer}` gives no token: {}", answer.reason()));
        }
        self.take(&answer.json)
    }

    /// Revokes the tokens (RFC 7009), if the authorization server offers that.
    pub(super) async fn revoke(&self) -> Result<(), String> {
        let Some(endpoint) = &self.revocation_endpoint else { return Ok(()) };
        let refresh = self.refresh_token.as_deref().map(|token| (token, "refresh_token"));
        for (token, kind) in refresh.into_iter().chain([(&*self.access_token, "access_token")]) {
            let pairs = vec![("token", token), ("token_type_hint", kind)];
            let answer = self.post(endpoint, pairs).await?;
            if answer.status != StatusCode::OK {
                let issuer = visible::escaped(&self.issuer, IN_LISTS);
                return Err(format!("`{issuer}` does not revoke the {kind}: {}", answer.reason()));
            }
        }
        Ok(())
    }

    /// Sends a form to the authorization server, with what proves to be the client.
    async fn post<'a>(
        &'a self,
        endpoint: &str,
        mut pairs: Vec<(&'a str, &'a str)>,
    ) -> Result<HttpAnswer, String> {
        let OauthClient { id, secret, auth } = &self.client;
        let mut headers = HeaderMap::new();
        match secret.as_deref().filter(|_| auth != NO_SECRET) {
            Some(secret) if auth == BASIC => {
                let pair = format!(
                    "{}:{}",
                    utf8_percent_encode(id, UNRESERVED),
                    utf8_percent_encode(secret, UNRESERVED)
                );
                let basic = format!("Basic {}", STANDARD.encode(pair));
                let basic = HeaderValue::from_str(&basic).map_err(|error| error.to_string())?;
                headers.insert(header::AUTHORIZATION, basic);
            }
            secret => {
                pairs.push(("client_id", id));
                pairs.extend(secret.map(|secret| ("client_secret", secret)));
            }
        }
        exchange::post(endpoint, FORM, headers, form(&pairs)).await
    }

    fn take(&mut self, answer: &Value) -> Result<(), String> {
        let text = |name: &str| answer[name].as_str().map(str::to_owned);
        let kind = text("token_type").unwrap_or_default();
        let is_token = |token: &String| {
            kind.eq_ignore_ascii_case("bearer")
                && !token.is_empty()
                && token.bytes().all(|byte| byte.is_ascii_graphic())
        };
        let token = text("access_token").filter(is_token);
        self.access_token = token.ok_or("the answer has no bearer token")?;
        self.refresh_token = text("refresh_token").or(self.refresh_token.take());
        self.scope = text("scope").or(self.scope.take());
        let seconds = answer["expires_in"].as_u64().filter(|seconds| *seconds > 0);
        self.expires =
            seconds.map(|seconds| now().saturating_add(seconds - EARLY.min(seconds / 2)));
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.expires.is_some_and(|expires| expires <= now())
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The file with the tokens, which only the user can read. Servers are known by their URLs as
/// configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantFile {
    path: PathBuf,
}

type Grants = BTreeMap<String, Grant>;

impl GrantFile {
    /// Names the file in a directory, which is made when something is stored.
    pub fn within(directory: &Path) -> Self {
        Self { path: directory.join("mcp-tokens.json") }
    }

    pub(super) fn get(&self, url: &str) -> io::Result<Option<Grant>> {
        Ok(self.read()?.remove(url))
    }

    /// Changes the tokens of all servers. Writes them if `change` returns something.
    pub(super) fn change<T>(
        &self,
        change: impl FnOnce(&mut Grants) -> Option<T>,
    ) -> io::Result<Option<T>> {
        let lock = self.open_lock("lock")?;
        lock.lock()?;
        let mut grants = self.read()?;
        let changed = change(&mut grants);
        if changed.is_some() {
            self.write(&grants)?;
        }
        Ok(changed)
    }

    /// Waits until nothing else renews the tokens for a server. The lock ends when it is dropped.
    pub(super) async fn lock_renewals(&self, url: &str) -> io::Result<File> {
        let name = blake3::hash(url.as_bytes()).to_hex();
        let lock = self.open_lock(&format!("{}.lock", &name[..16]))?;
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(lock),
                // A thread that waits could not be cancelled.
                Err(TryLockError::WouldBlock) => sleep(POLL_INTERVAL).await,
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
    }

    fn open_lock(&self, extension: &str) -> io::Result<File> {
        if let Some(directory) = self.path.parent() {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        let mut options = File::options();
        options.create(true).truncate(false).write(true).mode(0o600);
        options.open(self.path.with_extension(extension))
    }

    fn version(&self) -> FileVersion {
        let found = fs::metadata(&self.path).ok()?;
        Some((found.ino(), found.mtime(), found.mtime_nsec()))
    }

    fn read(&self) -> io::Result<Grants> {
        let text = match fs::read(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Grants::new()),
            read => read?,
        };
        serde_json::from_slice(&text).map_err(|error| {
            let text = format!("`{}` is damaged: {error}", self.path.display());
            io::Error::new(io::ErrorKind::InvalidData, text)
        })
    }

    fn write(&self, grants: &Grants) -> io::Result<()> {
        let new = self.path.with_extension("new");
        fs::remove_file(&new).or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })?;
        let mut file = File::options().create_new(true).write(true).mode(0o600).open(&new)?;
        file.write_all(&serde_json::to_vec_pretty(grants)?)?;
        file.sync_all()?;
        fs::rename(&new, &self.path)
    }
}

/// The tokens for one server, for its requests. `known` has them as read from a version of the file.
/// `failed` is the end of the last renewal, if it failed; it is locked during a renewal.
pub(crate) struct ServerGrant {
    file: GrantFile,
    url: String,
    known: Mutex<Option<(FileVersion, Option<Grant>)>>,
    failed: tokio::sync::Mutex<Option<(Instant, String)>>,
}

// Inode number and time of the last change. Each change of the file puts a new one in its place.
type FileVersion = Option<(u64, i64, i64)>;

impl ServerGrant {
    pub(crate) fn new(file: GrantFile, url: String) -> Self {
        Self { file, url, known: Mutex::default(), failed: tokio::sync::Mutex::default() }
    }

    /// Returns the token for a request, renewed if it has expired. Returns `None` if the user has
    /// not logged in.
    pub(crate) async fn token(&self) -> Result<Option<String>, String> {
        let version = self.file.version();
        let known = self.known.lock().as_ref().filter(|known| known.0 == version).cloned();
        let grant = if let Some((_, grant)) = known {
            grant
        } else {
            let grant = self.read().await?;
            *self.known.lock() = Some((version, grant.clone()));
            grant
        };
        match grant {
            Some(grant) if grant.is_over() && grant.refresh_token.is_some() => {
                self.renewed(&grant.access_token).await.map(Some)
            }
            grant => Ok(grant.map(|grant| grant.access_token)),
        }
    }

    /// Returns another token than `refused`, with which a request was refused. Requests that wait for
    /// a renewal share its failure, because an authorization server that hangs would delay each of
    /// them in turn. A renewal that has begun goes on if the request is given up, because the
    /// authorization server may already have replaced the tokens.
    pub(crate) async fn renewed(&self, refused: &str) -> Result<String, String> {
        let asked = Instant::now();
        let mut failed = self.failed.lock().await;
        if let Some((_, why)) = failed.as_ref().filter(|(at, _)| *at > asked) {
            return Err(why.clone());
        }
        let lock = self.file.lock_renewals(&self.url).await;
        let lock = lock.map_err(|error| format!("the tokens cannot be renewed: {error}"))?;
        let grant = self.read().await?.ok_or("no tokens are stored")?;
        if grant.access_token != refused {
            return Ok(grant.access_token);
        }
        let renewal = tokio::spawn(renew(self.file.clone(), self.url.clone(), grant, lock));
        let renewed = renewal.await.map_err(|error| error.to_string())?;
        *failed = renewed.as_ref().err().map(|why| (Instant::now(), why.clone()));
        renewed
    }

    /// Notes the scopes that a request was refused for, so that the next login asks for them.
    pub(crate) async fn want(&self, challenge: &Challenge) {
        let (file, url, scope) = (self.file.clone(), self.url.clone(), challenge.scope.clone());
        let note = move || {
            file.change(|grants| {
                let grant = grants.get_mut(&url)?;
                (grant.wanted != scope).then(|| grant.wanted = scope)
            })
        };
        if let Ok(Err(error)) = spawn_blocking(note).await {
            tracing::warn!("the scopes that are missing cannot be noted: {error}");
        }
    }

    async fn read(&self) -> Result<Option<Grant>, String> {
        let (file, url) = (self.file.clone(), self.url.clone());
        let read =
            spawn_blocking(move || file.get(&url)).await.map_err(|error| error.to_string())?;
        read.map_err(|error| format!("the tokens cannot be read: {error}"))
    }
}

/// Renews `grant`, and stores it unless the user has logged in again meanwhile.
async fn renew(
    file: GrantFile,
    url: String,
    mut grant: Grant,
    _lock: File,
) -> Result<String, String> {
    let spent = grant.access_token.clone();
    let refresh = grant.refresh_token.clone().ok_or("its token is refused")?;
    let pairs = [("grant_type", "refresh_token"), ("refresh_token", &*refresh)];
    grant.request(&pairs).await?;
    let token = grant.access_token.clone();
    let store = move || {
        file.change(|grants| {
            let stored = grants.get_mut(&url).filter(|stored| stored.access_token == spent)?;
            grant.wanted = stored.wanted.take();
            *stored = grant;
            Some(())
        })
    };
    let stored = spawn_blocking(store).await.map_err(|error| error.to_string())?;
    stored.map_err(|error| format!("the new tokens cannot be stored: {error}"))?;
    Ok(token)
}
