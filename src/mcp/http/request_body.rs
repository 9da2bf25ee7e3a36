//! The messages in the bodies of requests.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use hyper::body::Incoming;
use tokio::io::AsyncReadExt as _;

use crate::body_reader::BodyReader;
use crate::envelope::EnvelopeError;
use crate::http::refusal::Refusal;
use crate::line_reader::{Line, LineReader};
use crate::message::Message;
use crate::message_batch::{is_batch, messages};
use crate::one_line::OneLine;
use crate::parsed::Parsed;
use crate::relay::{INVALID_REQUEST, PARSE_ERROR};
use crate::shelf::LazyShelf;

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
    Parsed::of(message).map_err(|error| refused(&error))
}

fn refused(error: &EnvelopeError) -> Refusal {
    let code = match error {
        EnvelopeError::Json(_) => PARSE_ERROR,
        EnvelopeError::Shape(_) => INVALID_REQUEST,
    };
    Refusal::bad(code, error.to_string())
}

/// Returns the messages of a body: one, or those of a batch.
pub(super) fn all_parsed(message: Message) -> Result<Vec<Parsed>, Refusal> {
    if !is_batch(&message) {
        return Ok(vec![parsed(message)?]);
    }
    messages(&message).map_err(|error| refused(&error))?.into_iter().map(parsed).collect()
}
