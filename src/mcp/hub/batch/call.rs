//! Makes one call of a batch and stores its result.

use std::ops::Range;
use std::sync::Arc;

use serde_json::{Value, to_value};
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

use crate::context::extraction::{self, QuestionMonitor};
use crate::hub::batch::{FinishedCall, ReadyCall};
use crate::index::{Index, Tool};
use crate::json_rpc::Envelope;
use crate::message::Message;
use crate::pending::{BatchInputs, Carrier, CarryMode, QuestionReply, ToolCall, Translation};
use crate::permission::rules::Risk;
use crate::raw_object::quoted;
use crate::relay::Relay;
use crate::results::{self, StoredPart};
use crate::revision::ClientProfile;
use crate::revision::translation::{InputRequest, InputResponse};
use crate::server_request::{self, OwnRequest};
use crate::upstream::{Upstream, rounds};

impl FinishedCall {
    pub(crate) fn failed(note: String) -> Self {
        Self { failed: true, parts: Vec::new(), note: Some(note) }
    }

    pub(crate) fn stored(
        relay: &Relay,
        call: &ToolCall,
        message: &Message,
        range: &Range<usize>,
    ) -> Self {
        match results::store_all(&relay.shelf, call, message, range) {
            Ok(stored) => Self { failed: stored.failed, parts: stored.parts, note: None },
            Err(why) => not_stored(message, range, &why),
        }
    }
}

/// Passes a server's requests for input to the reply of the batch, for a client that accepts no
/// requests.
pub(crate) struct CallInputs {
    pub(crate) profile: ClientProfile,
    pub(crate) inputs: BatchInputs,
}

impl CallInputs {
    async fn answers(
        &self,
        relay: &Relay,
        requests: Vec<InputRequest>,
    ) -> Result<Vec<InputResponse>, String> {
        let bytes = requests.iter().map(|request| request.members().len() as u64).sum();
        let _room = relay.client.question_room(bytes).ok_or(rounds::TOO_MUCH)?;
        let asked = requests.into_iter().map(|request| {
            let (reply, replied) = oneshot::channel();
            self.inputs.ask(request.members(), reply);
            (request.key, replied)
        });
        let mut responses = Vec::new();
        for (key, replied) in asked.collect::<Vec<_>>() {
            match replied.await {
                Ok(QuestionReply::Result(result)) => responses.push((key, result)),
                _ => return Err("asked, and nobody answered".to_owned()),
            }
        }
        Ok(responses)
    }
}

pub(crate) async fn make(
    relay: Arc<Relay>,
    call: Arc<ReadyCall>,
    inputs: Option<CallInputs>,
) -> FinishedCall {
    let Some(upstream) = call.server.and_then(|server| relay.upstreams.get(server)) else {
        return FinishedCall::failed("its server is gone".to_owned());
    };
    let record = call.record();
    let message = match asked(&relay, upstream, &call, inputs.as_ref()).await {
        Ok(message) => message,
        Err(why) => {
            relay.count(&record, true, 0, 0);
            return FinishedCall::failed(format!("the server `{}` {why}", upstream.name));
        }
    };
    let Ok(turn) = Arc::clone(&relay.work).acquire_owned().await else {
        return FinishedCall::failed("the gateway ends".to_owned());
    };
    let shared = Arc::clone(&relay);
    let stored = spawn_blocking(move || store(&shared, &record, &message)).await;
    drop(turn);
    stored.unwrap_or_else(|_| FinishedCall::failed("a fault of the gateway".to_owned()))
}

/// Calls a server, and repeats the call with input if the server asks for it. The error text is a
/// predicate whose subject is the server.
async fn asked(
    relay: &Arc<Relay>,
    upstream: &Upstream,
    call: &ReadyCall,
    inputs: Option<&CallInputs>,
) -> Result<Message, String> {
    let name = quoted(&call.tool.tool);
    let mut more = String::new();
    for round in 1.. {
        let arguments = &call.arguments;
        let parameters = format!("{{\"arguments\":{arguments},\"name\":{name}{more}}}");
        let mut own = OwnRequest::new(upstream, "tools/call", &parameters);
        if let Some(inputs) = inputs {
            own.translation = Some(Translation::Carrier(Carrier {
                abilities: inputs.profile.abilities(),
                logs: false,
                is_kept: false,
                token: None,
                carries: CarryMode::Batch(inputs.inputs.clone()),
            }));
            own.meta = own.meta.map(|_| inputs.profile.meta());
        }
        let message = server_request::open(upstream, own)?.answer().await?;
        let client = inputs.map_or_else(|| relay.client.profile(), |inputs| inputs.profile.clone());
        let ask = |requests| async move {
            match inputs {
                Some(inputs) => inputs.answers(relay, requests).await,
                None => rounds::put_to_client(relay, requests).await,
            }
        };
        match rounds::input(round, &message, client.abilities(), ask).await? {
            Some(members) => more = format!(",{members}"),
            None => return Ok(message),
        }
    }
    Err("asked without end".to_owned())
}

fn store(relay: &Relay, call: &ToolCall, message: &Message) -> FinishedCall {
    let made = match Envelope::of(message) {
        Err(_) => FinishedCall::failed("the answer is no message".to_owned()),
        Ok(envelope) => match envelope.result() {
            None => FinishedCall::failed(server_request::refusal(message, "tools/call")),
            Some(result) => FinishedCall::stored(relay, call, message, &result),
        },
    };
    // The bytes sent to the client are counted with the reply.
    relay.count(call, made.failed, message.length(), 0);
    made
}

fn not_stored(message: &Message, result: &Range<usize>, why: &str) -> FinishedCall {
    let why = format!("[ctxfs] The result is not stored: {why}");
    let texts = if message.has_holes() { None } else { results::texts(message, result) };
    let Some(text) = texts else { return FinishedCall::failed(why) };
    let hint = format!("{why}; what is missing of its {} bytes is lost", text.len());
    let summary = format!("{hint}\n{text}");
    let whole = format!("{why}\n{text}");
    let part = StoredPart { reference: None, text: Some(whole), summary, hint };
    FinishedCall { failed: false, parts: vec![part], note: None }
}

pub(crate) fn own_index() -> Index {
    let tool = Tool {
        name: extraction::NAME.to_owned(),
        true_name: extraction::true_name(),
        risk: Risk::Read,
        listed: to_value(extraction::tool()).unwrap_or_default(),
    };
    Index::new([tool])
}

pub(crate) fn is_own(call: &Value) -> bool {
    call["name"].as_str().is_some_and(|name| name.trim() == extraction::NAME)
}

/// Answers a question about a stored output. Dropping the future stops the language model's calls.
pub(crate) async fn make_own(relay: Arc<Relay>, call: Arc<ReadyCall>) -> FinishedCall {
    let record = call.record();
    let Ok(turn) = Arc::clone(&relay.questions).acquire_owned().await else {
        return FinishedCall::failed("the gateway ends".to_owned());
    };
    let waiting = Arc::new(());
    let waits = Arc::downgrade(&waiting);
    let answered = spawn_blocking(move || {
        let stopped = || waits.strong_count() == 0;
        let made = answer_question(&relay, &call.arguments, &record, &stopped);
        drop(turn);
        made
    });
    let made = answered.await;
    drop(waiting);
    made.unwrap_or_else(|_| FinishedCall::failed("a fault of the gateway".to_owned()))
}

fn answer_question(
    relay: &Relay,
    arguments: &Value,
    record: &ToolCall,
    stopped: &(dyn Fn() -> bool + Sync),
) -> FinishedCall {
    let waiter = QuestionMonitor { stopped, tell: &|_| () };
    let answered =
        relay.shelf.open().and_then(|open| extraction::answer(&open, arguments, &waiter));
    let made = match answered {
        Err(why) => FinishedCall::failed(why),
        Ok(result) => {
            let message = Message::whole(result.to_string());
            let range = 0..message.text().len();
            FinishedCall::stored(relay, record, &message, &range)
        }
    };
    relay.count(record, made.failed, 0, 0);
    made
}
