//! The endpoint `/mcp`: reads requests, checks their headers, and answers them with a text, a
//! message, or a stream of events.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use rmcp::model::ProtocolVersion;
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};

use crate::http::clients::{HttpSession, HttpSessions, OpenStream};
use crate::http::gate::{HttpGate, HttpRefusal, TokenIndex, only};
use crate::http::streams::StreamEvent;
use crate::http_message::{
    BodyReader, EVENTS, JSON, JsonBody, METHOD, NAME, OneLine, SESSION, VERSION, decoded, flatten,
    is_type,
};
use crate::json_rpc::{
    EnvelopeError, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, MessageKind, PARSE_ERROR,
    Parsed, UNSUPPORTED_VERSION, is_batch, messages,
};
use crate::line_reader::{InputLine, LineReader};
use crate::message::Message;
use crate::queue::Queued;
use crate::revision::{MODERN, missing_key};
use crate::shelf::LazyShelf;
use ctxfs_models::http_server::Connection;

const PATH: &str = "/mcp";
// Maximum size in bytes of a request that starts a session.
const MAX_TO_BEGIN: u64 = 1 << 20;
// If the first answer takes longer than this, the response becomes a stream of events.
const FIRST_ANSWER_TIME: Duration = Duration::from_secs(5);
// Time limit for the first answer of a session. A session needs more time, because only a response
// with a result can carry the session id.
const HANDSHAKE: Duration = Duration::from_secs(30);
// Maximum time between two parts of a body, and for the whole body.
const BODY_IDLE_TIME: Duration = Duration::from_secs(30);
const BODY_TIME: Duration = Duration::from_mins(10);
// Error code for headers that contradict the body.
const HEADER_MISMATCH: i32 = -32020;

// Time without an event after which a comment is sent to keep the connection alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
const CHUNK_BYTES: usize = 64 * 1024;

pub(crate) struct Endpoint {
    pub(crate) gate: HttpGate,
    pub(crate) clients: HttpSessions,
    pub(crate) max_body: u64,
}

struct HttpHead {
    headers: HeaderMap,
    owner: TokenIndex,
    version: Option<ProtocolVersion>,
    connection: Connection,
}

impl HttpHead {
    fn is_modern(&self) -> bool {
        self.version.as_ref().is_some_and(|version| !version.has_initialize())
    }

    /// Waits for a turn of the client's token if a message needs one. Notifications and responses
    /// need none, because they may end a request that has a turn. Streams without an end need none,
    /// either.
    async fn turn(&self, messages: &[Parsed]) {
        let needs_turn = |parsed: &Parsed| match &parsed.envelope.kind {
            MessageKind::Request { method } => method != "subscriptions/listen",
            MessageKind::Notification { .. } | MessageKind::Response { .. } => false,
        };
        if let Some(token) = self.owner
            && messages.iter().any(needs_turn)
        {
            self.connection.turn(token).await;
        }
    }
}

impl Endpoint {
    pub(crate) async fn answer(
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
    ) -> Result<Response<AnswerBody>, HttpRefusal> {
        let owner = self.gate.check(request.headers())?;
        connection.admit();
        if request.uri().path() != PATH {
            let text = format!("there is nothing here: the endpoint is {PATH}");
            return Err(HttpRefusal::new(StatusCode::NOT_FOUND, text));
        }
        let (parts, body) = request.into_parts();
        let version = match revision_of_headers(&parts.headers) {
            Err(refusal) if parts.method == Method::POST => {
                return Err(self.with_id(refusal, body).await);
            }
            version => version?,
        };
        let head =
            HttpHead { headers: parts.headers, owner, version, connection: connection.clone() };
        match parts.method {
            Method::POST => self.post(head, body).await,
            Method::GET if !head.is_modern() => self.get(&head),
            Method::DELETE if !head.is_modern() => self.delete(&head),
            _ => Err(HttpRefusal::new(StatusCode::METHOD_NOT_ALLOWED, "the method is not allowed")),
        }
    }

    async fn with_id(&self, refusal: HttpRefusal, body: Incoming) -> HttpRefusal {
        let message = read_body(body, None, self.max_body.min(MAX_TO_BEGIN)).await;
        let parsed = message.and_then(parsed).ok();
        refusal.of_request(parsed.as_ref().and_then(|one| one.envelope.id(&one.message)))
    }

    async fn post(
        &self,
        head: HttpHead,
        body: Incoming,
    ) -> Result<Response<AnswerBody>, HttpRefusal> {
        let is_json =
            only(&head.headers, &header::CONTENT_TYPE)?.is_some_and(|kind| is_type(kind, JSON));
        if !is_json {
            let text = format!("the Content-Type is not {JSON}");
            return Err(HttpRefusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
        }
        check_accept(&head.headers, &[JSON, EVENTS])?;
        if head.is_modern() {
            let client = self.clients.shared(head.owner, self.gate.token_name(head.owner))?;
            let message = read_body(body, Some(&client.shelf), self.max_body).await?;
            let parsed = parsed(message)?;
            check_headers(&head.headers, &parsed)?;
            return exchange(&client, vec![parsed], &head).await;
        }
        match only(&head.headers, &SESSION)? {
            Some(id) => {
                let client = self.clients.find(id, head.owner)?;
                let message = read_body(body, Some(&client.shelf), self.max_body).await?;
                exchange(&client, all_parsed(message)?, &head).await
            }
            None => self.begin(head, body).await,
        }
    }

    async fn begin(
        &self,
        head: HttpHead,
        body: Incoming,
    ) -> Result<Response<AnswerBody>, HttpRefusal> {
        let message = read_body(body, None, self.max_body.min(MAX_TO_BEGIN)).await?;
        let parsed = parsed(message)?;
        let id = parsed.envelope.id(&parsed.message).map(str::to_owned);
        if !matches!(&parsed.envelope.kind, MessageKind::Request { method } if method == "initialize")
        {
            let refusal = match parsed.revision() {
                Some(_) => HttpRefusal::bad(
                    HEADER_MISMATCH,
                    "the header mcp-protocol-version does not say what the body says",
                ),
                None => HttpRefusal::bad(INVALID_REQUEST, "the header mcp-session-id is missing"),
            };
            return Err(refusal.of_request(id.as_deref()));
        }
        let messages = vec![parsed];
        head.turn(&messages).await;
        let (session, client) = self.clients.begin(head.owner)?;
        let begun = NewSession { clients: &self.clients, session: Some(session) };
        let first = match client.take(messages, &head.connection.hang_up).await {
            Ok(Some(stream)) => first_answer(stream, HANDSHAKE).await,
            _ => return Err(HttpRefusal::bad(INVALID_REQUEST, "the session has ended")),
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

    fn get(&self, head: &HttpHead) -> Result<Response<AnswerBody>, HttpRefusal> {
        check_accept(&head.headers, &[EVENTS])?;
        let (_, client) = self.session(head)?;
        Ok(events(client.listen(&head.connection.hang_up), None))
    }

    fn delete(&self, head: &HttpHead) -> Result<Response<AnswerBody>, HttpRefusal> {
        let (id, _) = self.session(head)?;
        if let Some(client) = self.clients.take(id) {
            tokio::spawn(async move { client.end().await });
        }
        Ok(status(StatusCode::NO_CONTENT))
    }

    fn session<'a>(&self, head: &'a HttpHead) -> Result<(&'a str, Arc<HttpSession>), HttpRefusal> {
        let id = only(&head.headers, &SESSION)?.ok_or_else(|| {
            HttpRefusal::bad(INVALID_REQUEST, "the header mcp-session-id is missing")
        })?;
        Ok((id, self.clients.find(id, head.owner)?))
    }
}

/// A session whose handshake is not finished. Dropping this value ends the session unless `keep`
/// was called, so a failed handshake leaves no session behind.
struct NewSession<'a> {
    clients: &'a HttpSessions,
    session: Option<String>,
}

impl NewSession<'_> {
    fn keep(mut self) -> String {
        self.session.take().unwrap_or_default()
    }
}

impl Drop for NewSession<'_> {
    fn drop(&mut self) {
        if let Some(client) = self.session.take().and_then(|id| self.clients.take(&id)) {
            tokio::spawn(async move { client.end().await });
        }
    }
}

async fn exchange(
    client: &Arc<HttpSession>,
    messages: Vec<Parsed>,
    head: &HttpHead,
) -> Result<Response<AnswerBody>, HttpRefusal> {
    let is_batch = messages.len() > 1;
    let id = messages.first().and_then(|parsed| parsed.envelope.id(&parsed.message));
    let id = id.map(str::to_owned);
    head.turn(&messages).await;
    let taken = client.take(messages, &head.connection.hang_up).await;
    let taken =
        taken.map_err(|why| HttpRefusal::bad(INVALID_REQUEST, why).of_request(id.as_deref()))?;
    let Some(stream) = taken else { return Ok(status(StatusCode::ACCEPTED)) };
    if is_batch {
        return Ok(events(stream, None));
    }
    Ok(first_answer(stream, FIRST_ANSWER_TIME).await.into_response(head.is_modern()))
}

/// The outcome of waiting for the first message of a stream. If the message is the answer, the
/// response consists of this message only. Otherwise, the response is a stream of events that
/// starts with the message, if there is one.
enum FirstAnswer {
    Answer(Box<StreamEvent>),
    Stream(OpenStream, Option<Box<StreamEvent>>),
}

async fn first_answer(mut stream: OpenStream, patience: Duration) -> FirstAnswer {
    match timeout(patience, stream.next()).await {
        Ok(Some(event)) if event.is_answer => FirstAnswer::Answer(Box::new(event)),
        Ok(event) => FirstAnswer::Stream(stream, event.map(Box::new)),
        Err(_) => FirstAnswer::Stream(stream, None),
    }
}

impl FirstAnswer {
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

fn status_of(code: i64) -> StatusCode {
    match i32::try_from(code) {
        Ok(METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        Ok(-32022..=-32020) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

fn events(stream: OpenStream, first: Option<StreamEvent>) -> Response<AnswerBody> {
    let body = EventBody::new(stream, first);
    let mut response = Response::new(AnswerBody::Events(Box::new(body)));
    set(&mut response, header::CONTENT_TYPE, EVENTS);
    set(&mut response, header::CACHE_CONTROL, "no-cache, no-transform");
    set(&mut response, HeaderName::from_static("x-accel-buffering"), "no");
    response
}

fn status(status: StatusCode) -> Response<AnswerBody> {
    let mut response = Response::new(AnswerBody::Text(None));
    *response.status_mut() = status;
    response
}

fn set(response: &mut Response<AnswerBody>, name: HeaderName, value: &'static str) {
    response.headers_mut().insert(name, HeaderValue::from_static(value));
}

fn check_accept(headers: &HeaderMap, types: &[&str]) -> Result<(), HttpRefusal> {
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
    Err(HttpRefusal::new(StatusCode::NOT_ACCEPTABLE, text))
}

async fn read_body(
    body: Incoming,
    shelf: Option<&Arc<LazyShelf>>,
    most: u64,
) -> Result<Message, HttpRefusal> {
    let reader = OneLine(BodyReader::bounded(body, most, BODY_IDLE_TIME, BODY_TIME));
    let line = match shelf {
        Some(shelf) => LineReader::new(reader, Arc::clone(shelf), most).next(&()).await,
        None => in_memory(reader).await,
    };
    match line.map_err(|error| unread(&error, most))? {
        Some(InputLine::Message(message)) => Ok(message),
        Some(InputLine::Broken(line)) => {
            let text = format!("the message cannot be taken: {}", line.why);
            Err(HttpRefusal::bad(PARSE_ERROR, text).of_request(line.id.as_deref()))
        }
        None => Err(HttpRefusal::bad(PARSE_ERROR, "there is no message")),
    }
}

async fn in_memory(mut reader: OneLine<BodyReader<Incoming>>) -> io::Result<Option<InputLine>> {
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).await?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(Some(InputLine::Message(Message::whole(text))))
}

fn unread(error: &io::Error, most: u64) -> HttpRefusal {
    let (status, text) = match error.kind() {
        io::ErrorKind::FileTooLarge => {
            let text = format!("the message is longer than {most} bytes");
            (StatusCode::PAYLOAD_TOO_LARGE, text)
        }
        io::ErrorKind::TimedOut => {
            (StatusCode::REQUEST_TIMEOUT, "the message did not come in time".to_owned())
        }
        _ => (StatusCode::BAD_REQUEST, format!("the message did not come: {error}")),
    };
    HttpRefusal::new(status, text)
}

fn parsed(message: Message) -> Result<Parsed, HttpRefusal> {
    Parsed::of(message).map_err(|error| refused(&error))
}

fn refused(error: &EnvelopeError) -> HttpRefusal {
    let code = match error {
        EnvelopeError::Json(_) => PARSE_ERROR,
        EnvelopeError::Shape(_) => INVALID_REQUEST,
    };
    HttpRefusal::bad(code, error.to_string())
}

fn all_parsed(message: Message) -> Result<Vec<Parsed>, HttpRefusal> {
    if !is_batch(&message) {
        return Ok(vec![parsed(message)?]);
    }
    messages(&message).map_err(|error| refused(&error))?.into_iter().map(parsed).collect()
}

fn revision_of_headers(headers: &HeaderMap) -> Result<Option<ProtocolVersion>, HttpRefusal> {
    let Some(asked) = only(headers, &VERSION)? else { return Ok(None) };
    let known = ProtocolVersion::KNOWN_VERSIONS;
    let found = known.iter().find(|version| version.as_str() == asked);
    found.cloned().map(Some).ok_or_else(|| {
        // Only 2026-07-28 defines this error, so it is the only revision listed.
        let data = json!({"supported": [MODERN], "requested": asked});
        HttpRefusal::bad(UNSUPPORTED_VERSION, "the MCP-Protocol-Version is not known").with(data)
    })
}

fn check_headers(headers: &HeaderMap, parsed: &Parsed) -> Result<(), HttpRefusal> {
    let MessageKind::Request { method } = &parsed.envelope.kind else { return Ok(()) };
    let id = parsed.envelope.id(&parsed.message);
    let version = parsed.revision();
    let name = parsed.named(method);
    for (header, body) in [(&VERSION, version), (&METHOD, Some(method.clone())), (&NAME, name)] {
        let Some(body) = body else { continue };
        let given = only(headers, header)?.map(decoded);
        if given.as_deref() != Some(&*body) {
            let text = format!("the header {header} does not say what the body says");
            return Err(HttpRefusal::bad(HEADER_MISMATCH, text).of_request(id));
        }
    }
    match missing_key(parsed.envelope.params(&parsed.message)) {
        Some(key) => {
            let text = format!("the `_meta` of the request has no valid `{key}`");
            Err(HttpRefusal::bad(INVALID_PARAMS, text).of_request(id))
        }
        None => Ok(()),
    }
}

pub(crate) enum AnswerBody {
    Text(Option<Bytes>),
    Json(JsonBody),
    Events(Box<EventBody>),
}

impl AnswerBody {
    fn text(text: String) -> Self {
        Self::Text(Some(text.into()))
    }

    fn json(queued: Queued) -> Self {
        Self::Json(JsonBody::of(queued))
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match self.get_mut() {
            Self::Text(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            Self::Json(body) => Pin::new(body).poll_frame(cx),
            Self::Events(body) => {
                body.poll_next(cx).map(|bytes| bytes.map(|bytes| bytes.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Text(text) => text.is_none(),
            Self::Json(body) => body.is_end_stream(),
            Self::Events(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Text(text) => SizeHint::with_exact(text.as_ref().map_or(0, Bytes::len) as u64),
            Self::Json(body) => body.size_hint(),
            Self::Events(_) => SizeHint::default(),
        }
    }
}

/// A response body that is a stream of events. Long messages are read from the disk as the client
/// reads the body. If nothing was sent for a while, a comment is sent.
pub(crate) struct EventBody {
    stream: OpenStream,
    current: Option<StreamEvent>,
    quiet: Interval,
}

impl EventBody {
    fn new(stream: OpenStream, first: Option<StreamEvent>) -> Self {
        let mut quiet = interval(KEEP_ALIVE);
        quiet.set_missed_tick_behavior(MissedTickBehavior::Delay);
        quiet.reset();
        Self { stream, current: first, quiet }
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            if let Some(event) = &mut self.current {
                let bytes = piece(event)?;
                self.stream.progressed();
                self.quiet.reset();
                if event.is_sent() {
                    self.current = None;
                    self.stream.sent();
                }
                return Poll::Ready(Some(Ok(bytes.into())));
            }
            match self.stream.events.receiver.poll_recv(cx) {
                Poll::Ready(Some(event)) => self.current = Some(event),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending if self.quiet.poll_tick(cx).is_ready() => {
                    return Poll::Ready(Some(Ok(Bytes::from_static(b":\n\n"))));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

fn piece(event: &mut StreamEvent) -> io::Result<Vec<u8>> {
    let mut bytes = event.prefix();
    while bytes.len() < CHUNK_BYTES {
        let Some(mut more) = event.queued.message.next()? else {
            event.finish();
            bytes.extend_from_slice(b"\n\n");
            break;
        };
        flatten(&mut more);
        bytes.extend_from_slice(&more);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http_message::encoded;

    fn parsed(text: &str) -> Parsed {
        Parsed::of(Message::whole(text.to_owned())).unwrap()
    }

    fn headers(pairs: &[(&HeaderName, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, value.parse().unwrap());
        }
        map
    }

    #[test]
    fn headers_say_what_the_body_says() {
        let call = parsed(
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"caf\u00e9","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#,
        );
        let name = encoded("caf\u{e9}").into_owned();
        assert_eq!(name, "=?base64?Y2Fmw6k=?=");
        let good = [(&VERSION, "2026-07-28"), (&METHOD, "tools/call"), (&NAME, &*name)];
        assert!(check_headers(&headers(&good), &call).is_ok());
        for bad in [
            vec![good[0], good[1]],
            vec![good[0], good[2]],
            vec![good[1], good[2]],
            vec![good[0], (&METHOD, "tools/list"), good[2]],
            vec![good[0], good[1], (&NAME, "cafe")],
            vec![good[0], good[1], (&NAME, "=?base64?!?=")],
        ] {
            assert_eq!(check_headers(&headers(&bad), &call).unwrap_err().status.as_u16(), 400);
        }
    }

    #[test]
    fn unknown_revisions_are_refused() {
        assert!(revision_of_headers(&headers(&[])).unwrap().is_none());
        assert!(revision_of_headers(&headers(&[(&VERSION, "2025-06-18")])).unwrap().is_some());
        assert!(revision_of_headers(&headers(&[(&VERSION, "1999-01-01")])).is_err());
    }
}
