//! URLs of buckets, which the setting `[remote] url` contains.

mod client;

use std::fmt;
use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;

use crate::bucket::error::BucketError;

pub(super) use client::{CloudStore, OpenStore};

/// Maximum length of the name of a bucket or container. The stores have lower limits.
const LONGEST_NAME: usize = 255;
/// Maximum length of a prefix. It keeps keys below the limit of S3, 1024 bytes.
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

#[cfg(test)]
mod tests;
