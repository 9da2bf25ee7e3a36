//! Messages between sessions and a shared server.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use crate::json_rpc::{
    self, Envelope, INITIALIZED, INTERNAL_ERROR, MessageKind, Parsed, SUBSCRIPTION_KEY, cancelled,
    request_id,
};
use crate::line_reader::{BrokenLine, InputLine};
use crate::manager::Inbox;
use crate::message::{Edit, Message, Outgoing};
use crate::pending::{PendingKind, PendingRequest, SharedRequest};
use crate::raw_object::RawObject;
use crate::revision::translation::MAX_URI_BYTES;
use crate::shared::{
    HandshakeAnswer, SharedAnswer, SharedEvent, SharedHandshake, SharedServer, UNREAD,
};
use crate::upstream::Upstream;

// Maximum number of resources whose subscribers are tracked.
const MAX_SUBSCRIBED: usize = 10_000;
const MAX_QUESTIONS: usize = 256;
const MAX_INTRODUCTION: usize = 8 << 20;

impl SharedServer {
    /// Forwards a message that does not wait for a turn of its session: anything but a request.
    pub(crate) fn forward(&self, session: u64, parsed: &Parsed, message: Outgoing) {
        match &parsed.envelope.kind {
            // The server gets this notification once, at its introduction.
            MessageKind::Notification { method } if method == "notifications/initialized" => {}
            MessageKind::Notification { method } if method == "notifications/cancelled" => {
                self.cancel(session, parsed);
            }
            MessageKind::Request { .. } | MessageKind::Notification { .. } => {
                self.upstream.notify(message);
            }
            MessageKind::Response { .. } => {
                if let Some(id) = parsed.envelope.id(&parsed.message) {
                    self.state.lock().questions.remove(id);
                }
                self.upstream.notify(message);
            }
        }
    }

    /// Forwards a request that has its turn, unless the session no longer waits for its answer.
    pub(crate) async fn request(
        &self,
        (session, of): (u64, &Upstream),
        message: Outgoing,
        turn: OwnedSemaphorePermit,
    ) {
        let Ok(parsed) = Parsed::of(message.outline()) else { return };
        let MessageKind::Request { method } = &parsed.envelope.kind else { return };
        let number = parsed.envelope.id(&parsed.message).and_then(|id| id.parse().ok());
        let Some(number) = number.filter(|number| of.waits_for(*number)) else { return };
        if method == "initialize" {
            return self.introduce((session, number), &parsed, message).await;
        }
        if method == "logging/setLevel" {
            let level = parsed.envelope.params(&parsed.message).map(|params| params.get().into());
            self.upstream.set_handshake(|handshake| handshake.level = level);
        }
        let is_call = method == "tools/call";
        let request = SharedRequest { session, number, is_call, turn };
        if self.others_are_subscribed(session, method, &parsed) {
            let answer = Message::whole(json_rpc::answer(&number.to_string(), "{}"));
            return self.answer(request.into(), InputLine::Message(answer), UNREAD);
        }
        let token = parsed.token().map(|token| token.get().to_owned());
        let kind = PendingKind::Shared(request);
        let pending = PendingRequest { token, ..PendingRequest::new(kind) };
        self.send(pending, &parsed, message).await;
    }

    async fn send(&self, pending: PendingRequest, parsed: &Parsed, mut message: Outgoing) {
        let number = self.upstream.expect(pending);
        let token = parsed.token().map(|token| parsed.message.range_of(token));
        let places = parsed.envelope.id.clone().into_iter().chain(token);
        message.edit(places.map(|range| Edit::new(range, number.to_string())).collect());
        if !self.upstream.send(message).await {
            self.upstream.take(number);
        }
    }

    /// Answers a session's `initialize`. The first session's request goes to the server. Other
    /// sessions wait for its answer.
    async fn introduce(&self, (session, number): (u64, u64), parsed: &Parsed, message: Outgoing) {
        let known = {
            let mut state = self.state.lock();
            match &mut state.introduction {
                SharedHandshake::Known(answer) => Some(answer.clone()),
                SharedHandshake::Asked(waiting) => return waiting.push((session, number)),
                SharedHandshake::Unknown => {
                    state.introduction = SharedHandshake::Asked(vec![(session, number)]);
                    None
                }
            }
        };
        if let Some(known) = known {
            return self.tell_introduced((session, number), &known);
        }
        let parameters = parsed.envelope.params(&parsed.message).map(|params| params.get().into());
        self.upstream.set_handshake(|handshake| {
            handshake.initialize = parameters;
            handshake.is_done = false;
        });
        let kind = PendingKind::Handshake;
        self.send(PendingRequest::new(kind), parsed, message).await;
    }

    fn cancel(&self, session: u64, parsed: &Parsed) {
        let named = request_id(&parsed.envelope, &parsed.message);
        let number = named.and_then(|(id, _)| id.parse().ok());
        let found = number.and_then(|number| self.upstream.number_of(session, number));
        if let Some(number) = found
            && self.upstream.take(number).is_some()
        {
            self.upstream.notify(cancelled(number));
        }
    }

    /// Updates the subscribers of a resource if `method` subscribes or unsubscribes. Returns true
    /// if a session unsubscribes while other sessions remain subscribed, in which case the server
    /// must keep its subscription.
    fn others_are_subscribed(&self, session: u64, method: &str, parsed: &Parsed) -> bool {
        let subscribes = match method {
            "resources/subscribe" => true,
            "resources/unsubscribe" => false,
            _ => return false,
        };
        let params = parsed.envelope.params(&parsed.message).and_then(RawObject::parse);
        let Some(uri) = params.as_ref().and_then(|params| params.text("uri")) else { return false };
        let mut state = self.state.lock();
        if subscribes {
            if state.subscribers.len() < MAX_SUBSCRIBED && uri.len() <= MAX_URI_BYTES {
                state.subscribers.entry(uri.into_owned()).or_default().insert(session);
            }
            return false;
        }
        let Some(subscribers) = state.subscribers.get_mut(&*uri) else { return false };
        subscribers.remove(&session);
        let others = !subscribers.is_empty();
        if !others {
            state.subscribers.remove(&*uri);
        }
        others
    }
}

impl Inbox for SharedServer {
    async fn line(&self, _: &Arc<Upstream>, line: InputLine) -> bool {
        line.of_server().into_iter().all(|message| match message {
            Ok(message) => self.take(message),
            Err(line) => self.broken(*line),
        })
    }

    fn late(&self, _: &Arc<Upstream>, _: Vec<(u64, PendingRequest)>) {}

    async fn lost(&self, _: &Arc<Upstream>, pending: PendingRequest, why: &str) {
        match pending.kind {
            PendingKind::Shared(request) => self.lose(request.into(), why),
            PendingKind::Handshake => self.fail_introduction(why),
            PendingKind::Own(waiting) => drop(waiting.send(Err(why.to_owned()))),
            _ => {}
        }
    }

    async fn failed(&self, _: &Arc<Upstream>, pending: Vec<PendingRequest>, why: &str) {
        let mut lost = self.stop_introduction();
        for pending in pending {
            match pending.kind {
                PendingKind::Shared(request) => lost.push((request.session, request.number)),
                PendingKind::Own(waiting) => drop(waiting.send(Err(why.to_owned()))),
                _ => {}
            }
        }
        let mut state = self.state.lock();
        state.questions.clear();
        for (session, events) in &state.sessions {
            let of_it = lost.iter().filter(|(of, _)| of == session);
            let numbers = of_it.map(|(_, number)| *number).collect();
            events.send(SharedEvent::Failed { numbers, why: why.to_owned() });
        }
    }
}

impl SharedServer {
    fn take(&self, Parsed { envelope, message }: Parsed) -> bool {
        match &envelope.kind {
            MessageKind::Response { .. } => self.response(&envelope, message),
            MessageKind::Request { method } => self.question(method == "ping", &envelope, message),
            MessageKind::Notification { method } => {
                let is_progress = method == "notifications/progress";
                self.notification(is_progress, &envelope, message);
            }
        }
        true
    }

    fn response(&self, envelope: &Envelope, message: Message) {
        let pending = envelope.id(&message).and_then(|id| self.upstream.take_answered(id));
        let (Some(pending), Some(id)) = (pending, envelope.id.clone()) else { return };
        match pending.kind {
            PendingKind::Shared(request) => {
                let edit = Edit::new(id, request.number.to_string());
                let message = message.rewritten(vec![edit]);
                self.answer(request.into(), InputLine::Message(message), UNREAD);
            }
            PendingKind::Handshake => self.introduced(envelope, message),
            PendingKind::Own(waiting) => drop(waiting.send(Ok(message))),
            _ => {}
        }
    }

    fn introduced(&self, envelope: &Envelope, message: Message) {
        let is_result = envelope.result().is_some();
        let answer = message.filled(MAX_INTRODUCTION).and_then(|message| {
            let envelope = Envelope::of(&message).map_err(|_| "answered wrongly".to_owned())?;
            let id = envelope.id.ok_or_else(|| "answered wrongly".to_owned())?;
            Ok(HandshakeAnswer { text: message.text().to_owned(), id })
        });
        let answer = match answer {
            Ok(answer) => answer,
            Err(why) => return self.fail_introduction(&why),
        };
        let waiting = self.stop_introduction();
        if is_result {
            self.state.lock().introduction = SharedHandshake::Known(answer.clone());
            self.upstream.set_handshake(|handshake| handshake.is_done = true);
            self.upstream.notify(INITIALIZED);
        }
        for to in waiting {
            self.tell_introduced(to, &answer);
        }
    }

    fn tell_introduced(&self, (session, number): (u64, u64), answer: &HandshakeAnswer) {
        let line = InputLine::Message(answer.to(number));
        self.answer(SharedAnswer { session, number, turn: None }, line, UNREAD);
    }

    fn fail_introduction(&self, why: &str) {
        for (session, number) in self.stop_introduction() {
            self.lose(SharedAnswer { session, number, turn: None }, why);
        }
    }

    fn stop_introduction(&self) -> Vec<(u64, u64)> {
        let introduction = &mut self.state.lock().introduction;
        match introduction {
            SharedHandshake::Asked(waiting) => {
                let waiting = std::mem::take(waiting);
                *introduction = SharedHandshake::Unknown;
                waiting
            }
            SharedHandshake::Unknown | SharedHandshake::Known(_) => Vec::new(),
        }
    }

    fn question(&self, is_ping: bool, envelope: &Envelope, message: Message) {
        let Some(id) = envelope.id(&message).map(str::to_owned) else { return };
        if is_ping {
            return self.upstream.notify(json_rpc::answer(&id, "{}"));
        }
        let why = match self.only_caller() {
            Ok(session) => {
                if self.ask(session, &id, message) {
                    return;
                }
                "too much waits for the session that is asked"
            }
            Err(why) => why,
        };
        self.upstream.notify(json_rpc::error(&id, INTERNAL_ERROR, why));
    }

    fn only_caller(&self) -> Result<u64, &'static str> {
        let callers: BTreeSet<u64> = self.upstream.callers();
        match callers.len() {
            1 => Ok(callers.into_iter().next().unwrap_or_default()),
            0 => Err("no call runs that the question could be about"),
            _ => Err("several sessions share the server, and it cannot be told which one is asked"),
        }
    }

    fn ask(&self, session: u64, id: &str, message: Message) -> bool {
        let mut state = self.state.lock();
        if state.questions.len() >= MAX_QUESTIONS {
            return false;
        }
        let events = state.sessions.get(&session);
        let line = InputLine::Message(message);
        let is_asked = events.is_some_and(|events| events.send_line(line, None).is_ok());
        if is_asked {
            state.questions.insert(id.to_owned(), session);
        }
        is_asked
    }

    fn notification(&self, is_progress: bool, envelope: &Envelope, message: Message) {
        let Some((range, name)) = named(is_progress, envelope, &message) else {
            return self.tell_all(&message);
        };
        let Some((session, number, token)) = self.upstream.shared_request(&name) else { return };
        let own = if is_progress { token } else { Some(number.to_string()) };
        let Some(own) = own else { return };
        let edit = Edit::new(range, own);
        let line = InputLine::Message(message.rewritten(vec![edit]));
        if let Some(events) = self.state.lock().sessions.get(&session) {
            events.send_notice(line);
        }
    }

    fn tell_all(&self, message: &Message) {
        for events in self.state.lock().sessions.values() {
            if !events.send_notice(InputLine::Message(message.clone())) {
                tracing::debug!("{}: a notification is lost", self.upstream.name);
            }
        }
    }

    /// Forwards a broken message to the session whose request it answers, if this session can be
    /// identified. Returns false if the server must be restarted.
    fn broken(&self, line: BrokenLine) -> bool {
        let kind = line.kind;
        let pending = self.upstream.take_broken(&line);
        match pending.map(|pending| pending.kind) {
            Some(PendingKind::Shared(request)) => {
                let why = line.why.clone();
                let line = BrokenLine { id: Some(request.number.to_string()), ..line };
                self.answer(request.into(), InputLine::Broken(line), &why);
            }
            Some(PendingKind::Handshake) => self.fail_introduction(&line.why),
            _ => self.upstream.log_broken(&line),
        }
        self.upstream.goes_on_after(kind)
    }
}

fn named(
    is_progress: bool,
    envelope: &Envelope,
    message: &Message,
) -> Option<(std::ops::Range<usize>, String)> {
    let params = envelope.params(message)?;
    let name = if is_progress {
        RawObject::parse(params)?.get("progressToken")?
    } else {
        if !params.get().contains(SUBSCRIPTION_KEY) {
            return None;
        }
        json_rpc::subscription_id(&RawObject::parse(params)?)?
    };
    Some((message.range_of(name), name.get().trim_matches('"').to_owned()))
}
