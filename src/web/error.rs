//! The reasons why a request fails, and the error page.

use std::io;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use maud::html;

use crate::shell;
use ctxfs_core::model::NameError;
use ctxfs_engine::EngineError;

/// The reason why a request was refused or failed. It is answered with an error page. The status is
/// 403 for a wrong host or origin, 401 without a token, 405 for methods other than GET and HEAD,
/// 404 or 400 for a wrong address, 503 if the server is busy, and otherwise 500.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each variant has a message")]
pub enum WebError {
    #[error("this page is reached by the address that `ctxfs web` printed, and by no other name")]
    Host,
    #[error("pages of other origins may not read this one")]
    Origin,
    #[error("open the link that `ctxfs web` printed: it has the token that lets you in")]
    NoToken,
    #[error("nothing can be changed here: only GET and HEAD are answered")]
    Method,
    #[error("there is no such page")]
    Missing,
    #[error("{0}")]
    Bad(String),
    #[error("too much is going on at once; try again in a moment")]
    Busy,
    #[error("the browser has gone")]
    Gone,
    #[error(transparent)]
    Engine(EngineError),
    #[error(transparent)]
    Io(#[from] io::Error),
}

pub(super) type Result<T, E = WebError> = std::result::Result<T, E>;

impl WebError {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Host | Self::Origin => StatusCode::FORBIDDEN,
            Self::NoToken => StatusCode::UNAUTHORIZED,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Missing => StatusCode::NOT_FOUND,
            Self::Bad(_) => StatusCode::BAD_REQUEST,
            Self::Busy | Self::Gone => StatusCode::SERVICE_UNAVAILABLE,
            Self::Engine(_) | Self::Io(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    // Returns the kind of the page, as used by the script and the style, and its title.
    fn kind(&self) -> (&'static str, &'static str) {
        match self {
            Self::Host | Self::Origin | Self::NoToken | Self::Method => ("refused", "Not this way"),
            Self::Missing => ("missing", "Nothing here"),
            _ => ("trouble", "That did not work"),
        }
    }
}

// Missing and invalid names are not distinguished in the answer.
impl From<EngineError> for WebError {
    fn from(error: EngineError) -> Self {
        match error.raw_os_error() {
            libc::ENOENT
            | libc::ENOTDIR
            | libc::EISDIR
            | libc::EINVAL
            | libc::ENAMETOOLONG
            | libc::ELOOP => Self::Missing,
            _ => Self::Engine(error),
        }
    }
}

impl From<NameError> for WebError {
    fn from(_: NameError) -> Self {
        Self::Missing
    }
}

impl IntoResponse for WebError {
    fn into_response(self) -> Response {
        let (kind, title) = self.kind();
        if let Self::Engine(_) | Self::Io(_) = self {
            tracing::warn!("a page failed: {self}");
        }
        let is_in = !matches!(self, Self::Host | Self::Origin | Self::NoToken | Self::Method);
        let body = html! {
            h1 { (title) }
            p { (self.to_string()) }
            @if is_in { p { a href="/" { "All conversations" } } }
        };
        let page = shell::alone(kind, title, is_in, &body);
        let mut response = (self.status(), Html(page)).into_response();
        if let Self::Method = self {
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        }
        response
    }
}
