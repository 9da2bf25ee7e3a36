//! The connection to a server over HTTP: messages, responses, the session, and the listener stream.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::{HeaderMap, Method, Response, StatusCode};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::http_message::{
    self, BodyReader, EVENTS, JSON, LAST_EVENT, OneLine, SESSION, VERSION, ValueLines,
};
use crate::json_rpc::{self, INITIALIZED, INTERNAL_ERROR, request};
use crate::line_reader::{InputLine, LineReader, LongLines};
use crate::manager::{HANDSHAKE, Inbox, ManagerContext};
use crate::message::Outgoing;
use crate::pending;
use crate::queue::Queued;
use crate::remote::event_lines::{EventLines, StreamPosition};
use crate::remote::wire::{RequestHead, Wire};
use crate::server_request::own_request;
use crate::upstream::Upstream;
use ctxfs_models::http_client::causes;

// Maximum number of concurrent requests.
const MAX_CONCURRENT: usize = 256;
// Maximum time for a message that expects no answer.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);
// Interval between checks whether a request is still pending.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
// The pause before resuming a broken stream, unless the server specifies one.
const MIN_BACKOFF: Duration = Duration::from_secs(1);
const MAX_BACKOFF: Duration = Duration::from_secs(30);
// Maximum number of times that a stream is resumed without a new event.
const MAX_RESUMES: u32 = 3;
const MAX_ERROR: u64 = 64 * 1024;
const SHOWN: usize = 300;
/// The pause before reopening the listener stream, unless the server specifies a longer one. It
/// doubles with each failure.
const LISTENER_BACKOFF: Duration = Duration::from_secs(1);
const MAX_LISTENER_BACKOFF: Duration = Duration::from_mins(1);

/// The connection to a server over HTTP, optionally with a session. If a message fails because the
/// server has lost the session, the session is renewed once, with `initialize` and the log level.
/// `renewing` is locked during a renewal.
pub(crate) struct Link<I> {
    upstream: Arc<Upstream>,
    context: ManagerContext<I>,
    wire: Wire,
    session: Mutex<LinkSession>,
    renewing: tokio::sync::Mutex<()>,
    turns: Semaphore,
}

/// The known state of the session. `lost` counts lost sessions. `is_over` is true from the loss of
/// a session until a new one has begun.
#[derive(Default)]
struct LinkSession {
    id: Option<HeaderValue>,
    version: Option<HeaderValue>,
    lost: u64,
    is_over: bool,
    listener: Option<JoinHandle<()>>,
}

impl LinkSession {
    fn is_known(&self, lost: u64) -> bool {
        !self.is_over && self.lost != lost
    }
}

/// True while a line of the response is being processed. Processing must not be interrupted, so a
/// request that is given up during this time ends after it.
#[derive(Default)]
struct BusyFlag(AtomicBool);

impl<I: Inbox> Link<I> {
    pub(crate) fn new(upstream: Arc<Upstream>, wire: Wire, context: ManagerContext<I>) -> Self {
        upstream.began();
        Self {
            upstream,
            context,
            wire,
            session: Mutex::default(),
            renewing: tokio::sync::Mutex::new(()),
            turns: Semaphore::new(MAX_CONCURRENT),
        }
    }

    pub(crate) async fn request(self: Arc<Self>, queued: Queued, head: RequestHead, number: u64) {
        let Ok(_turn) = self.turns.acquire().await else { return };
        let handling = BusyFlag::default();
        let why = tokio::select! {
            done = pending::on_stream_of(number, self.exchange(&queued.message, &head, &handling)) => {
                done.err().unwrap_or_else(|| "ended the answer before its result".to_owned())
            }
            () = self.given_up(number, &handling) => return,
        };
        if let Some(pending) = self.upstream.take(number) {
            self.context.log.write(&self.upstream.name, &why);
            self.context.inbox.lost(&self.upstream, pending, &why).await;
        }
    }

    async fn given_up(&self, number: u64, handling: &BusyFlag) {
        loop {
            sleep(POLL_INTERVAL).await;
            if !handling.0.load(Ordering::Relaxed) && !self.upstream.waits_for(number) {
                return;
            }
        }
    }

    pub(crate) async fn notify(self: &Arc<Self>, message: &Outgoing, head: &RequestHead) {
        let is_cancel = head.is("notifications/cancelled");
        // Since 2026-07-28, closing the stream of a request cancels the request.
        if is_cancel && self.session.lock().version.is_none() {
            return;
        }
        let sent = timeout(SEND_TIMEOUT, self.exchange(message, head, &BusyFlag::default())).await;
        let sent = sent.unwrap_or_else(|_| Err("did not take a message in time".to_owned()));
        match sent {
            Ok(()) if head.is("notifications/initialized") => self.listen(),
            Ok(()) => {}
            Err(why) => self.context.log.write(&self.upstream.name, &why),
        }
    }

    async fn exchange(
        self: &Arc<Self>,
        message: &Outgoing,
        head: &RequestHead,
        handling: &BusyFlag,
    ) -> Result<(), String> {
        let (before, is_over) = {
            let session = self.session.lock();
            (session.lost, session.is_over)
        };
        if is_over && !head.is("initialize") {
            self.renew(before).await?;
        }
        let response = self.post(message, head).await?;
        match self.answered(response, head, handling).await? {
            Exchanged::Done => Ok(()),
            Exchanged::NoSession(why) => {
                self.renew(before).await.map_err(|error| format!("{why}; {error}"))?;
                let response = self.post(message, head).await?;
                match self.answered(response, head, handling).await? {
                    Exchanged::Done => Ok(()),
                    Exchanged::NoSession(why) => Err(why),
                }
            }
        }
    }

    async fn post(
        &self,
        message: &Outgoing,
        head: &RequestHead,
    ) -> Result<Response<Incoming>, String> {
        let mut headers = self.headers(!head.is("initialize"));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
        let accept = HeaderValue::from_static("application/json, text/event-stream");
        headers.insert(header::ACCEPT, accept);
        head.add_to(&mut headers);
        self.wire.send(Method::POST, &headers, message).await
    }

    fn headers(&self, in_session: bool) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if !in_session {
            return headers;
        }
        let session = self.session.lock();
        if let Some(id) = &session.id {
            headers.insert(SESSION.clone(), id.clone());
        }
        if let Some(version) = &session.version {
            headers.insert(VERSION.clone(), version.clone());
        }
        headers
    }

    async fn get(&self, last_id: Option<&str>) -> Result<Response<Incoming>, String> {
        let mut headers = self.headers(true);
        headers.insert(header::ACCEPT, HeaderValue::from_static(EVENTS));
        if let Some(value) = last_id.and_then(|id| HeaderValue::from_str(id).ok()) {
            headers.insert(LAST_EVENT.clone(), value);
        }
        self.wire.send(Method::GET, &headers, &Vec::new().into()).await
    }

    async fn answered(
        &self,
        response: Response<Incoming>,
        head: &RequestHead,
        handling: &BusyFlag,
    ) -> Result<Exchanged, String> {
        if !response.status().is_success() {
            return self.refused(response, head, handling).await;
        }
        if head.is("initialize") {
            let mut session = self.session.lock();
            session.id = response.headers().get(&SESSION).cloned();
            session.version = None;
            session.is_over = false;
        }
        if is_type(&response, EVENTS) {
            self.events(response, head, handling).await?;
        } else if is_type(&response, JSON) {
            let reader = ValueLines::new(BodyReader::new(response.into_body()));
            let lines = LineReader::new(reader, Arc::clone(&self.context.shelf), self.context.most);
            self.hand_over(lines, head, handling).await.map_err(broke)?;
        } else if head.number.is_some() {
            return Err(format!("answered {} with no message", response.status()));
        }
        Ok(Exchanged::Done)
    }

    async fn events(
        &self,
        response: Response<Incoming>,
        head: &RequestHead,
        handling: &BusyFlag,
    ) -> Result<(), String> {
        let marks = Arc::new(Mutex::new(StreamPosition::default()));
        let mut ended = self.stream(response, &marks, head, handling).await;
        let mut tries = 0;
        while let Some(number) = head.number
            && self.upstream.waits_for(number)
            && tries < MAX_RESUMES
        {
            let Some(last) = marks.lock().last_id.clone() else { break };
            let pause = marks.lock().retry.unwrap_or(MIN_BACKOFF).min(MAX_BACKOFF);
            sleep(pause).await;
            tries += 1;
            match self.get(Some(&last)).await {
                Ok(response) if response.status().is_success() && is_type(&response, EVENTS) => {
                    ended = self.stream(response, &marks, head, handling).await;
                }
                Ok(response) => {
                    let status = response.status();
                    return Err(format!("broke its answer, and {status} came for the rest"));
                }
                Err(why) => ended = Err(why),
            }
            if marks.lock().last_id.as_deref() != Some(&*last) {
                tries = 0;
            }
        }
        ended
    }

    async fn stream(
        &self,
        response: Response<Incoming>,
        marks: &Arc<Mutex<StreamPosition>>,
        head: &RequestHead,
        handling: &BusyFlag,
    ) -> Result<(), String> {
        let reader = EventLines::new(BodyReader::new(response.into_body()), Arc::clone(marks));
        let lines = LineReader::new(reader, Arc::clone(&self.context.shelf), self.context.most);
        self.hand_over(lines, head, handling).await.map_err(broke)
    }

    async fn hand_over<R: AsyncRead + Unpin>(
        &self,
        mut lines: LineReader<R>,
        head: &RequestHead,
        handling: &BusyFlag,
    ) -> std::io::Result<()> {
        let long = LongMessage::new(&self.upstream);
        while let Some(line) = lines.next(&long).await? {
            if head.is("initialize") {
                self.learn(&line);
            }
            handling.0.store(true, Ordering::Relaxed);
            let goes_on = self.context.inbox.line(&self.upstream, line).await;
            handling.0.store(false, Ordering::Relaxed);
            if !goes_on {
                return Err(std::io::Error::other("it sent too many messages that are not JSON"));
            }
            tokio::task::consume_budget().await;
        }
        Ok(())
    }

    fn learn(&self, line: &InputLine) {
        let InputLine::Message(message) = line else { return };
        let answer: Value = serde_json::from_str(message.text()).unwrap_or_default();
        let version = answer["result"]["protocolVersion"].as_str();
        if let Some(version) = version.and_then(|version| HeaderValue::from_str(version).ok()) {
            self.session.lock().version = Some(version);
        }
    }

    async fn refused(
        &self,
        response: Response<Incoming>,
        head: &RequestHead,
        handling: &BusyFlag,
    ) -> Result<Exchanged, String> {
        let status = response.status();
        let is_json = is_type(&response, JSON);
        let mut text = Vec::new();
        let reader = OneLine(BodyReader::new(response.into_body()));
        timeout(SEND_TIMEOUT, reader.take(MAX_ERROR).read_to_end(&mut text)).await.ok();
        let error: Value = serde_json::from_slice(&text).unwrap_or_default();
        if is_json && head.number.is_some() && error["id"].as_u64() == head.number {
            let lines = LineReader::new(&*text, Arc::clone(&self.context.shelf), MAX_ERROR);
            self.hand_over(lines, head, handling).await.map_err(broke)?;
            return Ok(Exchanged::Done);
        }
        let reason = error["error"]["message"].as_str().map(str::to_owned);
        let reason = reason.unwrap_or_else(|| String::from_utf8_lossy(&text).into_owned());
        let shown: String = reason
            .trim()
            .chars()
            .take(SHOWN)
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        let colon = if shown.is_empty() { "" } else { ": " };
        let why = format!("answered {status}{colon}{shown}");
        // A server may report a lost session with a different status.
        let names_session = reason.to_ascii_lowercase().contains("session");
        let is_lost =
            status == StatusCode::NOT_FOUND || (status == StatusCode::BAD_REQUEST && names_session);
        if is_lost && !head.is("initialize") && self.session.lock().id.is_some() {
            return Ok(Exchanged::NoSession(why));
        }
        if let Some(number) = head.number.filter(|_| head.opens() && may_be_of_revision(status)) {
            let code = error["error"]["code"].as_i64().and_then(|code| i32::try_from(code).ok());
            let text = format!("the server `{}` {why}", self.upstream.name);
            let code = code.unwrap_or(INTERNAL_ERROR);
            let line = json_rpc::error(&number.to_string(), code, &text);
            let lines =
                LineReader::new(line.as_bytes(), Arc::clone(&self.context.shelf), MAX_ERROR);
            self.hand_over(lines, head, handling).await.map_err(broke)?;
            return Ok(Exchanged::Done);
        }
        Err(why)
    }

    pub(crate) async fn end(&self) {
        let listener = self.session.lock().listener.take();
        if let Some(listener) = listener {
            listener.abort();
        }
        if self.session.lock().id.is_some() {
            let headers = self.headers(true);
            if let Err(why) = self.wire.send(Method::DELETE, &headers, &Vec::new().into()).await {
                self.context.log.write(&self.upstream.name, &why);
            }
        }
    }
}

enum Exchanged {
    Done,
    NoSession(String),
}

fn may_be_of_revision(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::BAD_REQUEST
            | StatusCode::NOT_FOUND
            | StatusCode::METHOD_NOT_ALLOWED
            | StatusCode::NOT_ACCEPTABLE
            | StatusCode::UNSUPPORTED_MEDIA_TYPE
            | StatusCode::UNPROCESSABLE_ENTITY
            | StatusCode::NOT_IMPLEMENTED
    )
}

fn is_type(response: &Response<Incoming>, kind: &str) -> bool {
    let value = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.is_some_and(|value| http_message::is_type(value, kind))
}

#[expect(clippy::needless_pass_by_value, reason = "it maps an error")]
fn broke(error: std::io::Error) -> String {
    format!("broke the connection: {}", causes(&error))
}

impl<I: Inbox> Link<I> {
    pub(crate) async fn renew(self: &Arc<Self>, before: u64) -> Result<(), String> {
        let _turn = self.renewing.lock().await;
        if self.session.lock().is_known(before) {
            return Ok(());
        }
        let handshake = self.upstream.handshake();
        let parameters = handshake.initialize.ok_or("there is nothing to begin it again with")?;
        self.context.log.write(&self.upstream.name, "ended the session; it is begun again");
        self.forget();
        // The requests that the server sent in the lost session no longer expect answers.
        self.context.inbox.failed(&self.upstream, Vec::new(), "ended the session").await;
        self.upstream.forget_asked();
        let begun = timeout(HANDSHAKE, self.initialize(&parameters)).await;
        begun.map_err(|_| "the new session did not begin in time".to_owned())??;
        self.send_own(&INITIALIZED.into()).await?;
        if let Some(level) = &handshake.level {
            let (number, _answer) = own_request(&self.upstream);
            let sent = self.send_own(&request(number, "logging/setLevel", level).into()).await;
            self.upstream.take(number);
            sent?;
        }
        self.listen();
        Ok(())
    }

    fn forget(&self) {
        let mut session = self.session.lock();
        session.id = None;
        session.version = None;
        session.lost += 1;
        session.is_over = true;
        if let Some(listener) = session.listener.take() {
            listener.abort();
        }
    }

    async fn initialize(&self, parameters: &str) -> Result<(), String> {
        let (number, answer) = own_request(&self.upstream);
        let message: Outgoing = request(number, "initialize", parameters).into();
        if let Err(why) = self.send_own(&message).await {
            self.upstream.take(number);
            return Err(why);
        }
        let answer = answer.await.map_err(|_| "the new session was not begun".to_owned())??;
        let answer: Value = serde_json::from_str(answer.text()).unwrap_or_default();
        if answer["result"].is_object() {
            return Ok(());
        }
        Err(format!("the new session was refused: {}", answer["error"]["message"]))
    }

    async fn send_own(&self, message: &Outgoing) -> Result<(), String> {
        let head = RequestHead::of(message).ok_or("the message is none")?;
        let sent = async {
            let response = self.post(message, &head).await?;
            match self.answered(response, &head, &BusyFlag::default()).await? {
                Exchanged::Done => Ok(()),
                Exchanged::NoSession(why) => Err(why),
            }
        };
        timeout(SEND_TIMEOUT, sent)
            .await
            .map_err(|_| "did not take a message in time".to_owned())?
    }
}

impl<I: Inbox> Link<I> {
    pub(crate) fn listen(self: &Arc<Self>) {
        let listener = tokio::spawn(listen(Arc::downgrade(self)));
        if let Some(older) = self.session.lock().listener.replace(listener) {
            older.abort();
        }
    }
}

/// Forwards the messages of the listener stream. Reopens the stream when it ends, until the server
/// offers no stream or the session is over.
async fn listen<I: Inbox>(link: Weak<Link<I>>) {
    let marks = Arc::new(Mutex::new(StreamPosition::default()));
    let mut pause = LISTENER_BACKOFF;
    loop {
        let Some(link) = link.upgrade() else { return };
        let last = marks.lock().last_id.clone();
        match link.get(last.as_deref()).await {
            Ok(response) if response.status().is_success() && is_type(&response, EVENTS) => {
                pause = LISTENER_BACKOFF;
                let (head, handling) = (RequestHead::default(), BusyFlag::default());
                let ended = link.stream(response, &marks, &head, &handling).await;
                tracing::debug!("{}: its stream ended: {ended:?}", link.upstream.name);
            }
            Ok(response) if is_final(response.status()) => {
                tracing::debug!("{}: offers no stream: {}", link.upstream.name, response.status());
                return;
            }
            Ok(response) => {
                tracing::debug!("{}: no stream: {}", link.upstream.name, response.status());
                pause = (pause * 2).min(MAX_LISTENER_BACKOFF);
            }
            Err(why) => {
                tracing::debug!("{}: no stream: {why}", link.upstream.name);
                pause = (pause * 2).min(MAX_LISTENER_BACKOFF);
            }
        }
        drop(link);
        let named = marks.lock().retry.unwrap_or_default();
        sleep(pause.max(named).min(MAX_LISTENER_BACKOFF)).await;
    }
}

/// Returns true if the listener stream should not be opened again, because the server offers none
/// or the session is lost. The next message detects a lost session.
fn is_final(status: StatusCode) -> bool {
    status.is_success()
        || (status.is_client_error()
            && status != StatusCode::REQUEST_TIMEOUT
            && status != StatusCode::TOO_MANY_REQUESTS
            && status != StatusCode::CONFLICT)
}

/// A long message on one of several streams. It counts once toward the server's arriving messages,
/// until it has arrived or its stream has ended.
struct LongMessage<'a> {
    upstream: &'a Upstream,
    is_coming: AtomicBool,
}

impl<'a> LongMessage<'a> {
    pub(crate) fn new(upstream: &'a Upstream) -> Self {
        Self { upstream, is_coming: AtomicBool::new(false) }
    }
}

impl LongLines for LongMessage<'_> {
    fn arriving(&self, is_arriving: bool) {
        if self.is_coming.swap(is_arriving, Ordering::Relaxed) != is_arriving {
            self.upstream.count_long_line(is_arriving);
        }
    }
}

impl Drop for LongMessage<'_> {
    fn drop(&mut self) {
        if *self.is_coming.get_mut() {
            self.upstream.count_long_line(false);
        }
    }
}
