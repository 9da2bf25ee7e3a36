//! The messages in the bodies of requests.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use hyper::body::Incoming;
use serde_json::value::RawValue;
use tokio::io::AsyncReadExt as _;

use crate::mcp::body_reader::BodyReader;
use crate::mcp::envelope::EnvelopeError;
use crate::mcp::http::refusal::Refusal;
use crate::mcp::line_reader::Line;
use crate::mcp::line_reader::LineReader;
use crate::mcp::message::Message;
use crate::mcp::one_line::OneLine;
use crate::mcp::parsed::Parsed;
use crate::mcp::raw_object::elements;
use crate::mcp::relay::INVALID_REQUEST;
use crate::mcp::relay::PARSE_ERROR;
use crate::mcp::shelf::LazyShelf;

/// The pause after which the rest of a body is not waited for, and the time for all of it.
const PAUSE: Duration = Duration::from_secs(30);
const WHOLE_BODY: Duration = Duration::from_mins(10);

/// Reads the body of a request, which is one message. A long one goes to a file of `shelf`.
pub(super) async fn read(
    body: Incoming,
    shelf: Option<&Arc<LazyShelf>>,
    most: u64,
) -> Result<Message, Refusal> {
    let reader = OneLine(BodyReader::bounded(body, most, PAUSE, WHOLE_BODY));
    let line = match shelf {
        Some(shelf) => LineReader::new(reader, Arc::clone(shelf), most).next(&()).await,
        None => in_memory(reader).await,
    };
    match line.map_err(|error| unread(&error, most))? {
        Some(Line::Message(message)) => Ok(message),
        Some(Line::Broken(line)) => {
            let text = format!("the message cannot be taken: {}", line.why);
            Err(Refusal::bad(PARSE_ERROR, text).of_request(line.id.as_deref()))
        }
        None => Err(Refusal::bad(PARSE_ERROR, "there is no message")),
    }
}

/// Reads a short body.
async fn in_memory(mut reader: OneLine<BodyReader<Incoming>>) -> io::Result<Option<Line>> {
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).await?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(Some(Line::Message(Message::whole(text))))
}

fn unread(error: &io::Error, most: u64) -> Refusal {
    let (status, text) = match error.kind() {
        io::ErrorKind::FileTooLarge => {
            let text = format!("the message is longer than {most} bytes");
            (StatusCode::PAYLOAD_TOO_LARGE, text)
        }
        io::ErrorKind::TimedOut => {
            (StatusCode::REQUEST_TIMEOUT, "the message did not come in time".to_owned())
        }
        _ => (StatusCode::BAD_REQUEST, format!("the message did not come: {error}")),
    };
    Refusal::new(status, text)
}

pub(super) fn parsed(message: Message) -> Result<Parsed, Refusal> {
    Parsed::of(message).map_err(|error| match error {
        EnvelopeError::Json(why) => Refusal::bad(PARSE_ERROR, why),
        EnvelopeError::Shape(why) => Refusal::bad(INVALID_REQUEST, why),
    })
}

/// Returns the messages of a body: one, or a batch as the revision 2025-03-26 has them.
pub(super) fn all_parsed(message: Message) -> Result<Vec<Parsed>, Refusal> {
    if !message.text().trim_start().starts_with('[') || message.has_holes() {
        return Ok(vec![parsed(message)?]);
    }
    let raw: Result<&RawValue, _> = serde_json::from_str(message.text());
    let raw = raw.map_err(|error| Refusal::bad(PARSE_ERROR, error.to_string()))?;
    let messages = elements(raw).filter(|messages| !messages.is_empty());
    let messages = messages.ok_or_else(|| Refusal::bad(INVALID_REQUEST, "a batch has messages"))?;
    messages.into_iter().map(|one| parsed(Message::whole(one.get().to_owned()))).collect()
}
