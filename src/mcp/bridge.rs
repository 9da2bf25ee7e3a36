//! Between revisions: where a client and a server speak different ones, what one says becomes what
//! the other understands. Where they speak the same, nothing here is asked but whether they do.
//!
//! | module | content |
//! |---|---|
//! | `era` | the two ways in which revisions work |
//! | `client_said`, `introduction` | what each side says of itself |
//! | `request_meta`, `result`, `inputs`, `filter` | what one message becomes |
//! | `meeting` | which revisions a server speaks |
//! | `crossing` | what is noted of a request on its way |
//! | `rounds` | old clients: what a new server needs is put to them, and the call is made again |
//! | `asking`, `held`, `holding` | new clients: a call ends with what an old server asks, and is held |
//! | `question_room` | the memory for what servers ask |
//! | `going_on` | it goes on when the client makes it again |
//! | `listening` | notifications of new servers |
//! | `listeners` | notifications for new clients |
//! | `requests`, `answered`, `notices` | what else changes on the way |

mod answered;
mod asking;
pub(super) mod client_said;
pub(super) mod crossing;
pub(super) mod era;
pub(super) mod filter;
mod going_on;
mod held;
mod holding;
mod inputs;
mod introduction;
mod listeners;
mod listening;
mod meeting;
mod notices;
mod question_room;
pub(super) mod request_meta;
mod requests;
mod result;
mod rounds;

use parking_lot::Mutex;
use serde_json::value::RawValue;

use crate::held_state::HeldKey;

pub(super) use answered::{answered, passed};
pub(super) use asking::{asked, takes_requests};
pub(super) use holding::SETTLE;
pub(super) use inputs::{InputRequest, InputResponse, repeated};
pub(super) use introduction::Introduction;
pub(super) use listeners::changed;
pub(super) use listening::listen_to;
pub(super) use meeting::{introduce, is_to_meet, meet};
pub(super) use notices::{changes_notifications, is_dropped, noticed};
pub(super) use question_room::TOO_MUCH;
pub(super) use requests::{Crossed, answer, answers, cross, numbered, sent};
pub(super) use result::{first, with_first};
pub(super) use rounds::{check_round, input_required, put};

use client_said::{ClientSaid, revision_of};
use era::{Between, Era, KnownEra};
use held::HeldCalls;
use listeners::Listeners;
use listening::Listening;
use question_room::{QuestionPlace, QuestionRoom};

/// The requests of clients that 2026-07-28 has taken out.
const TAKEN_OUT: [&str; 5] =
    ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"];

/// The state of a session between revisions.
pub(super) struct Bridge {
    client: KnownEra,
    /// True if the transport tells the era of the client, whatever it sends.
    is_given: bool,
    /// The words of the client about itself, once it has said any.
    said: Mutex<Option<ClientSaid>>,
    /// The words of the only server, if the gateway asked it.
    introduction: Mutex<Option<Introduction>>,
    meetings: meeting::Meetings,
    key: HeldKey,
    held: HeldCalls,
    questions: QuestionRoom,
    listening: Vec<Listening>,
    listeners: Listeners,
}

impl Bridge {
    /// Returns the bridge of a session with some number of servers. `client` is the era of its
    /// clients, where the transport tells it.
    pub(super) fn new(random: [u8; 32], servers: usize, client: Option<Era>) -> Self {
        let era = KnownEra::default();
        if let Some(client) = client {
            era.set(client);
        }
        Self {
            client: era,
            is_given: client.is_some(),
            said: Mutex::default(),
            introduction: Mutex::default(),
            meetings: meeting::Meetings::default(),
            key: HeldKey::new(random),
            held: HeldCalls::default(),
            questions: QuestionRoom::default(),
            listening: (0..servers).map(|_| Listening::default()).collect(),
            listeners: Listeners::default(),
        }
    }

    /// Notes what a request says of the client, as long as that is not known.
    pub(super) fn hear(&self, method: &str, params: Option<&RawValue>) {
        let mut said = self.said.lock();
        if self.is_given {
            said.get_or_insert_with(|| ClientSaid::of_request(params));
        } else if method == "initialize" {
            *said = Some(ClientSaid::of_initialize(params));
            self.client.set(Era::Legacy);
        } else if said.is_none() && (method == "server/discover" || revision_of(params).is_some()) {
            *said = Some(ClientSaid::of_request(params));
            self.client.set(Era::Modern);
        }
    }

    /// Returns true for a request that the revision of the client has taken out. A client that is
    /// not bound to a revision may go back to `initialize`.
    pub(super) fn is_taken_out(&self, method: &str) -> bool {
        self.is_given && TAKEN_OUT.contains(&method)
    }

    /// Returns a place for questions of so many bytes, if there is one.
    pub(super) fn place(&self, bytes: u64) -> Option<QuestionPlace> {
        self.questions.place(bytes)
    }

    /// Returns the revisions that the client speaks, once that is known.
    pub(super) fn client(&self) -> Option<Era> {
        self.client.get()
    }

    /// Returns what the client said of itself first.
    pub(super) fn said(&self) -> ClientSaid {
        self.said.lock().clone().unwrap_or_default()
    }

    /// Returns how the client and a server of an era differ, if they do.
    pub(super) fn between(&self, server: Option<Era>) -> Option<Between> {
        Between::of(self.client(), server)
    }

    /// Returns a result of the gateway's own as the client has it.
    pub(super) fn own_result(&self, result: String) -> String {
        let is_modern = self.client() == Some(Era::Modern);
        if is_modern { with_first(first(false), &result) } else { result }
    }
}
