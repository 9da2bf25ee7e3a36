//! The answer to a request over HTTP that is not taken.

use hyper::header::HeaderValue;
use hyper::{Response, StatusCode, header};
use serde_json::json;

use crate::relay::INVALID_REQUEST;

/// A status, and an error of JSON-RPC that says why.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    /// The id of the request as written, if it is known.
    id: Option<String>,
    code: i32,
    text: String,
    data: Option<serde_json::Value>,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, id: None, code: INVALID_REQUEST, text: text.into(), data: None }
    }

    pub(super) fn bad(code: i32, text: impl Into<String>) -> Self {
        Self { code, ..Self::new(StatusCode::BAD_REQUEST, text) }
    }

    pub(super) fn of_request(self, id: Option<&str>) -> Self {
        Self { id: id.map(str::to_owned), ..self }
    }

    pub(super) fn with(self, data: serde_json::Value) -> Self {
        Self { data: Some(data), ..self }
    }

    pub(super) fn answer(self) -> Response<String> {
        let mut error = json!({"code": self.code, "message": self.text});
        if let Some(data) = self.data {
            error["data"] = data;
        }
        let id = self.id.as_deref().unwrap_or("null");
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#);
        let mut response = Response::new(text);
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        match self.status {
            StatusCode::UNAUTHORIZED => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            StatusCode::METHOD_NOT_ALLOWED => {
                headers.insert(header::ALLOW, HeaderValue::from_static("GET, POST, DELETE"));
            }
            StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("60"));
            }
            // The rest of such a body is not read.
            StatusCode::PAYLOAD_TOO_LARGE | StatusCode::REQUEST_TIMEOUT => {
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        response
    }
}
