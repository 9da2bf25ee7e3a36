//! What sessions send to a shared server.

use crate::bridge::filter::LONGEST_URI;
use crate::envelope;
use crate::envelope::Kind;
use crate::from_client::request_id;
use crate::manager::cancelled;
use crate::message::{Edit, Message, Outgoing};
use crate::parsed::Parsed;
use crate::pending::{Pending, PendingKind, SharedRequest};
use crate::raw_object::RawObject;
use crate::shared::{SharedIntroduction, SharedServer};

/// The most requests of a session that wait for their answers.
const MOST_REQUESTS: usize = 256;
/// The most resources whose subscribers are known.
const MOST_SUBSCRIBED: usize = 10_000;

impl SharedServer {
    /// Sends a message of a session, as soon as there is room.
    pub(super) async fn forward(&self, session: u64, message: Outgoing) {
        let Ok(parsed) = Parsed::of(message.outline()) else { return };
        match &parsed.envelope.kind {
            Kind::Request { method } => self.request(session, method, &parsed, message).await,
            // The server is told once, when it is introduced.
            Kind::Notification { method } if method == "notifications/initialized" => {}
            Kind::Notification { method } if method == "notifications/cancelled" => {
                self.cancel(session, &parsed);
            }
            Kind::Notification { .. } => self.upstream.notify(message),
            Kind::Response { .. } => {
                if let Some(id) = parsed.envelope.id(&parsed.message) {
                    self.state.lock().questions.remove(id);
                }
                self.upstream.notify(message);
            }
        }
    }

    async fn request(&self, session: u64, method: &str, parsed: &Parsed, message: Outgoing) {
        let number = parsed.envelope.id(&parsed.message).and_then(|id| id.parse().ok());
        let Some(number) = number else { return };
        if method == "initialize" {
            return self.introduce(session, number, parsed, message).await;
        }
        if method == "logging/setLevel" {
            let level = parsed.envelope.params(&parsed.message).map(|params| params.get().into());
            self.upstream.set_handshake(|handshake| handshake.level = level);
        }
        if self.others_are_subscribed(session, method, parsed) {
            let answer = envelope::answer(&number.to_string(), "{}");
            let answer = String::from_utf8(answer).unwrap_or_default();
            return self.answer(session, number, Message::whole(answer));
        }
        if self.upstream.count_of_session(session) >= MOST_REQUESTS {
            let why = "is shared, and too many requests of this session wait for it";
            return self.lose(session, number, why);
        }
        let request = SharedRequest { session, number, is_call: method == "tools/call" };
        let token = parsed.token().map(|token| token.get().to_owned());
        let kind = PendingKind::Shared(request);
        let pending = Pending { client_id: None, kind, token, deadline: None, crossing: None };
        self.send(pending, parsed, message).await;
    }

    /// Sends a request with a number of its own, which is the token of its progress too.
    async fn send(&self, pending: Pending, parsed: &Parsed, mut message: Outgoing) {
        let number = self.upstream.expect(pending);
        let token = parsed.token().map(|token| parsed.message.range_of(token));
        let mut places: Vec<_> = parsed.envelope.id.clone().into_iter().chain(token).collect();
        // From the end, so that the places before stay.
        places.sort_by_key(|range| std::cmp::Reverse(range.start));
        for range in places {
            message.replace(&Edit { range, with: number.to_string().into_bytes() });
        }
        if !self.upstream.send(message).await {
            self.upstream.take(number);
        }
    }

    /// Answers `initialize`: the server gets it once, from the first session.
    async fn introduce(&self, session: u64, number: u64, parsed: &Parsed, message: Outgoing) {
        let known = {
            let mut state = self.state.lock();
            match &mut state.introduction {
                SharedIntroduction::Known(answer) => Some(answer.to(number)),
                SharedIntroduction::Asked(waiting) => return waiting.push((session, number)),
                SharedIntroduction::Unknown => {
                    state.introduction = SharedIntroduction::Asked(vec![(session, number)]);
                    None
                }
            }
        };
        if let Some(known) = known {
            return self.answer(session, number, known);
        }
        let parameters = parsed.envelope.params(&parsed.message).map(|params| params.get().into());
        self.upstream.set_handshake(|handshake| {
            handshake.initialize = parameters;
            handshake.is_done = false;
        });
        let kind = PendingKind::Handshake;
        let pending =
            Pending { client_id: None, kind, token: None, deadline: None, crossing: None };
        self.send(pending, parsed, message).await;
    }

    /// Cancels a request of a session. The first `initialize` goes on, as others wait for it.
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

    /// Notes who subscribes to a resource. Returns true if a request ends the subscription of a
    /// session while others go on.
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
            if state.subscribers.len() < MOST_SUBSCRIBED && uri.len() <= LONGEST_URI {
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
