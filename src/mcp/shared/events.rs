//! The queue of what a shared server says to one session, bounded by number and bytes.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::line_reader::Line;

/// The most events.
const EVENTS: usize = 1024;
/// The most bytes in memory.
const BYTES: usize = 4 << 20;
/// The least room that a line takes.
const LEAST: usize = 256;

/// Something that happened for a session.
pub(super) enum Event {
    /// A line of the server, with the session's own ids, and its room.
    Line(Line, OwnedSemaphorePermit),
    /// Nobody answers a request any more.
    Lost { number: u64, why: String },
    /// The server has ended, with these requests.
    Failed { numbers: Vec<u64>, why: String },
}

pub(super) type Events = mpsc::Receiver<Event>;

/// The end where events are put in.
pub(super) struct EventSender {
    events: mpsc::Sender<Event>,
    room: Arc<Semaphore>,
}

pub(super) fn queue() -> (EventSender, Events) {
    let (events, received) = mpsc::channel(EVENTS);
    (EventSender { events, room: Arc::new(Semaphore::new(BYTES)) }, received)
}

impl EventSender {
    /// Puts a line in that answers nothing. Half of the room is kept for answers.
    pub(super) fn send_notice(&self, line: Line) -> bool {
        let has_room = self.room.available_permits() > BYTES / 2;
        has_room && self.events.capacity() > EVENTS / 2 && self.send_line(line)
    }

    /// Puts a line in. Returns false if there is no room.
    pub(super) fn send_line(&self, line: Line) -> bool {
        let held = match &line {
            Line::Message(message) => message.text().len(),
            Line::Broken(line) => line.shown.len(),
        };
        let room = Arc::clone(&self.room).try_acquire_many_owned(held.clamp(LEAST, BYTES) as u32);
        room.is_ok_and(|room| self.send(Event::Line(line, room)))
    }

    /// Puts an event in. Returns false if there are too many.
    pub(super) fn send(&self, event: Event) -> bool {
        self.events.try_send(event).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Message;

    fn line(bytes: usize) -> Line {
        Line::Message(Message::whole("x".repeat(bytes)))
    }

    #[test]
    fn notices_leave_room_for_answers() {
        for bytes in [1, 100_000] {
            let (sender, events) = queue();
            let notices = (0..EVENTS).take_while(|_| sender.send_notice(line(bytes))).count();
            assert!(notices >= BYTES / 2 / 100_000, "{notices}");
            let answers = (0..EVENTS).take_while(|_| sender.send_line(line(bytes))).count();
            assert!(answers + 1 >= notices, "{answers} after {notices}");
            drop(events);
        }
    }
}
