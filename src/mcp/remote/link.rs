//! The messages between the gateway and a server over HTTP.
//!
//! | module | content |
//! |---|---|
//! | `renewal` | a lost session is begun again |
//! | `listener` | the stream of messages that answer no request |

mod listener;
mod renewal;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::HeaderValue;
use hyper::{HeaderMap, Method, Response, StatusCode, header};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::body_reader::BodyReader;
use crate::headers::{EVENTS, JSON, LAST_EVENT, SESSION, VERSION};
use crate::line_reader::{Line, LineReader};
use crate::manager::{Inbox, Surroundings};
use crate::message::Outgoing;
use crate::one_line::{OneLine, ValueLines};
use crate::queue::Queued;
use crate::relay::INTERNAL_ERROR;
use crate::remote::event_lines::{EventLines, Marks};
use crate::remote::head::Head;
use crate::remote::long::Long;
use crate::remote::wire::Wire;
use crate::upstream::Upstream;
use crate::{envelope, headers, origin};
use ctxfs_models::http_client::causes;

/// The most requests at a time.
const AT_A_TIME: usize = 256;
/// The time for a message that has no answer.
const TELLING: Duration = Duration::from_secs(30);
/// The time between looks whether a request is still waited for.
const LOOK: Duration = Duration::from_millis(200);
/// The pause before a broken stream is asked for again, if the server names none.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest such pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The times that a stream is asked for again without a new event.
const TRIES: u32 = 3;
/// The most bytes of an error that are read.
const MOST_ERROR: u64 = 64 * 1024;
/// The most characters of it that are shown.
const SHOWN: usize = 300;

/// The connection to a server, which may be a session.
pub(super) struct Link<I> {
    upstream: Arc<Upstream>,
    around: Surroundings<I>,
    wire: Wire,
    session: Mutex<Known>,
    /// Held while a lost session is begun again.
    renewing: tokio::sync::Mutex<()>,
    turns: Semaphore,
}

/// The session, as far as it is known.
#[derive(Default)]
struct Known {
    id: Option<HeaderValue>,
    version: Option<HeaderValue>,
    /// The number of sessions that were lost.
    lost: u64,
    /// True if the last one was, and none was begun since.
    is_over: bool,
    listener: Option<JoinHandle<()>>,
}

impl Known {
    /// Returns true if a session was begun since `lost` were lost.
    fn is_known(&self, lost: u64) -> bool {
        !self.is_over && self.lost != lost
    }
}

/// Says that a line is being handled, which must not be interrupted.
#[derive(Default)]
struct Handling(AtomicBool);

impl<I: Inbox> Link<I> {
    pub(super) fn new(upstream: Arc<Upstream>, wire: Wire, around: Surroundings<I>) -> Self {
        upstream.began();
        Self {
            upstream,
            around,
            wire,
            session: Mutex::default(),
            renewing: tokio::sync::Mutex::new(()),
            turns: Semaphore::new(AT_A_TIME),
        }
    }

    /// Sends a request, and hands over what comes back until it is answered.
    pub(super) async fn request(self: Arc<Self>, queued: Queued, head: Head, number: u64) {
        let Ok(_turn) = self.turns.acquire().await else { return };
        let handling = Handling::default();
        let why = tokio::select! {
            done = origin::of(number, self.exchange(&queued.message, &head, &handling)) => {
                done.err().unwrap_or_else(|| "ended the answer before its result".to_owned())
            }
            () = self.given_up(number, &handling) => return,
        };
        if let Some(pending) = self.upstream.take(number) {
            self.around.log.say(&self.upstream.name, &why);
            self.around.inbox.lost(&self.upstream, pending, &why).await;
        }
    }

    /// Waits until nobody waits for a request, whose stream is closed then.
    async fn given_up(&self, number: u64, handling: &Handling) {
        loop {
            sleep(LOOK).await;
            if !handling.0.load(Ordering::Relaxed) && !self.upstream.waits_for(number) {
                return;
            }
        }
    }

    /// Sends a message that has no answer.
    pub(super) async fn tell(self: &Arc<Self>, message: &Outgoing, head: &Head) {
        let is_cancel = head.is("notifications/cancelled");
        // Since 2026-07-28, the end of its stream cancels a request.
        if is_cancel && self.session.lock().version.is_none() {
            return;
        }
        let told = timeout(TELLING, self.exchange(message, head, &Handling::default())).await;
        let told = told.unwrap_or_else(|_| Err("did not take a message in time".to_owned()));
        match told {
            Ok(()) if head.is("notifications/initialized") => self.listen(),
            Ok(()) => {}
            Err(why) => self.around.log.say(&self.upstream.name, &why),
        }
    }

    /// Sends a message, and hands over what comes back. Begins a lost session again, once.
    async fn exchange(
        self: &Arc<Self>,
        message: &Outgoing,
        head: &Head,
        handling: &Handling,
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
            Outcome::Done => Ok(()),
            Outcome::NoSession(why) => {
                self.renew(before).await.map_err(|error| format!("{why}; {error}"))?;
                let response = self.post(message, head).await?;
                match self.answered(response, head, handling).await? {
                    Outcome::Done => Ok(()),
                    Outcome::NoSession(why) => Err(why),
                }
            }
        }
    }

    async fn post(&self, message: &Outgoing, head: &Head) -> Result<Response<Incoming>, String> {
        let mut headers = self.headers(!head.is("initialize"));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
        let accept = HeaderValue::from_static("application/json, text/event-stream");
        headers.insert(header::ACCEPT, accept);
        head.add_to(&mut headers);
        self.wire.send(Method::POST, &headers, message).await
    }

    /// Returns the headers of the session.
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

    /// Asks for a stream of events: from `last_id` on, or the one that answers no request.
    async fn get(&self, last_id: Option<&str>) -> Result<Response<Incoming>, String> {
        let mut headers = self.headers(true);
        headers.insert(header::ACCEPT, HeaderValue::from_static(EVENTS));
        if let Some(value) = last_id.and_then(|id| HeaderValue::from_str(id).ok()) {
            headers.insert(LAST_EVENT.clone(), value);
        }
        self.wire.send(Method::GET, &headers, &Vec::new().into()).await
    }

    /// Hands over what an answer has.
    async fn answered(
        &self,
        response: Response<Incoming>,
        head: &Head,
        handling: &Handling,
    ) -> Result<Outcome, String> {
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
            let lines = LineReader::new(reader, Arc::clone(&self.around.shelf), self.around.most);
            self.hand_over(lines, head, handling).await.map_err(broke)?;
        } else if head.number.is_some() {
            return Err(format!("answered {} with no message", response.status()));
        }
        Ok(Outcome::Done)
    }

    /// Hands over the events of a stream. Asks for the rest of one that breaks.
    async fn events(
        &self,
        response: Response<Incoming>,
        head: &Head,
        handling: &Handling,
    ) -> Result<(), String> {
        let marks = Arc::new(Mutex::new(Marks::default()));
        let mut ended = self.stream(response, &marks, head, handling).await;
        let mut tries = 0;
        while let Some(number) = head.number
            && self.upstream.waits_for(number)
            && tries < TRIES
        {
            let Some(last) = marks.lock().last_id.clone() else { break };
            let pause = marks.lock().retry.unwrap_or(PAUSE).min(LONGEST_PAUSE);
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

    /// Hands over the events of one connection.
    async fn stream(
        &self,
        response: Response<Incoming>,
        marks: &Arc<Mutex<Marks>>,
        head: &Head,
        handling: &Handling,
    ) -> Result<(), String> {
        let reader = EventLines::new(BodyReader::new(response.into_body()), Arc::clone(marks));
        let lines = LineReader::new(reader, Arc::clone(&self.around.shelf), self.around.most);
        self.hand_over(lines, head, handling).await.map_err(broke)
    }

    async fn hand_over<R: AsyncRead + Unpin>(
        &self,
        mut lines: LineReader<R>,
        head: &Head,
        handling: &Handling,
    ) -> std::io::Result<()> {
        let long = Long::new(&self.upstream);
        while let Some(line) = lines.next(&long).await? {
            if head.is("initialize") {
                self.learn(&line);
            }
            handling.0.store(true, Ordering::Relaxed);
            let goes_on = self.around.inbox.line(&self.upstream, line).await;
            handling.0.store(false, Ordering::Relaxed);
            if !goes_on {
                return Err(std::io::Error::other("it sent too many messages that are not JSON"));
            }
            tokio::task::consume_budget().await;
        }
        Ok(())
    }

    /// Notes the revision that the server chose.
    fn learn(&self, line: &Line) {
        let Line::Message(message) = line else { return };
        let answer: Value = serde_json::from_str(message.text()).unwrap_or_default();
        let version = answer["result"]["protocolVersion"].as_str();
        if let Some(version) = version.and_then(|version| HeaderValue::from_str(version).ok()) {
            self.session.lock().version = Some(version);
        }
    }

    /// Hands over the error in an answer, or says what the answer was.
    async fn refused(
        &self,
        response: Response<Incoming>,
        head: &Head,
        handling: &Handling,
    ) -> Result<Outcome, String> {
        let status = response.status();
        let is_json = is_type(&response, JSON);
        let mut text = Vec::new();
        let reader = OneLine(BodyReader::new(response.into_body()));
        timeout(TELLING, reader.take(MOST_ERROR).read_to_end(&mut text)).await.ok();
        let error: Value = serde_json::from_slice(&text).unwrap_or_default();
        if is_json && head.number.is_some() && error["id"].as_u64() == head.number {
            let lines = LineReader::new(&*text, Arc::clone(&self.around.shelf), MOST_ERROR);
            self.hand_over(lines, head, handling).await.map_err(broke)?;
            return Ok(Outcome::Done);
        }
        let said = error["error"]["message"].as_str().map(str::to_owned);
        let said = said.unwrap_or_else(|| String::from_utf8_lossy(&text).into_owned());
        let shown: String =
            said.trim().chars().take(SHOWN).map(|c| if c.is_control() { ' ' } else { c }).collect();
        let colon = if shown.is_empty() { "" } else { ": " };
        let why = format!("answered {status}{colon}{shown}");
        // Some servers say so with another status.
        let names_session = said.to_ascii_lowercase().contains("session");
        let is_lost =
            status == StatusCode::NOT_FOUND || (status == StatusCode::BAD_REQUEST && names_session);
        if is_lost && !head.is("initialize") && self.session.lock().id.is_some() {
            return Ok(Outcome::NoSession(why));
        }
        if let Some(number) = head.number.filter(|_| head.opens() && may_be_of_revision(status)) {
            let code = error["error"]["code"].as_i64().and_then(|code| i32::try_from(code).ok());
            let text = format!("the server `{}` {why}", self.upstream.name);
            let code = code.unwrap_or(INTERNAL_ERROR);
            let line = envelope::error(&number.to_string(), code, &text);
            let lines = LineReader::new(&*line, Arc::clone(&self.around.shelf), MOST_ERROR);
            self.hand_over(lines, head, handling).await.map_err(broke)?;
            return Ok(Outcome::Done);
        }
        Err(why)
    }

    /// Ends the session.
    pub(super) async fn end(&self) {
        let listener = self.session.lock().listener.take();
        if let Some(listener) = listener {
            listener.abort();
        }
        if self.session.lock().id.is_some() {
            let headers = self.headers(true);
            if let Err(why) = self.wire.send(Method::DELETE, &headers, &Vec::new().into()).await {
                self.around.log.say(&self.upstream.name, &why);
            }
        }
    }
}

/// The outcome of a message.
enum Outcome {
    Done,
    /// The server does not know the session.
    NoSession(String),
}

/// Returns true for a status by which a server may say that it does not know a revision.
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
    value.is_some_and(|value| headers::is_type(value, kind))
}

#[expect(clippy::needless_pass_by_value, reason = "it maps an error")]
fn broke(error: std::io::Error) -> String {
    format!("broke the connection: {}", causes(&error))
}
