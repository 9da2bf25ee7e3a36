//! Processes messages of servers on their way to the client.

use std::sync::Arc;

use crate::client::{QuestionSource, ServerQuestion, held_calls, subscriptions};
use crate::delivery::{ServerAnswer, deliver, deliver_to_old_client};
use crate::hub::{Hub, introduction};
use crate::json_rpc::{
    self, Envelope, INTERNAL_ERROR, MessageKind, Parsed, TIMED_OUT, cancelled_because, request_id,
};
use crate::line_reader::{BrokenLine, InputLine};
use crate::manager::Inbox;
use crate::message::{Edit, Message, Outgoing, with_id};
use crate::pending::{PendingKind, PendingRequest, Translation};
use crate::raw_object::RawObject;
use crate::relay::Relay;
use crate::results::stored;
use crate::revision::{Era, EraMismatch};
use crate::upstream::{Upstream, handshake, rounds};

const NOT_KEPT: &str = "nothing of it is kept";

/// Receives the messages of all servers of a session, and keeps the order of each server's
/// messages. Waits while the client's queue is full, so that a client that does not read slows down
/// the servers through their pipes.
pub(crate) struct SessionInbox(pub(crate) Arc<Relay>);

impl Inbox for SessionInbox {
    async fn line(&self, from: &Arc<Upstream>, line: InputLine) -> bool {
        for message in line.of_server() {
            match message {
                Ok(message) => self.take(from, message).await,
                Err(line) => {
                    if !self.broken(from, *line).await {
                        return false;
                    }
                }
            }
        }
        true
    }

    fn late(&self, of: &Arc<Upstream>, late: Vec<(u64, PendingRequest)>) {
        let seconds = of.timeout.unwrap_or_default().as_secs();
        let why = format!("did not answer within {seconds} s");
        let text = format!("the server `{}` {why}", of.name);
        for (number, pending) in late {
            of.notify(cancelled_because(number, "the time is over"));
            let Some(pending) = pending.fail_own(&why) else { continue };
            // Not awaited: the client may not be reading, and the server's other deadlines must not
            // wait.
            let (relay, text) = (Arc::clone(&self.0), text.clone());
            tokio::spawn(async move { fail(&relay, pending, TIMED_OUT, &text).await });
        }
    }

    async fn lost(&self, of: &Arc<Upstream>, pending: PendingRequest, why: &str) {
        let Some(pending) = pending.fail_own(why) else { return };
        let text = format!("the server `{}` {why}", of.name);
        fail(&self.0, pending, INTERNAL_ERROR, &text).await;
    }

    async fn failed(&self, of: &Arc<Upstream>, mut pending: Vec<PendingRequest>, why: &str) {
        let relay = &self.0;
        held_calls::withdraw(relay, of, &|_| true);
        for carried in pending.iter_mut().filter_map(PendingRequest::questions) {
            carried.withdraw(&|_| true);
        }
        for id in relay.client.drop_questions(of) {
            relay.client.send(cancelled_because(id, "the server ended")).await;
        }
        let text = format!("the server `{}` {why}; it is started again at the next call", of.name);
        for pending in pending.into_iter().filter_map(|pending| pending.fail_own(why)) {
            fail(relay, pending, INTERNAL_ERROR, &text).await;
        }
    }
}

impl SessionInbox {
    async fn take(&self, from: &Arc<Upstream>, parsed: Parsed) {
        match &parsed.envelope.kind {
            MessageKind::Response { .. } => self.response(from, parsed).await,
            MessageKind::Request { .. } => self.request(from, parsed).await,
            MessageKind::Notification { .. } => self.notification(from, parsed).await,
        }
    }

    async fn response(&self, from: &Arc<Upstream>, Parsed { envelope, message }: Parsed) {
        let pending = envelope.id(&message).and_then(|id| from.take_answered(id));
        let Some(mut pending) = pending else {
            tracing::debug!("{}: an answer to no pending request", from.name);
            return;
        };
        if let PendingKind::Own(waiting) = pending.kind {
            drop(waiting.send(Ok(message)));
            return;
        }
        let (relay, translation) = (&self.0, pending.translation.take());
        let mut answer = ServerAnswer { from: Arc::clone(from), pending, envelope, message };
        match translation.map(|translation| *translation) {
            Some(Translation::Opening { version }) => {
                handshake::initialize_answered(relay, version, answer).await;
            }
            Some(Translation::Repeatable(again)) if rounds::asks(&answer) => {
                tokio::spawn(rounds::repeat(Arc::clone(relay), again, answer));
            }
            Some(carrier @ Translation::Carrier(_)) => {
                answer.pending.translation = Some(Box::new(carrier));
                held_calls::carrier_answered(relay, answer).await;
            }
            _ if relay.client.mismatch(from.era.get()) == Some(EraMismatch::OldClient) => {
                deliver_to_old_client(relay, answer).await;
            }
            _ => deliver(relay, answer, Vec::new(), "").await,
        }
    }

    async fn request(&self, from: &Arc<Upstream>, Parsed { envelope, message }: Parsed) {
        let (Some(id), Some(range)) = (envelope.id(&message), envelope.id.clone()) else { return };
        let relay = &self.0;
        if held_calls::must_carry(relay, from)
            && let MessageKind::Request { method } = &envelope.kind
        {
            let id = id.to_owned();
            return held_calls::take_request(relay, from, (&id, method), message);
        }
        let question = ServerQuestion { from: Arc::clone(from), id: id.to_owned() };
        let number = relay.client.ask(QuestionSource::Server(question));
        let request = with_id(message, range, &number.to_string());
        if relay.hub.as_ref().is_none_or(Hub::is_ready) {
            return relay.client.send(request).await;
        }
        let (relay, from) = (Arc::clone(relay), Arc::clone(from));
        tokio::spawn(async move { ask_when_ready(&relay, &from, number, request).await });
    }

    async fn notification(&self, from: &Arc<Upstream>, parsed: Parsed) {
        let Parsed { envelope, message } = &parsed;
        let MessageKind::Notification { method } = &envelope.kind else { return };
        let relay = &self.0;
        if relay.hub.is_some() && method.ends_with("/list_changed") {
            return introduction::changed(relay, relay.index_of(from), method);
        }
        let era = from.era.get();
        if relay.client.mismatch(era).is_some() || (relay.hub.is_some() && era == Some(Era::Modern))
        {
            return self.foreign_notification(from, parsed).await;
        }
        let params = || envelope.params(message).and_then(RawObject::parse).unwrap_or_default();
        let mut edits = Vec::new();
        match &**method {
            "notifications/progress" => {
                if let Some(token) = params().get("progressToken") {
                    from.progressed(token.get());
                }
            }
            "notifications/cancelled" => {
                let Some((id, range)) = request_id(envelope, message) else { return };
                let number = relay.client.question(from, &id);
                let Some(number) = number else { return };
                relay.client.answered(&number.to_string());
                edits.push(Edit::new(range, number.to_string()));
            }
            _ if message.text().contains(json_rpc::SUBSCRIPTION_KEY) => {
                if let Some(id) = json_rpc::subscription_id(&params())
                    && let Some(number) = json_rpc::number_of(id)
                    && let Some(client_id) = from.client_id(number)
                {
                    edits.push(Edit::new(message.range_of(id), client_id));
                }
            }
            _ => {}
        }
        relay.client.send(parsed.message.edited(edits)).await;
    }

    /// Translates a notification for a client of the other era, and sends it. Notifications meant
    /// for the gateway itself are consumed here.
    async fn foreign_notification(
        &self,
        from: &Arc<Upstream>,
        Parsed { envelope, message }: Parsed,
    ) {
        let MessageKind::Notification { method } = &envelope.kind else { return };
        let relay = &self.0;
        let params = envelope.params(&message).and_then(RawObject::parse).unwrap_or_default();
        let stream = json_rpc::subscription_id(&params).and_then(json_rpc::number_of);
        let is_new_client = relay.client.is_modern();
        let mut edits = Vec::new();
        match &**method {
            "notifications/subscriptions/acknowledged" => {
                return stream.into_iter().for_each(|number| from.acknowledged(number));
            }
            _ if stream.is_some_and(|number| !from.waits_for(number)) => return,
            "notifications/resources/updated" => {
                let Some((uri, text)) = params.get("uri").zip(params.text("uri")) else { return };
                if is_new_client {
                    return subscriptions::updated(relay, &text).await;
                }
                let params = format!(r#"{{"uri":{uri}}}"#);
                return relay.client.send(json_rpc::notification(method, &params)).await;
            }
            method if method.ends_with("/list_changed") => {
                return subscriptions::changed(relay, method).await;
            }
            "notifications/progress" => {
                let Some(token) = params.get("progressToken") else { return };
                from.progressed(token.get());
                let now = from.with_requests(|requests| requests.client_token(token.get()));
                let Some(now) = now else { return };
                edits.push(Edit::new(message.range_of(token), now));
            }
            "notifications/cancelled" => return self.given_up(from, &envelope, &message),
            "notifications/message"
                if is_new_client
                    && from.era.get() == Some(Era::Legacy)
                    && !from.with_requests(|requests| requests.want_logs()) =>
            {
                return;
            }
            _ => {}
        }
        relay.client.send(message.edited(edits)).await;
    }

    /// Processes a cancellation that a server sent. With it, a server of a revision before
    /// 2026-07-28 withdraws a question, and a server of revision 2026-07-28 ends the subscription
    /// of the gateway.
    fn given_up(&self, from: &Arc<Upstream>, envelope: &Envelope, message: &Message) {
        let Some((id, _)) = request_id(envelope, message) else { return };
        if from.era.get() == Some(Era::Legacy) {
            return held_calls::withdraw(&self.0, from, &|asked| asked == id);
        }
        let pending = id.parse().ok().and_then(|number| from.take(number));
        if let Some(pending) = pending {
            // This is a request of the gateway, because servers end no other requests.
            drop(pending.fail_own("ended the subscription"));
        }
    }

    /// Fails the request that a broken message answers, if it can be identified. Returns false if
    /// the server must be restarted.
    async fn broken(&self, from: &Arc<Upstream>, line: BrokenLine) -> bool {
        let kind = line.kind;
        from.log_broken(&line);
        let pending = from.take_broken(&line);
        let why = format!("sent an answer that cannot be read: {}; {NOT_KEPT}", line.why);
        if let Some(pending) = pending.and_then(|pending| pending.fail_own(&why)) {
            self.end_broken(from, pending, line).await;
        }
        from.goes_on_after(kind)
    }

    async fn end_broken(&self, from: &Upstream, pending: PendingRequest, line: BrokenLine) {
        let relay = &self.0;
        let text = format!("the answer of the server `{}` cannot be read: {}", from.name, line.why);
        let PendingKind::Call(call) = &pending.kind else {
            return relay.fail(pending, INTERNAL_ERROR, &text).await;
        };
        let (shelf, call) = (Arc::clone(&relay.shelf), call.clone());
        let stored = match line.kept {
            Some(kept) => {
                let why = line.why;
                let store = move || stored::keep_broken(&shelf, &call, &kept, &why);
                tokio::task::spawn_blocking(store).await.ok().flatten()
            }
            None => None,
        };
        let stored =
            stored.map_or_else(|| NOT_KEPT.to_owned(), |name| format!("what came is in {name}"));
        relay.fail(pending, INTERNAL_ERROR, &format!("{text}; {stored}")).await;
    }
}

/// Fails a request that its server does not answer. A handshake is answered without the server if the
/// gateway has tools of its own.
async fn fail(relay: &Arc<Relay>, pending: PendingRequest, code: i32, text: &str) {
    let is_handshake = matches!(pending.kind, PendingKind::Handshake);
    if is_handshake && relay.context_tools && relay.only().is_some() {
        return handshake::answer_without(relay, pending, text).await;
    }
    relay.fail(pending, code, text).await;
}

/// Sends a server's request to the client once the client is ready. A server can be introduced, and
/// send requests, before the client is ready.
async fn ask_when_ready(relay: &Relay, from: &Upstream, number: u64, request: Outgoing) {
    let Some(hub) = &relay.hub else { return };
    if hub.until_ready().await {
        return relay.client.send(request).await;
    }
    if let Some(QuestionSource::Server(question)) = relay.client.answered(&number.to_string()) {
        let text = "too much is asked before the client is ready";
        from.notify(json_rpc::error(&question.id, INTERNAL_ERROR, text));
    }
}
