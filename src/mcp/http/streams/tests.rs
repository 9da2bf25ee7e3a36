use super::*;
use crate::queue;

struct Fixture {
    streams: Streams,
    sender: queue::Sender,
    receiver: queue::Receiver,
    hang_up: Arc<Notify>,
}

impl Fixture {
    fn new(is_shared: bool) -> Self {
        let (sender, receiver) = queue::queue();
        Self { streams: Streams::new(is_shared), sender, receiver, hang_up: Arc::default() }
    }

    fn open(&self, id: &str, token: Option<&str>) -> Result<(StreamEvents, u64), String> {
        let asked = StreamRequest { id: id.to_owned(), token: token.map(str::to_owned) };
        let (events, numbers) = self.streams.open(vec![asked], &self.hang_up)?;
        Ok((events, numbers[0]))
    }

    fn deliver(&mut self, text: &str) -> Delivered {
        self.sender.try_send(text.as_bytes().to_vec()).unwrap();
        self.streams.deliver(self.receiver.try_recv().unwrap())
    }
}

fn next(events: &mut StreamEvents) -> Option<String> {
    let event = events.receiver.try_recv().ok()?;
    Some(event.queued.message.outline().text().to_owned())
}

fn ended(events: &mut StreamEvents) -> bool {
    events.receiver.try_recv().is_err_and(|error| error == mpsc::error::TryRecvError::Disconnected)
}

#[test]
fn answers_get_the_ids_of_their_clients() {
    let mut fixture = Fixture::new(true);
    let (mut one, first) = fixture.open("\"x\"", Some("\"t\"")).unwrap();
    let (mut two, second) = fixture.open("\"x\"", Some("\"t\"")).unwrap();
    fixture.deliver(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{second},"progress":1}}}}"#
    ));
    fixture.deliver(&format!(r#"{{"jsonrpc":"2.0","id":{second},"result":{{}}}}"#));
    fixture.deliver(&format!(r#"{{"jsonrpc":"2.0","id":{first},"error":{{"code":-32601}}}}"#));
    assert_eq!(
        next(&mut two).unwrap(),
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1}}"#
    );
    assert_eq!(next(&mut two).unwrap(), r#"{"jsonrpc":"2.0","id":"x","result":{}}"#);
    assert!(ended(&mut two));
    let event = one.receiver.try_recv().unwrap();
    assert!(event.is_answer && event.code == Some(-32601));
    assert!(fixture.streams.is_empty());
}

#[test]
fn an_id_that_is_waited_for_is_refused() {
    let fixture = Fixture::new(false);
    let (_open, _) = fixture.open("1", None).unwrap();
    assert!(fixture.open("1", None).is_err());
    assert!(fixture.open("2", None).is_ok());
}

#[test]
fn what_is_about_no_request_goes_to_the_listener() {
    let mut fixture = Fixture::new(false);
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    let log = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"x"}}"#;
    let question = r#"{"jsonrpc":"2.0","id":5,"method":"sampling/createMessage","params":{}}"#;
    // No listener is open yet.
    fixture.deliver(changed);
    let mut listener = fixture.streams.listen(&fixture.hang_up);
    assert_eq!(next(&mut listener).unwrap(), changed);
    fixture.deliver(log);
    assert_eq!(next(&mut listener).unwrap(), log);
    // Messages that may belong to a call go to the stream of the call.
    let (mut call, _) = fixture.open("1", None).unwrap();
    for text in [log, question, changed] {
        assert_eq!(fixture.deliver(text), Delivered::Done);
    }
    assert_eq!(next(&mut call).unwrap(), log);
    assert_eq!(next(&mut call).unwrap(), question);
    assert_eq!(next(&mut listener).unwrap(), changed);
    // A newer listener replaces the older one.
    let mut newer = fixture.streams.listen(&fixture.hang_up);
    assert!(ended(&mut listener));
    fixture.deliver(changed);
    assert_eq!(next(&mut newer).unwrap(), changed);
}

#[test]
fn clients_that_share_a_session_get_nothing_of_others() {
    let mut fixture = Fixture::new(true);
    let log = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"x"}}"#;
    let question = r#"{"jsonrpc":"2.0","id":5,"method":"roots/list"}"#;
    let (mut one, _) = fixture.open("1", None).unwrap();
    assert_eq!(fixture.deliver(log), Delivered::Done);
    assert_eq!(next(&mut one).unwrap(), log);
    let (mut two, number) = fixture.open("1", None).unwrap();
    fixture.deliver(log);
    assert!(next(&mut one).is_none() && next(&mut two).is_none());
    assert_eq!(fixture.deliver(question), Delivered::Refused("5".to_owned()));
    let listened = r#"{"jsonrpc":"2.0","method":"notifications/x","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":N}}}"#;
    fixture.deliver(&listened.replace('N', &number.to_string()));
    assert_eq!(next(&mut two).unwrap(), listened.replace('N', "1"));
}

#[test]
fn a_cancelled_request_ends_its_stream() {
    let fixture = Fixture::new(false);
    let (mut open, number) = fixture.open("\"a\"", None).unwrap();
    assert_eq!(fixture.streams.cancelled("\"b\""), None);
    assert_eq!(fixture.streams.cancelled("\"a\""), Some(number));
    assert!(ended(&mut open));
    let (open, number) = fixture.open("7", None).unwrap();
    assert_eq!(fixture.streams.closed(open.number), [number]);
}

#[test]
fn what_waits_for_a_listener_is_bounded() {
    let mut fixture = Fixture::new(false);
    for number in 0..2 * MAX_HELD {
        fixture.deliver(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/{number}"}}"#));
    }
    let mut listener = fixture.streams.listen(&fixture.hang_up);
    assert!(next(&mut listener).unwrap().contains(&format!("/{MAX_HELD}\"")));
    fixture.streams.close();
    assert!(ended(&mut fixture.streams.listen(&fixture.hang_up)));
}
