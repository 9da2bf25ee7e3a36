//! One request, and what comes back.

use std::time::Duration;

use hyper::body::Incoming;
use hyper::{HeaderMap, Method, Request, Response, StatusCode, header};

use crate::extract::{ModelReply, ProviderKind};
use crate::llm::address::Address;
use crate::llm::complaint::{Complaint, MOST_ERROR};
use crate::llm::connections::Connections;
use crate::llm::fault::{Fault, FaultKind, Hint};
use crate::llm::patience::Patience;
use crate::llm::{pauses, reading};

/// The time for the text of an error after its status.
const ERROR_TEXT: Duration = Duration::from_secs(10);

/// The endpoint of a model.
pub(super) struct Endpoint {
    pub(super) kind: ProviderKind,
    pub(super) address: Address,
    /// The headers of every request, one of which may hold the key.
    pub(super) headers: HeaderMap,
    pub(super) connections: Connections,
}

impl Endpoint {
    /// Sends a request with this body, and reads the reply.
    pub(super) async fn attempt(
        &self,
        body: String,
        patience: Patience<'_>,
    ) -> Result<ModelReply, Fault> {
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.address.uri().clone();
        *request.headers_mut() = self.headers.clone();
        let response = patience.wait_for(self.connections.send(request)).await?;
        let response = response.map_err(|error| {
            let (what, hint) = if error.is_connect() {
                ("cannot be reached", Hint::Server)
            } else {
                ("did not answer", Hint::Later)
            };
            Fault::new(FaultKind::Passing(None), what, hint).caused_by(&error)
        })?;
        if response.status() != StatusCode::OK {
            return Err(refused(response, patience).await);
        }
        reading::read(response.into_body(), self.kind, patience).await
    }
}

/// Reads the error of an answer.
async fn refused(response: Response<Incoming>, patience: Patience<'_>) -> Fault {
    let status = response.status();
    if status.is_redirection() {
        return redirected(&response);
    }
    let asked = pauses::asked_for(response.headers());
    let (mut body, mut text) = (response.into_body(), Vec::new());
    let patience = patience.at_most(ERROR_TEXT);
    while text.len() < MOST_ERROR {
        match patience.wait_for(reading::next(&mut body)).await.map_err(Fault::from) {
            Ok(Some(Ok(bytes))) => text.extend_from_slice(&bytes),
            Err(fault) if fault.kind == FaultKind::Stopped => return fault,
            // The status alone says enough.
            _ => break,
        }
    }
    Fault::of_status(status, Complaint::read(&text), asked)
}

/// A request goes nowhere else, as the key would go along.
fn redirected(response: &Response<Incoming>) -> Fault {
    let to = response.headers().get(header::LOCATION).map(header::HeaderValue::as_bytes);
    let to = String::from_utf8_lossy(to.unwrap_or_default());
    let to = to.split(['?', '#']).next().unwrap_or_default().to_owned();
    let what = format!("answered {}, a redirection, which is not followed", response.status());
    Fault::new(FaultKind::Rejected, what, Hint::Address).saying(to)
}
