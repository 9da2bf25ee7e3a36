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
//! | `going_on`, `held_state` | it goes on when the client makes it again |
//! | `listening` | notifications of new servers |
//! | `listeners` | notifications for new clients |
//! | `requests`, `answered`, `notices` | what else changes on the way |

mod answered;
mod asking;
pub(super) mod client_said;
pub(super) mod crossing;
pub(super) mod era;
mod filter;
mod going_on;
mod held;
mod held_state;
mod holding;
mod inputs;
mod introduction;
mod listeners;
mod listening;
mod meeting;
mod notices;
pub(super) mod request_meta;
mod requests;
mod result;
mod rounds;

use parking_lot::Mutex;
use serde_json::value::RawValue;

pub(super) use answered::answered;
pub(super) use asking::asked;
pub(super) use asking::takes_requests;
pub(super) use inputs::InputRequest;
pub(super) use inputs::InputResponse;
pub(super) use inputs::repeated;
pub(super) use introduction::Introduction;
pub(super) use listeners::changed;
pub(super) use listening::listen_to;
pub(super) use meeting::introduce;
pub(super) use meeting::is_to_meet;
pub(super) use meeting::meet;
pub(super) use notices::changes_notifications;
pub(super) use notices::is_dropped;
pub(super) use notices::noticed;
pub(super) use requests::Sent;
pub(super) use requests::answer;
pub(super) use requests::answers;
pub(super) use requests::cross;
pub(super) use requests::numbered;
pub(super) use requests::sent;
pub(super) use rounds::check_round;
pub(super) use rounds::input_required;
pub(super) use rounds::put;

use client_said::ClientSaid;
use client_said::revision_of;
use era::Between;
use era::Era;
use era::KnownEra;
use held::HeldCalls;
use listeners::Listeners;
use listening::Listening;

/// The state of a session between revisions.
pub(super) struct Bridge {
    client: KnownEra,
    /// What the client says of itself.
    said: Mutex<ClientSaid>,
    /// What the only server said, if the gateway asked it.
    introduction: Mutex<Option<Introduction>>,
    meetings: meeting::Meetings,
    key: held_state::Key,
    held: HeldCalls,
    listening: Vec<Listening>,
    listeners: Listeners,
}

impl Bridge {
    /// Returns the bridge of a session with some number of servers.
    pub(super) fn new(random: [u8; 32], servers: usize) -> Self {
        Self {
            client: KnownEra::default(),
            said: Mutex::default(),
            introduction: Mutex::default(),
            meetings: meeting::Meetings::default(),
            key: held_state::Key::new(random),
            held: HeldCalls::default(),
            listening: (0..servers).map(|_| Listening::default()).collect(),
            listeners: Listeners::default(),
        }
    }

    /// Notes what a request says of the client, as long as that is not known.
    pub(super) fn hear(&self, method: &str, params: Option<&RawValue>) {
        if method == "initialize" {
            *self.said.lock() = ClientSaid::of_initialize(params);
            self.client.set(Era::Legacy);
        } else if self.client.get().is_none()
            && (method == "server/discover" || revision_of(params).is_some())
        {
            *self.said.lock() = ClientSaid::of_request(params);
            self.client.set(Era::Modern);
        }
    }

    /// Returns the revisions that the client speaks, once that is known.
    pub(super) fn client(&self) -> Option<Era> {
        self.client.get()
    }

    /// Returns what the client said of itself first.
    pub(super) fn said(&self) -> ClientSaid {
        self.said.lock().clone()
    }

    /// Returns how the client and a server of an era differ, if they do.
    pub(super) fn between(&self, server: Option<Era>) -> Option<Between> {
        Between::of(self.client(), server)
    }

    /// Returns a result of the gateway's own, which is not empty, as the client has it.
    pub(super) fn own_result(&self, result: String) -> String {
        let rest = result.strip_prefix('{').filter(|_| self.client() == Some(Era::Modern));
        match rest {
            Some(rest) => format!("{{{}{rest}", result::COMPLETE),
            None => result,
        }
    }
}
