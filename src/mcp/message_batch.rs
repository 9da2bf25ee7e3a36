//! Several messages in one array, as the revision 2025-03-26 has them.

use serde_json::value::RawValue;

use crate::envelope::EnvelopeError;
use crate::message::Message;
use crate::raw_object::elements;

/// The most bytes of an array.
const MOST_BYTES: usize = 32 << 20;

/// Returns true for an array, which is no message itself.
pub(super) fn is_batch(message: &Message) -> bool {
    message.text().trim_start().starts_with('[')
}

/// Returns the messages in an array of a server, at least one. An array of other things is none.
pub(super) fn messages_of_server(batch: &Message) -> Result<Vec<Message>, EnvelopeError> {
    if !batch.text().contains("\"jsonrpc\"") {
        return Err(EnvelopeError::Shape("a batch has messages"));
    }
    let messages = messages(batch)?;
    Ok(messages.into_iter().filter(|message| !is_batch(message)).collect())
}

/// Returns the messages of an array, at least one.
pub(super) fn messages(batch: &Message) -> Result<Vec<Message>, EnvelopeError> {
    let batch = batch.clone().filled(MOST_BYTES);
    let batch = batch.map_err(|_| EnvelopeError::Shape("a batch has at most 32 MiB"))?;
    let raw: &RawValue = serde_json::from_str(batch.text())
        .map_err(|error| EnvelopeError::Json(error.to_string()))?;
    let messages = elements(raw).filter(|messages| !messages.is_empty());
    let messages = messages.ok_or(EnvelopeError::Shape("a batch has messages"))?;
    Ok(messages.into_iter().map(|one| Message::whole(one.get().to_owned())).collect())
}
