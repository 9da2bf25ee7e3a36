//! What a shared server sends, and the sessions that get it.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::envelope::{Envelope, Kind};
use crate::line_reader::{BrokenLine, Line, broken};
use crate::manager::{INITIALIZED, Inbox};
use crate::message::{Edit, Message};
use crate::message_batch::{is_batch, messages_of_server};
use crate::meta::SUBSCRIPTION;
use crate::pending::{Pending, PendingKind};
use crate::raw_object::RawObject;
use crate::relay::INTERNAL_ERROR;
use crate::shared::events::Event;
use crate::shared::{KnownAnswer, SharedIntroduction, SharedServer};
use crate::upstream::Upstream;
use crate::{envelope, meta};

/// The most questions of the server that wait for an answer.
const MOST_QUESTIONS: usize = 256;
/// The most bytes of an answer to `initialize`.
const MOST_INTRODUCTION: usize = 8 << 20;

impl Inbox for SharedServer {
    async fn line(&self, _: &Arc<Upstream>, line: Line) -> bool {
        match line {
            Line::Message(message) => self.take(message),
            Line::Broken(line) => self.broken(line),
        }
    }

    /// Requests have their deadlines in the sessions.
    fn late(&self, _: &Arc<Upstream>, _: Vec<(u64, Pending)>) {}

    async fn lost(&self, _: &Arc<Upstream>, pending: Pending, why: &str) {
        match pending.kind {
            PendingKind::Shared(request) => self.lose(request.session, request.number, why),
            PendingKind::Handshake => {
                for (session, number) in self.stop_introduction() {
                    self.lose(session, number, why);
                }
            }
            PendingKind::Own(waiting) => drop(waiting.send(Err(why.to_owned()))),
            _ => {}
        }
    }

    async fn failed(&self, _: &Arc<Upstream>, pending: Vec<Pending>, why: &str) {
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
            events.send(Event::Failed { numbers, why: why.to_owned() });
        }
    }
}

impl SharedServer {
    fn take(&self, message: Message) -> bool {
        if is_batch(&message) {
            return self.batch(&message);
        }
        let envelope = match Envelope::of(&message) {
            Ok(envelope) => envelope,
            Err(error) => return self.broken(broken(message.text(), &error)),
        };
        match &envelope.kind {
            Kind::Response { .. } => self.response(&envelope, message),
            Kind::Request { method } => self.question(method == "ping", &envelope, message),
            Kind::Notification { method } => {
                let is_progress = method == "notifications/progress";
                self.notification(is_progress, &envelope, message);
            }
        }
        true
    }

    fn batch(&self, message: &Message) -> bool {
        let messages = match messages_of_server(message) {
            Ok(messages) => messages,
            Err(error) => return self.broken(broken(message.text(), &error)),
        };
        messages.into_iter().all(|message| self.take(message))
    }

    fn response(&self, envelope: &Envelope, message: Message) {
        let pending = envelope.id(&message).and_then(|id| self.upstream.take_answered(id));
        let (Some(pending), Some(id)) = (pending, envelope.id.clone()) else { return };
        match pending.kind {
            PendingKind::Shared(request) => {
                let with = request.number.to_string().into_bytes();
                let message = message.rewritten(vec![Edit { range: id, with }]);
                self.answer(request.session, request.number, message);
            }
            PendingKind::Handshake => self.introduced(envelope, message),
            PendingKind::Own(waiting) => drop(waiting.send(Ok(message))),
            _ => {}
        }
    }

    /// Hands the answer to `initialize` to those who wait for it, and keeps it for others.
    fn introduced(&self, envelope: &Envelope, message: Message) {
        let is_result = envelope.result().is_some();
        let answer = message.filled(MOST_INTRODUCTION).and_then(|message| {
            let envelope = Envelope::of(&message).map_err(|_| "answered wrongly".to_owned())?;
            let id = envelope.id.ok_or_else(|| "answered wrongly".to_owned())?;
            Ok(KnownAnswer { text: message.text().to_owned(), id })
        });
        let waiting = self.stop_introduction();
        let answer = match answer {
            Ok(answer) => answer,
            Err(why) => {
                return waiting
                    .iter()
                    .for_each(|(session, number)| self.lose(*session, *number, &why));
            }
        };
        if is_result {
            self.state.lock().introduction = SharedIntroduction::Known(answer.clone());
            self.upstream.set_handshake(|handshake| handshake.is_done = true);
            self.upstream.notify(INITIALIZED.to_vec());
        }
        for (session, number) in waiting {
            self.answer(session, number, answer.to(number));
        }
    }

    /// Returns those who wait for the answer to `initialize`, which does not come to them.
    fn stop_introduction(&self) -> Vec<(u64, u64)> {
        let introduction = &mut self.state.lock().introduction;
        match introduction {
            SharedIntroduction::Asked(waiting) => {
                let waiting = std::mem::take(waiting);
                *introduction = SharedIntroduction::Unknown;
                waiting
            }
            SharedIntroduction::Unknown | SharedIntroduction::Known(_) => Vec::new(),
        }
    }

    /// Hands a request of the server to the session whose call runs, if it is the only one.
    fn question(&self, is_ping: bool, envelope: &Envelope, message: Message) {
        let Some(id) = envelope.id(&message).map(str::to_owned) else { return };
        if is_ping {
            return self.upstream.notify(envelope::answer(&id, "{}"));
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
        self.upstream.notify(envelope::error(&id, INTERNAL_ERROR, why));
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
        if state.questions.len() >= MOST_QUESTIONS {
            return false;
        }
        let events = state.sessions.get(&session);
        let is_asked = events.is_some_and(|events| events.send_line(Line::Message(message)));
        if is_asked {
            state.questions.insert(id.to_owned(), session);
        }
        is_asked
    }

    /// Hands a notification to the session whose request it names, or else to all.
    fn notification(&self, is_progress: bool, envelope: &Envelope, message: Message) {
        let Some((range, name)) = named(is_progress, envelope, &message) else {
            return self.tell_all(&message);
        };
        let Some((request, token)) = self.upstream.shared_request(&name) else { return };
        let own = if is_progress { token } else { Some(request.number.to_string()) };
        let Some(own) = own else { return };
        let edit = Edit { range, with: own.into_bytes() };
        let line = Line::Message(message.rewritten(vec![edit]));
        if let Some(events) = self.state.lock().sessions.get(&request.session) {
            events.send_notice(line);
        }
    }

    fn tell_all(&self, message: &Message) {
        for events in self.state.lock().sessions.values() {
            if !events.send_notice(Line::Message(message.clone())) {
                tracing::debug!("{}: a notification is lost", self.upstream.name);
            }
        }
    }

    /// Hands a broken message to the session whose request it was to answer, if that can be told.
    /// Returns false if the server is to be started again.
    fn broken(&self, line: BrokenLine) -> bool {
        let kind = line.kind;
        let pending = self.upstream.take_broken(&line);
        match pending.map(|pending| pending.kind) {
            Some(PendingKind::Shared(request)) => {
                let (session, number, why) = (request.session, request.number, line.why.clone());
                let line = BrokenLine { id: Some(number.to_string()), ..line };
                if !self.hand(session, Line::Broken(line)) {
                    self.lose(session, number, &why);
                }
            }
            Some(PendingKind::Handshake) => {
                for (session, number) in self.stop_introduction() {
                    self.lose(session, number, &line.why);
                }
            }
            _ => self.upstream.log_broken(&line),
        }
        self.upstream.goes_on_after(kind)
    }
}

/// Returns where a notification names a request, and the number as written: as the token of its
/// progress, or as that of a subscription.
fn named(
    is_progress: bool,
    envelope: &Envelope,
    message: &Message,
) -> Option<(std::ops::Range<usize>, String)> {
    let params = envelope.params(message)?;
    let name = if is_progress {
        RawObject::parse(params)?.get("progressToken")?
    } else {
        if !params.get().contains(SUBSCRIPTION) {
            return None;
        }
        meta::subscription(&RawObject::parse(params)?)?
    };
    Some((message.range_of(name), name.get().trim_matches('"').to_owned()))
}
