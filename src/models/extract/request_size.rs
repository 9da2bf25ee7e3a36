//! The estimated size of a request, in tokens.

use crate::extract::{ModelRequest, Turn};
use ctxfs_core::materialize::token_count;

/// Tokens that endpoints add around each turn, for its role and its ends: 3 to 5 of them in the
/// templates of chat models.
const TURN: u64 = 5;

/// Estimates the tokens of a request.
pub(super) fn estimate(request: &ModelRequest) -> u64 {
    let tools = request.tools.iter().map(|tool| {
        of(&tool.name) + of(&tool.description) + of(&tool.parameters.to_string()) + TURN
    });
    let schema = request.schema.as_ref().map_or(0, |schema| of(&schema.to_string()));
    let turns = request.turns.iter().map(|turn| of_turn(turn) + TURN);
    of(&request.system) + TURN + tools.sum::<u64>() + schema + turns.sum::<u64>()
}

/// Estimates the tokens of a context that a request and its reply need.
pub(super) fn needed(request: &ModelRequest) -> u64 {
    estimate(request) + request.max_output_tokens
}

fn of_turn(turn: &Turn) -> u64 {
    match turn {
        Turn::User(text) => of(text),
        Turn::Model { text, calls } => {
            let calls = calls.iter().map(|call| of(&call.name) + of(&call.arguments) + TURN);
            of(text) + calls.sum::<u64>()
        }
        Turn::Results(results) => results.iter().map(|result| of(&result.text) + TURN).sum(),
    }
}

fn of(text: &str) -> u64 {
    token_count(text.as_bytes())
}
