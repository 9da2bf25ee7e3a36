//! The endpoint `/mcp`: what each request gets.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Request, Response, StatusCode, header};
use rmcp::model::ProtocolVersion;
use tokio::sync::Notify;

use crate::envelope::Kind;
use crate::headers::{EVENTS, JSON, SESSION, is_type};
use crate::http::answer_body::AnswerBody;
use crate::http::client::{Client, OpenStream};
use crate::http::clients::Clients;
use crate::http::event_body::EventBody;
use crate::http::gate::{Gate, Owner, only};
use crate::http::modern;
use crate::http::refusal::Refusal;
use crate::http::request_body::{all_parsed, parsed, read};
use crate::http::streams::Event;
use crate::parsed::Parsed;
use crate::relay::{INVALID_REQUEST, METHOD_NOT_FOUND};
use ctxfs_models::http_server::Connection;

const PATH: &str = "/mcp";

/// The most bytes of a request that begins a session.
const MOST_TO_BEGIN: u64 = 1 << 20;
/// The time for a first message, after which the answer becomes a stream.
const PATIENCE: Duration = Duration::from_secs(5);
/// The same for the first answer of a session, which tells its id only if it is no error.
const HANDSHAKE: Duration = Duration::from_secs(30);

pub(super) struct Endpoint {
    pub(super) gate: Gate,
    pub(super) clients: Clients,
    pub(super) max_body: u64,
}

/// A request that came in, without its body.
struct Head {
    headers: HeaderMap,
    owner: Owner,
    version: Option<ProtocolVersion>,
    hang_up: Arc<Notify>,
}

impl Head {
    /// Returns true if it is of the revision without sessions.
    fn is_modern(&self) -> bool {
        self.version.as_ref().is_some_and(|version| !version.has_initialize())
    }
}

impl Endpoint {
    /// Answers a request on a connection.
    pub(super) async fn answer(
        self: Arc<Self>,
        request: Request<Incoming>,
        connection: Connection,
    ) -> Result<Response<AnswerBody>, Infallible> {
        let answer = self.respond(request, &connection).await;
        Ok(answer.unwrap_or_else(|refusal| refusal.answer().map(AnswerBody::text)))
    }

    async fn respond(
        self: Arc<Self>,
        request: Request<Incoming>,
        connection: &Connection,
    ) -> Result<Response<AnswerBody>, Refusal> {
        let owner = self.gate.check(request.headers())?;
        connection.admit();
        if request.uri().path() != PATH {
            let text = format!("there is nothing here: the endpoint is {PATH}");
            return Err(Refusal::new(StatusCode::NOT_FOUND, text));
        }
        let (parts, body) = request.into_parts();
        let version = match modern::version(&parts.headers) {
            Err(refusal) if parts.method == Method::POST => {
                return Err(self.with_id(refusal, body).await);
            }
            version => version?,
        };
        let head = Head { headers: parts.headers, owner, version, hang_up: connection.hang_up() };
        match parts.method {
            Method::POST => self.post(head, body).await,
            Method::GET if !head.is_modern() => self.get(&head),
            Method::DELETE if !head.is_modern() => self.delete(&head),
            _ => Err(Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "the method is not allowed")),
        }
    }

    /// Returns a refusal with the id of the request in a body, if that can be told.
    async fn with_id(&self, refusal: Refusal, body: Incoming) -> Refusal {
        let message = read(body, None, self.max_body.min(MOST_TO_BEGIN)).await;
        let parsed = message.and_then(parsed).ok();
        refusal.of_request(parsed.as_ref().and_then(|one| one.envelope.id(&one.message)))
    }

    async fn post(&self, head: Head, body: Incoming) -> Result<Response<AnswerBody>, Refusal> {
        let is_json =
            only(&head.headers, &header::CONTENT_TYPE)?.is_some_and(|kind| is_type(kind, JSON));
        if !is_json {
            let text = format!("the Content-Type is not {JSON}");
            return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
        }
        check_accept(&head.headers, &[JSON, EVENTS])?;
        if head.is_modern() {
            let client = self.clients.shared(head.owner, self.gate.token_name(head.owner))?;
            let message = read(body, Some(&client.shelf), self.max_body).await?;
            let parsed = parsed(message)?;
            modern::check(&head.headers, &parsed)?;
            return exchange(&client, vec![parsed], &head).await;
        }
        match only(&head.headers, &SESSION)? {
            Some(id) => {
                let client = self.clients.find(id, head.owner)?;
                let message = read(body, Some(&client.shelf), self.max_body).await?;
                exchange(&client, all_parsed(message)?, &head).await
            }
            None => self.begin(head, body).await,
        }
    }

    /// Begins a session, which has no id yet.
    async fn begin(&self, head: Head, body: Incoming) -> Result<Response<AnswerBody>, Refusal> {
        let message = read(body, None, self.max_body.min(MOST_TO_BEGIN)).await?;
        let parsed = parsed(message)?;
        let id = parsed.envelope.id(&parsed.message).map(str::to_owned);
        if !matches!(&parsed.envelope.kind, Kind::Request { method } if method == "initialize") {
            let refusal = match parsed.revision() {
                Some(_) => Refusal::bad(
                    modern::HEADER_MISMATCH,
                    "the header mcp-protocol-version does not say what the body says",
                ),
                None => Refusal::bad(INVALID_REQUEST, "the header mcp-session-id is missing"),
            };
            return Err(refusal.of_request(id.as_deref()));
        }
        let (session, client) = self.clients.begin(head.owner)?;
        let begun = Begun { clients: &self.clients, session: Some(session) };
        let first = match client.take(vec![parsed], &head.hang_up).await {
            Ok(Some(stream)) => first_answer(stream, HANDSHAKE).await,
            _ => return Err(Refusal::bad(INVALID_REQUEST, "the session has ended")),
        };
        if first.is_error() {
            return Ok(first.into_response(false));
        }
        let session = begun.keep();
        let mut response = first.into_response(false);
        if let Ok(value) = HeaderValue::from_str(&session) {
            response.headers_mut().insert(SESSION.clone(), value);
        }
        Ok(response)
    }

    fn get(&self, head: &Head) -> Result<Response<AnswerBody>, Refusal> {
        check_accept(&head.headers, &[EVENTS])?;
        let (_, client) = self.session(head)?;
        Ok(events(client.listen(&head.hang_up), None))
    }

    fn delete(&self, head: &Head) -> Result<Response<AnswerBody>, Refusal> {
        let (id, _) = self.session(head)?;
        if let Some(client) = self.clients.take(id) {
            tokio::spawn(async move { client.end().await });
        }
        Ok(status(StatusCode::NO_CONTENT))
    }

    fn session<'a>(&self, head: &'a Head) -> Result<(&'a str, Arc<Client>), Refusal> {
        let id = only(&head.headers, &SESSION)?
            .ok_or_else(|| Refusal::bad(INVALID_REQUEST, "the header mcp-session-id is missing"))?;
        Ok((id, self.clients.find(id, head.owner)?))
    }
}

/// A session that ends if it is not kept.
struct Begun<'a> {
    clients: &'a Clients,
    session: Option<String>,
}

impl Begun<'_> {
    fn keep(mut self) -> String {
        self.session.take().unwrap_or_default()
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if let Some(client) = self.session.take().and_then(|id| self.clients.take(&id)) {
            tokio::spawn(async move { client.end().await });
        }
    }
}

/// Gives messages to a client's session. Returns what the request gets.
async fn exchange(
    client: &Arc<Client>,
    messages: Vec<Parsed>,
    head: &Head,
) -> Result<Response<AnswerBody>, Refusal> {
    let is_batch = messages.len() > 1;
    let id = messages.first().and_then(|parsed| parsed.envelope.id(&parsed.message));
    let id = id.map(str::to_owned);
    let taken = client.take(messages, &head.hang_up).await;
    let taken =
        taken.map_err(|why| Refusal::bad(INVALID_REQUEST, why).of_request(id.as_deref()))?;
    let Some(stream) = taken else { return Ok(status(StatusCode::ACCEPTED)) };
    if is_batch {
        return Ok(events(stream, None));
    }
    Ok(first_answer(stream, PATIENCE).await.into_response(head.is_modern()))
}

/// The beginning of an answer.
enum First {
    /// The answer, and nothing else.
    Answer(Box<Event>),
    /// All else.
    Stream(OpenStream, Option<Box<Event>>),
}

async fn first_answer(mut stream: OpenStream, patience: Duration) -> First {
    match tokio::time::timeout(patience, stream.next()).await {
        Ok(Some(event)) if event.is_answer => First::Answer(Box::new(event)),
        Ok(event) => First::Stream(stream, event.map(Box::new)),
        Err(_) => First::Stream(stream, None),
    }
}

impl First {
    fn is_error(&self) -> bool {
        matches!(self, Self::Answer(event) if event.code.is_some())
    }

    fn into_response(self, is_modern: bool) -> Response<AnswerBody> {
        match self {
            Self::Answer(event) => {
                let code = event.code.filter(|_| is_modern);
                let mut response = Response::new(AnswerBody::json(event.queued));
                *response.status_mut() = code.map_or(StatusCode::OK, status_of);
                set(&mut response, header::CONTENT_TYPE, JSON);
                response
            }
            Self::Stream(stream, first) => events(stream, first.map(|event| *event)),
        }
    }
}

/// Returns the status that 2026-07-28 gives an error.
fn status_of(code: i64) -> StatusCode {
    match i32::try_from(code) {
        Ok(METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        Ok(-32022..=-32020) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

fn events(stream: OpenStream, first: Option<Event>) -> Response<AnswerBody> {
    let body = EventBody::new(stream, first);
    let mut response = Response::new(AnswerBody::Events(Box::new(body)));
    set(&mut response, header::CONTENT_TYPE, EVENTS);
    set(&mut response, header::CACHE_CONTROL, "no-cache, no-transform");
    set(&mut response, HeaderName::from_static("x-accel-buffering"), "no");
    response
}

fn status(status: StatusCode) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::empty());
    *response.status_mut() = status;
    response
}

fn set(response: &mut Response<AnswerBody>, name: HeaderName, value: &'static str) {
    response.headers_mut().insert(name, HeaderValue::from_static(value));
}

/// Refuses a client that takes none of some types.
fn check_accept(headers: &HeaderMap, types: &[&str]) -> Result<(), Refusal> {
    let given = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let given: Vec<&str> = given.flat_map(|value| value.split(',')).map(str::trim).collect();
    let takes = |kind: &str| {
        let group = kind.split_once('/').map(|(group, _)| format!("{group}/*")).unwrap_or_default();
        given.iter().any(|one| is_type(one, kind) || is_type(one, "*/*") || is_type(one, &group))
    };
    if given.is_empty() || types.iter().all(|kind| takes(kind)) {
        return Ok(());
    }
    let text = format!("the Accept header does not have {}", types.join(" and "));
    Err(Refusal::new(StatusCode::NOT_ACCEPTABLE, text))
}
