//! Calls of old servers that wait until the client makes them again, with answers to what the server
//! asks.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::bridge::client_said::Ask;
use crate::bridge::question_room::QuestionPlace;
use crate::message::Message;
use crate::numbered::Numbered;
use crate::pending::Pending;

/// The most calls that are held. The oldest is given up for a new one.
const MOST: usize = 64;
/// The most questions of a call, and those of a server without one.
pub(super) const MOST_QUESTIONS: usize = 16;

/// The calls, by their numbers.
pub(crate) struct HeldCalls(Mutex<HeldThings>);

struct HeldThings {
    calls: Numbered<HeldCall>,
    /// The questions of servers while no request of the client can carry them.
    early: Vec<EarlyQuestion>,
}

impl Default for HeldCalls {
    fn default() -> Self {
        Self(Mutex::new(HeldThings { calls: Numbered::new(MOST), early: Vec::new() }))
    }
}

/// A call.
pub(super) struct HeldCall {
    /// The server, and the number of the request there.
    pub(super) upstream: usize,
    pub(super) request: u64,
    pub(super) questions: Vec<HeldQuestion>,
    /// True once the client was told.
    pub(super) is_told: bool,
    /// The end of the request, if it came meanwhile.
    pub(super) outcome: Option<CallEnd>,
    next_key: u64,
}

/// The end of the request of a held call.
pub(super) struct CallEnd {
    pub(super) pending: Pending,
    pub(super) is_kept: bool,
    pub(super) answer: Result<Message, (i32, String)>,
}

/// A request of a server to the client.
#[derive(Debug, Clone)]
pub(super) struct HeldQuestion {
    /// The key under which the client answers it.
    pub(super) key: String,
    /// The id that the server gave it, as written; empty if that waits no more.
    pub(super) id: String,
    /// Its members.
    pub(super) request: String,
    pub(super) is_told: bool,
    _place: Option<Arc<QuestionPlace>>,
}

/// A question that waits for a request of the client.
pub(super) struct EarlyQuestion {
    pub(super) upstream: usize,
    pub(super) ask: Ask,
    pub(super) question: HeldQuestion,
}

impl HeldCall {
    pub(super) fn new(upstream: usize, request: u64) -> Self {
        let questions = Vec::new();
        Self { upstream, request, questions, is_told: false, outcome: None, next_key: 0 }
    }

    /// Adds a question. False if there are too many.
    pub(super) fn add(&mut self, mut question: HeldQuestion) -> bool {
        if self.questions.len() == MOST_QUESTIONS {
            return false;
        }
        self.next_key += 1;
        question.key = format!("q{}", self.next_key);
        question.is_told = false;
        self.questions.push(question);
        true
    }

    /// Returns the requests for the client, as JSON, which is told of all of them.
    pub(super) fn tell(&mut self) -> String {
        self.is_told = true;
        let told = self.questions.iter_mut().map(|question| {
            question.is_told = true;
            format!("\"{}\":{{{}}}", question.key, question.request)
        });
        format!("{{{}}}", told.collect::<Vec<_>>().join(","))
    }
}

impl HeldQuestion {
    pub(super) fn new(id: String, request: String, place: Option<QuestionPlace>) -> Self {
        Self { key: String::new(), id, request, is_told: false, _place: place.map(Arc::new) }
    }

    /// Returns true if its server waits for an answer.
    pub(super) fn is_waited_for(&self) -> bool {
        !self.id.is_empty()
    }
}

impl HeldCalls {
    /// Holds a call. Returns its number, and the oldest one if there are too many.
    pub(super) fn put(&self, call: HeldCall) -> (u64, Option<HeldCall>) {
        self.0.lock().calls.put(call)
    }

    pub(super) fn take(&self, number: u64) -> Option<HeldCall> {
        self.0.lock().calls.take(number)
    }

    /// Changes a call that is held; `None` if it is not.
    pub(super) fn change<R>(
        &self,
        number: u64,
        change: impl FnOnce(&mut HeldCall) -> R,
    ) -> Option<R> {
        self.0.lock().calls.get_mut(number).map(change)
    }

    /// Forgets a question that its server has given up. Returns true if a call is held for it.
    pub(super) fn forget(&self, upstream: usize, id: &str) -> bool {
        let mut held = self.0.lock();
        held.early.retain(|early| early.upstream != upstream || early.question.id != id);
        let of_it = held.calls.iter_mut().filter(|call| call.upstream == upstream);
        let forgotten = of_it.map(|call| {
            let before = call.questions.len();
            call.questions.retain(|question| question.id != id);
            before - call.questions.len()
        });
        forgotten.sum::<usize>() > 0
    }

    /// Keeps a question until a request of the client can carry it. False if there are too many.
    pub(super) fn put_early(&self, question: EarlyQuestion) -> bool {
        let mut held = self.0.lock();
        let of_it = held.early.iter().filter(|early| early.upstream == question.upstream);
        if of_it.count() >= MOST_QUESTIONS {
            return false;
        }
        held.early.push(question);
        true
    }

    /// Takes the early questions of a server that `is_taken` is true for.
    pub(super) fn take_early(
        &self,
        upstream: usize,
        mut is_taken: impl FnMut(&EarlyQuestion) -> bool,
    ) -> Vec<EarlyQuestion> {
        let mut held = self.0.lock();
        let is_it = |early: &mut EarlyQuestion| early.upstream == upstream && is_taken(early);
        held.early.extract_if(.., is_it).collect()
    }

    /// Notes that a server waits for no answer any more.
    pub(super) fn forget_all(&self, upstream: usize) {
        let mut held = self.0.lock();
        for call in held.calls.iter_mut().filter(|call| call.upstream == upstream) {
            call.questions.iter_mut().for_each(|question| question.id.clear());
        }
        held.early.retain(|early| early.upstream != upstream);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(id: &str) -> HeldQuestion {
        HeldQuestion::new(id.to_owned(), format!("\"method\":\"m{id}\""), None)
    }

    #[test]
    fn questions_have_keys_and_are_told_once_more_until_answered() {
        let mut call = HeldCall::new(0, 7);
        assert!(call.add(question("1")) && call.add(question("2")));
        assert_eq!(call.tell(), r#"{"q1":{"method":"m1"},"q2":{"method":"m2"}}"#);
        assert!(call.is_told && call.questions.iter().all(|question| question.is_told));
        for n in 2..MOST_QUESTIONS {
            assert!(call.add(question(&n.to_string())), "{n}");
        }
        assert!(!call.add(question("x")));
    }

    #[test]
    fn a_call_is_taken_once_and_the_oldest_goes_first() {
        let held = HeldCalls::default();
        for n in 0..MOST as u64 {
            assert!(held.put(HeldCall::new(0, n)).1.is_none());
        }
        let (number, oldest) = held.put(HeldCall::new(0, 999));
        assert_eq!(oldest.map(|call| call.request), Some(0));
        assert_eq!(held.take(number).map(|call| call.request), Some(999));
        assert!(held.take(number).is_none());
        assert!(held.change(number, |_| ()).is_none());
    }

    #[test]
    fn what_a_server_gives_up_is_forgotten() {
        let held = HeldCalls::default();
        let mut call = HeldCall::new(1, 7);
        call.add(question("1"));
        let (number, _) = held.put(call);
        let early =
            |upstream, id| EarlyQuestion { upstream, ask: Ask::Roots, question: question(id) };
        assert!(held.put_early(early(1, "2")) && held.put_early(early(2, "1")));
        assert!(!held.forget(0, "1"));
        assert!(held.forget(1, "1") && !held.forget(1, "2"), "for one of them a call is held");
        assert_eq!(held.change(number, |call| call.questions.len()), Some(0));
        assert_eq!(held.take_early(1, |_| true).len(), 0);
        assert_eq!(held.take_early(2, |_| false).len(), 0);
        assert_eq!(held.take_early(2, |_| true).len(), 1);
    }

    #[test]
    fn a_server_that_has_ended_waits_for_nothing() {
        let held = HeldCalls::default();
        let mut call = HeldCall::new(1, 7);
        call.add(question("1"));
        let (number, _) = held.put(call);
        held.put_early(EarlyQuestion { upstream: 1, ask: Ask::Roots, question: question("2") });
        held.forget_all(1);
        let waits = |call: &mut HeldCall| call.questions[0].is_waited_for();
        assert_eq!(held.change(number, waits), Some(false));
        assert!(held.take_early(1, |_| true).is_empty());
    }

    #[test]
    fn early_questions_are_bounded_for_each_server() {
        let held = HeldCalls::default();
        let early = |upstream| EarlyQuestion { upstream, ask: Ask::Roots, question: question("1") };
        for _ in 0..MOST_QUESTIONS {
            assert!(held.put_early(early(1)));
        }
        assert!(!held.put_early(early(1)));
        assert!(held.put_early(early(2)));
    }
}
