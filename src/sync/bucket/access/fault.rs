//! Errors of the object store's client, classified by what the caller can do next.

use std::error::Error;
use std::io;

use crate::bucket::directory;
use crate::bucket::error::{BucketError, FormatError};
use crate::bucket::name::MARK;
use crate::bucket::url::WebPage;

/// Prefix of the client's error text for a response with an error status.
const STATUS: &str = "Server returned non-2xx status code: ";
/// Prefix of the client's error text for a 200 response whose body is an error.
const ERROR_BODY: &str = "Server returned error response: ";
/// Prefix of the client's error text for a key that a bulk delete failed to delete.
const KEPT: &str = "DeleteObjects request failed for key ";
/// Prefix of the client's error text for a truncated list page.
const CUT_LIST: &str = "Got invalid list response: ";
const DIRECTORY: &str = "LocalFileSystem";
const LOOK_AT_KEYS: &str = "Look at the keys in the environment and at what they may do";
const LOOK_AT_RIGHTS: &str = "Look at the owner and mode of that path, at how its disk is mounted, and at the user who \
     runs ctxfs";
/// Addresses of the metadata services of the clouds. The client requests credentials there when the
/// environment has none.
const METADATA: [&str; 2] = ["169.254.169.254", "metadata.google"];
const SHOWN: usize = 300;
/// Name of the requests that write an object.
pub(super) const WRITE: &str = "write";
/// Error codes with status 400 for which a retry or a new connection may succeed.
const PASSING: [&str; 5] =
    ["RequestTimeout", "BadDigest", "IncompleteBody", "XAmzContentSHA256Mismatch", "InternalError"];
/// Error codes with status 400 that concern credentials.
const OF_KEYS: [&str; 5] =
    ["ExpiredToken", "InvalidToken", "TokenRefreshRequired", "InvalidAccessKeyId", "AccessDenied"];

/// Error codes with status 400 that concern the key of an object or its size.
const OF_KEY: [&str; 4] = ["KeyTooLongError", "KeyTooLong", "InvalidURI", "EntityTooLarge"];

/// A failed request, classified by what the caller can do next. `Odd` means that the key denotes
/// something that ctxfs does not create: a link, a device or a directory. `Malformed` means that the
/// store does not accept the form of the request, such as a header. `Unfit` means that the store
/// never takes this key or its bytes: they are too long, for example. `OddKey` means that a key
/// in a list is not a valid path; the client of the object store then returns no list at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    Absent,
    Exists,
    Refused(String),
    Denied(String),
    Disk(String),
    Again(String),
    Unsupported(String),
    Malformed(String),
    Unfit(String),
    Never(String),
    Odd,
    OddKey(String),
    TooLarge { size: u64, limit: u64 },
    TooMany { limit: usize },
}

impl Fault {
    pub(super) fn of(error: &object_store::Error) -> Self {
        use object_store::Error as Client;
        match error {
            Client::NotFound { .. } => Self::not_found(error),
            Client::AlreadyExists { .. }
            | Client::Precondition { .. }
            | Client::NotModified { .. } => Self::Exists,
            Client::PermissionDenied { .. } | Client::Unauthenticated { .. } => {
                Self::Refused(shown_answer(error))
            }
            Client::NotSupported { .. } | Client::NotImplemented { .. } => {
                Self::Unsupported(deepest(error))
            }
            Client::InvalidPath { source } => Self::OddKey(plain(&source.to_string())),
            Client::Generic { store: DIRECTORY, .. } => Self::of_directory(error),
            Client::Generic { .. } => Self::of_chain(error),
            _ => Self::Never(deepest(error)),
        }
    }

    pub(super) fn into_error(self, what: &str, key: &str) -> BucketError {
        let key = key.to_owned();
        match self {
            Self::Absent => BucketError::Absent { key },
            Self::Exists => BucketError::Exists { key },
            Self::Refused(why) => {
                BucketError::Refused { key, why: format!("{why}. {LOOK_AT_KEYS}") }
            }
            Self::Denied(why) => {
                BucketError::Refused { key, why: format!("{why}. {LOOK_AT_RIGHTS}") }
            }
            // Without the mark, no conversation is shared.
            Self::Unfit(why) if key != MARK => BucketError::Unfit { key, why },
            // A proxy or a mistaken endpoint may answer so to any request. Only the refusal of an
            // object tells something of that object.
            Self::Malformed(why) if what == WRITE && key != MARK => BucketError::Unfit { key, why },
            Self::Disk(why) => BucketError::Disk { what: format!("{what} `{key}`"), why },
            Self::Again(why)
            | Self::Unsupported(why)
            | Self::Malformed(why)
            | Self::Unfit(why)
            | Self::Never(why) => {
                BucketError::Away { what: format!("{what} `{key}`"), why }
            }
            Self::Odd => FormatError::damaged(format!(
                "`{key}` in the bucket is no plain file, or a link or a file is on the way to it"
            ))
            .into(),
            Self::OddKey(why) => FormatError::damaged(format!(
                "something below `{key}` has a key that no ctxfs makes, and hides all others: {why}. \
                 Delete it with the tools of the store"
            ))
            .into(),
            Self::TooLarge { size, limit } => BucketError::TooLarge { key, size, limit },
            Self::TooMany { limit } => BucketError::TooMany { prefix: key, limit },
        }
    }

    pub(super) fn no_bucket() -> Self {
        Self::Never("there is no such bucket: make it, or correct the URL".to_owned())
    }

    pub(super) fn no_directory() -> Self {
        Self::Never("its directory is not there: is its disk mounted?".to_owned())
    }

    fn not_found(error: &object_store::Error) -> Self {
        let is_bucket = answer(error).is_some_and(|answer| {
            matches!(answer.element("Code"), "NoSuchBucket" | "ContainerNotFound")
        });
        if is_bucket { Self::no_bucket() } else { Self::Absent }
    }

    fn of_chain(error: &object_store::Error) -> Self {
        if let Some(page) = causes(error).find(|cause| cause.is::<WebPage>()) {
            return Self::Never(page.to_string());
        }
        for cause in causes(error) {
            if cause.is::<object_store::client::HttpError>() {
                return Self::Again(transport(error));
            }
            if let Some(source) = cause.downcast_ref::<io::Error>() {
                return Self::of_file(source);
            }
            let text = cause.to_string();
            if let Some(answer) = ErrorResponse::parse(&text) {
                return answer.fault();
            }
            if let Some(body) = text.strip_prefix(ERROR_BODY) {
                return Self::Again(ErrorResponse { status: 200, body: body.to_owned() }.shown());
            }
            if text.starts_with(KEPT) {
                return Self::of_kept(&text);
            }
            if text.starts_with(CUT_LIST) {
                return Self::Again("a page of names was cut".to_owned());
            }
        }
        Self::Never(deepest(error))
    }

    pub(super) fn at(
        directory: &crate::bucket::directory::Directory,
        key: &str,
        error: &io::Error,
    ) -> Self {
        Self::of_disk(error, format!("`{}`: {error}", directory.root.join(key).display()))
    }

    fn of_directory(error: &object_store::Error) -> Self {
        let why = causes(error).nth(1).map(ToString::to_string).unwrap_or_default();
        match causes(error).find_map(|cause| cause.downcast_ref::<io::Error>()) {
            Some(source) => Self::of_disk(source, plain(&why)),
            None => Self::Never(deepest(error)),
        }
    }

    fn of_disk(error: &io::Error, why: String) -> Self {
        if directory::is_odd(error) {
            return Self::Odd;
        }
        match error.kind() {
            io::ErrorKind::NotFound => Self::no_directory(),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::Denied(why)
            }
            io::ErrorKind::Interrupted | io::ErrorKind::TimedOut => Self::Again(why),
            io::ErrorKind::InvalidFilename => Self::Unfit(why),
            _ => Self::Disk(why),
        }
    }

    fn of_file(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied => Self::Refused(error.to_string()),
            io::ErrorKind::Interrupted | io::ErrorKind::TimedOut => Self::Again(error.to_string()),
            io::ErrorKind::InvalidFilename => Self::Unfit(error.to_string()),
            _ => Self::Never(error.to_string()),
        }
    }

    /// Parses the error code at the end of `... (code: X)`.
    fn of_kept(text: &str) -> Self {
        let code = text.rsplit_once("(code: ").map_or("", |(_, code)| code.trim_end_matches(')'));
        match code {
            "NoSuchKey" => Self::Absent,
            "InternalError" | "SlowDown" | "ServiceUnavailable" => Self::Again(plain(code)),
            code if OF_KEYS.contains(&code) => Self::Refused(plain(code)),
            code => Self::Never(plain(code)),
        }
    }
}

struct ErrorResponse {
    status: u16,
    body: String,
}

impl ErrorResponse {
    fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix(STATUS)?;
        let status = rest.get(..3)?.parse().ok()?;
        Some(Self { status, body: rest.get(3..)?.to_owned() })
    }

    fn fault(&self) -> Fault {
        let why = self.shown();
        match (self.status, self.element("Code")) {
            (401 | 403, _) => Fault::Refused(why),
            (404, _) => Fault::no_bucket(),
            (409 | 412, _) => Fault::Exists,
            (400, code) if OF_KEYS.contains(&code) => Fault::Refused(why),
            (400, code) if PASSING.contains(&code) => Fault::Again(why),
            (400, code) if OF_KEY.contains(&code) => Fault::Unfit(why),
            (400, _) => Fault::Malformed(why),
            (405 | 411 | 413 | 414 | 431, _) => Fault::Unfit(why),
            (501, _) => Fault::Unsupported(why),
            (408 | 425 | 429 | 500..=599, _) => Fault::Again(why),
            _ => Fault::Never(why),
        }
    }

    /// Returns the text of the first element `name` of the XML body, or an empty text. Error texts
    /// use only `Code` and `Message`, because other elements may repeat the access key and the
    /// signed request.
    fn element(&self, name: &str) -> &str {
        let inner = self.body.split_once(&format!("<{name}>")).map_or("", |(_, rest)| rest);
        inner.split_once(&format!("</{name}>")).map_or("", |(inner, _)| inner)
    }

    fn shown(&self) -> String {
        let mut text = format!("it answers {}", self.status);
        for (between, name) in [(" ", "Code"), (": ", "Message")] {
            let part = self.element(name);
            if !part.is_empty() {
                text += between;
                text += part;
            }
        }
        plain(&text)
    }
}

fn causes(error: &object_store::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(Some(error as &(dyn Error + 'static)), |error| (*error).source())
}

fn answer(error: &object_store::Error) -> Option<ErrorResponse> {
    causes(error).find_map(|cause| ErrorResponse::parse(&cause.to_string()))
}

fn shown_answer(error: &object_store::Error) -> String {
    answer(error).map_or_else(|| deepest(error), |answer| answer.shown())
}

fn deepest(error: &object_store::Error) -> String {
    let text = causes(error).last().map(ToString::to_string);
    plain(&text.unwrap_or_default())
}

fn transport(error: &object_store::Error) -> String {
    let asks_for_keys = causes(error).any(|cause| {
        let text = cause.to_string();
        METADATA.iter().any(|host| text.contains(host))
    });
    if asks_for_keys {
        return "the environment has no keys, and nothing near this machine gives some".to_owned();
    }
    deepest(error)
}

fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(SHOWN).collect()
}

#[cfg(test)]
mod tests;
