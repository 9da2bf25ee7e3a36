//! What servers send, and what the client gets of it.

use std::sync::Arc;

use crate::delivery::ServerAnswer;
use crate::envelope::{Envelope, Kind};
use crate::from_client::request_id;
use crate::hub::Hub;
use crate::line_reader::{BrokenLine, Line, broken};
use crate::manager::{Inbox, cancelled_because};
use crate::message::{Edit, Message, Outgoing};
use crate::message_batch::{is_batch, messages_of_server};
use crate::meta::SUBSCRIPTION;
use crate::pending::{Pending, PendingKind};
use crate::raw_object::RawObject;
use crate::relay::{Asker, INTERNAL_ERROR, Question, Relay, TIMED_OUT};
use crate::upstream::{Upstream, with_id};
use crate::{bridge, envelope, hub, meta, results};

/// The receiver of what servers send.
pub(super) struct FromUpstreams(pub(super) Arc<Relay>);

impl Inbox for FromUpstreams {
    async fn line(&self, from: &Arc<Upstream>, line: Line) -> bool {
        match line {
            Line::Message(message) => self.take(from, message).await,
            Line::Broken(line) => self.broken(from, line).await,
        }
    }

    fn late(&self, of: &Arc<Upstream>, late: Vec<(u64, Pending)>) {
        let seconds = of.timeout.unwrap_or_default().as_secs();
        let why = format!("did not answer within {seconds} s");
        let text = format!("the server `{}` {why}", of.name);
        for (number, pending) in late {
            of.notify(cancelled_because(number, "the time is over"));
            let Some(pending) = pending.of_client(&why) else { continue };
            // The client may not be reading, and the server's time goes on.
            let (relay, text) = (Arc::clone(&self.0), text.clone());
            tokio::spawn(async move { relay.fail(pending, TIMED_OUT, &text).await });
        }
    }

    async fn lost(&self, of: &Arc<Upstream>, pending: Pending, why: &str) {
        let Some(pending) = pending.of_client(why) else { return };
        let text = format!("the server `{}` {why}", of.name);
        self.0.fail(pending, INTERNAL_ERROR, &text).await;
    }

    async fn failed(&self, of: &Arc<Upstream>, pending: Vec<Pending>, why: &str) {
        let relay = &self.0;
        relay.bridge.server_ended(relay.index_of(of));
        for id in relay.drop_questions(relay.index_of(of)) {
            relay.tell(cancelled_because(id, "the server ended")).await;
        }
        let text = format!("the server `{}` {why}; it is started again at the next call", of.name);
        for pending in pending.into_iter().filter_map(|pending| pending.of_client(why)) {
            relay.fail(pending, INTERNAL_ERROR, &text).await;
        }
    }
}

impl FromUpstreams {
    async fn take(&self, from: &Arc<Upstream>, message: Message) -> bool {
        if is_batch(&message) {
            return self.batch(from, &message).await;
        }
        let envelope = match Envelope::of(&message) {
            Ok(envelope) => envelope,
            Err(error) => return self.broken(from, broken(message.text(), &error)).await,
        };
        match &envelope.kind {
            Kind::Response { .. } => self.response(from, envelope, message).await,
            Kind::Request { .. } => self.request(from, &envelope, message).await,
            Kind::Notification { method } => {
                let method = method.clone();
                self.notification(from, &method, &envelope, message).await;
            }
        }
        true
    }

    async fn batch(&self, from: &Arc<Upstream>, message: &Message) -> bool {
        let messages = match messages_of_server(message) {
            Ok(messages) => messages,
            Err(error) => return self.broken(from, broken(message.text(), &error)).await,
        };
        for message in messages {
            if !Box::pin(self.take(from, message)).await {
                return false;
            }
        }
        true
    }

    async fn response(&self, from: &Arc<Upstream>, envelope: Envelope, message: Message) {
        let pending = envelope.id(&message).and_then(|id| from.take_answered(id));
        let Some(mut pending) = pending else {
            tracing::debug!("{}: an answer that nobody waits for", from.name);
            return;
        };
        if let PendingKind::Own(waiting) = pending.kind {
            drop(waiting.send(Ok(message)));
            return;
        }
        let crossing = pending.crossing.take();
        let answer = ServerAnswer { from: Arc::clone(from), pending, envelope, message };
        match crossing {
            Some(crossing) => bridge::answered(&self.0, *crossing, answer).await,
            None => bridge::passed(&self.0, answer).await,
        }
    }

    /// Hands a request of a server to the client.
    async fn request(&self, from: &Arc<Upstream>, envelope: &Envelope, message: Message) {
        let (Some(id), Some(range)) = (envelope.id(&message), envelope.id.clone()) else { return };
        let relay = &self.0;
        if bridge::takes_requests(relay, from) {
            return bridge::asked(relay, from, envelope, message).await;
        }
        let question = Question { upstream: relay.index_of(from), id: id.to_owned() };
        let number = relay.ask(Asker::Server(question));
        let request = with_id(message, range, &number.to_string());
        if relay.hub.as_ref().is_none_or(Hub::is_ready) {
            return relay.tell(request).await;
        }
        let (relay, from) = (Arc::clone(relay), Arc::clone(from));
        tokio::spawn(async move { ask_when_ready(&relay, &from, number, request).await });
    }

    async fn notification(
        &self,
        from: &Arc<Upstream>,
        method: &str,
        envelope: &Envelope,
        message: Message,
    ) {
        let relay = &self.0;
        if relay.hub.is_some() && method.ends_with("/list_changed") {
            return hub::changed(relay, relay.index_of(from), method);
        }
        if bridge::changes_notifications(relay, from) {
            return bridge::noticed(relay, from, method, envelope, message).await;
        }
        let mut edits = Vec::new();
        match method {
            "notifications/progress" => {
                let params = envelope.params(&message).and_then(RawObject::parse);
                if let Some(token) = params.as_ref().and_then(|params| params.get("progressToken"))
                {
                    from.progressed(token.get());
                }
            }
            "notifications/cancelled" => {
                let Some((id, range)) = request_id(envelope, &message) else { return };
                let number = relay.question(relay.index_of(from), &id);
                let Some(number) = number else { return };
                relay.answered(&number.to_string());
                edits.push(Edit { range, with: number.to_string().into_bytes() });
            }
            _ => edits.extend(subscription(from, envelope, &message)),
        }
        relay.tell(message.edited(edits)).await;
    }

    /// Ends the request that a broken message was to answer, if that can be told. Returns false if
    /// the server is to be started again.
    async fn broken(&self, from: &Arc<Upstream>, line: BrokenLine) -> bool {
        let kind = line.kind;
        from.log_broken(&line);
        let pending = from.take_broken(&line);
        if let Some(pending) = pending.and_then(|pending| pending.of_client(&line.why)) {
            self.end_broken(from, pending, line).await;
        }
        from.goes_on_after(kind)
    }

    async fn end_broken(&self, from: &Upstream, pending: Pending, line: BrokenLine) {
        let relay = &self.0;
        let text = format!("the answer of the server `{}` cannot be read: {}", from.name, line.why);
        let PendingKind::Call(call) = &pending.kind else {
            return relay.fail(pending, INTERNAL_ERROR, &text).await;
        };
        let (shelf, call) = (Arc::clone(&relay.shelf), call.clone());
        let stored = match line.kept {
            Some(kept) => {
                let why = line.why;
                let store = move || results::keep_broken(&shelf, &call, &kept, &why);
                tokio::task::spawn_blocking(store).await.ok().flatten()
            }
            None => None,
        };
        let stored = stored.map(|name| format!("; what came is in {name}")).unwrap_or_default();
        relay.fail(pending, INTERNAL_ERROR, &(text + &stored)).await;
    }
}

/// Hands a request of a server to the client once that is ready. The server may have been told of the
/// client before.
async fn ask_when_ready(relay: &Relay, from: &Upstream, number: u64, request: Outgoing) {
    let Some(hub) = &relay.hub else { return };
    if hub.until_ready().await {
        return relay.tell(request).await;
    }
    if let Some(Asker::Server(question)) = relay.answered(&number.to_string()) {
        let text = "too much is asked before the client is ready";
        from.notify(envelope::error(&question.id, INTERNAL_ERROR, text));
    }
}

/// Returns the edit of a notification that names the request of its subscription.
fn subscription(from: &Upstream, envelope: &Envelope, message: &Message) -> Option<Edit> {
    let params = envelope.params(message).filter(|params| params.get().contains(SUBSCRIPTION))?;
    let id = meta::subscription(&RawObject::parse(params)?)?;
    let with = from.client_id(meta::number(id)?)?.into_bytes();
    Some(Edit { range: message.range_of(id), with })
}
