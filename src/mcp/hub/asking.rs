//! Asking a person about calls: through the client, in whatever way it can.

use std::sync::Arc;

use serde_json::Value;

use crate::mcp::client_question;
use crate::mcp::hub::Hub;
use crate::mcp::own;
use crate::mcp::permission::Answer;
use crate::mcp::relay::Relay;

/// The way in which a client can put a question to a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Channel {
    /// A request to the client, `elicitation/create`.
    Elicitation,
    /// A result that asks, `input_required`, after which the call comes again.
    InputRequired,
    /// None.
    Nobody,
}

impl Channel {
    /// Returns the way of the client that sent a request with `params`.
    pub(super) fn of(hub: &Hub, params: &Value) -> Self {
        if own::is_modern(params) {
            let said = &params["_meta"]["io.modelcontextprotocol/clientCapabilities"];
            return if has_forms(said) { Self::InputRequired } else { Self::Nobody };
        }
        let parameters = hub.session.lock().parameters.clone().unwrap_or_default();
        let said: Value = serde_json::from_str(&parameters).unwrap_or_default();
        if has_forms(&said["capabilities"]) { Self::Elicitation } else { Self::Nobody }
    }
}

/// Returns true if a client can show forms: without a word on modes, it can.
fn has_forms(capabilities: &Value) -> bool {
    capabilities["elicitation"]
        .as_object()
        .is_some_and(|modes| modes.contains_key("form") || !modes.contains_key("url"))
}

/// Puts a question to the client, and waits for the answer. If it is dropped before, the client is
/// told so.
pub(super) async fn ask(relay: Arc<Relay>, parameters: Value) -> Answer {
    let compose = |id: u64| {
        let request = serde_json::json!({
            "jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": parameters,
        });
        request.to_string().into_bytes()
    };
    let Some(answer) = client_question::ask(&relay, compose).await else {
        // The client is gone.
        return Answer::No;
    };
    let answer: Value = serde_json::from_str(answer.text()).unwrap_or_default();
    Answer::of_result(&answer["result"])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_client_shows_forms_unless_it_has_other_modes_alone() {
        for (capabilities, expected) in [
            (json!({"elicitation": {}}), true),
            (json!({"elicitation": {"form": {}}}), true),
            (json!({"elicitation": {"form": {}, "url": {}}}), true),
            (json!({"elicitation": {"url": {}}}), false),
            (json!({"elicitation": true}), false),
            (json!({"sampling": {}}), false),
            (json!(null), false),
        ] {
            assert_eq!(has_forms(&capabilities), expected, "{capabilities}");
        }
    }
}
