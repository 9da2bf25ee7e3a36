//! Lets another process run a look (see the module `look`). That process may write to the store.
//!
//! ```text
//! client                            server
//!   LookRequest: conversation   ->
//!                               <-  LookReply: the outcome
//!                               <-  names of conversations, if any, in pages
//! ```

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, io};

use serde::{Deserialize, Serialize};

use crate::bucket::BucketError;
use crate::channel::Channel;
use crate::remote::look::MOST_CONVERSATIONS;
use crate::remote::process::protocol::{NAMES, WireError};
use crate::remote::{Line, LookOutcome, Looker, RemoteError};
use ctxfs_core::model::Component;

/// Time limit of a look. It includes the identity check of the bucket, waiting for the lock, and
/// some requests.
const PATIENCE: Duration = Duration::from_secs(30);

/// Conversation to look at. If it is `None`, the server lists the conversations.
#[derive(Serialize, Deserialize)]
struct LookRequest {
    at: Option<String>,
}

#[derive(Serialize, Deserialize)]
enum LookReply {
    Heard { is_answered: bool, conversations: Option<usize> },
    Bucket(WireError),
    Failed(String),
}

/// Client for looks. The process to which the [`Line`] connects runs them. A look takes at most
/// half a minute, even if that process hangs, and the size of the answer is limited.
pub struct ProcessLooks(pub Arc<dyn Line>);

impl ProcessLooks {
    fn told(&self, socket: &UnixStream, at: Option<&Component>) -> io::Result<LookResult> {
        let since = Instant::now();
        let mut channel = Channel::new(socket, since + PATIENCE);
        channel.write_document(&LookRequest { at: at.map(Component::to_text) })?;
        let told = channel.read_document().inspect_err(|error: &io::Error| {
            if error.kind() == io::ErrorKind::TimedOut {
                self.0.missed(since);
            }
        })?;
        self.0.heard();
        heard(told, &mut channel)
    }
}

impl fmt::Debug for ProcessLooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessLooks").finish_non_exhaustive()
    }
}

type LookResult = Result<LookOutcome, RemoteError>;

impl Looker for ProcessLooks {
    fn look_now(&self, at: Option<&Component>) -> LookResult {
        let away = |why: String| BucketError::Away { what: "look at other hosts".to_owned(), why };
        let socket = self.0.connect().map_err(away)?;
        let told = self.told(&socket, at);
        told.map_err(|error| away(format!("the process `ctxfs-look` does not answer ({error})")))?
    }

    fn trouble(&self) -> Option<String> {
        self.0.trouble()
    }
}

fn heard(told: LookReply, channel: &mut Channel<'_>) -> io::Result<LookResult> {
    match told {
        LookReply::Heard { is_answered, conversations } => {
            let conversations = conversations.map(|count| names(channel, count)).transpose()?;
            Ok(Ok(LookOutcome { is_answered, conversations }))
        }
        LookReply::Bucket(fault) => Ok(Err(BucketError::from(fault).into())),
        LookReply::Failed(why) => Ok(Err(RemoteError::Looker { why })),
    }
}

fn names(channel: &mut Channel<'_>, count: usize) -> io::Result<Vec<Component>> {
    if count > MOST_CONVERSATIONS {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let (mut all, mut read) = (Vec::new(), 0);
    while read < count {
        let some: Vec<String> = channel.read_document()?;
        if some.len() != NAMES.min(count - read) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        read += some.len();
        all.extend(some.iter().filter_map(|name| Component::from_text(name).ok()));
    }
    Ok(all)
}

/// Runs the look that a client requests over `socket`, and sends the outcome.
pub fn answer_look(looker: &dyn Looker, socket: &UnixStream) -> io::Result<()> {
    let mut channel = Channel::new(socket, Instant::now() + PATIENCE);
    let LookRequest { at } = channel.read_document()?;
    let at = at.map(|text| Component::from_text(&text)).transpose();
    let at = at.map_err(|_| io::ErrorKind::InvalidData)?;
    let (told, names) = outcome(looker.look_now(at.as_ref()));
    channel.extend(Instant::now() + PATIENCE);
    channel.write_document(&told)?;
    for some in names.chunks(NAMES) {
        let some: Vec<String> = some.iter().map(Component::to_text).collect();
        channel.write_document(&some)?;
    }
    Ok(())
}

fn outcome(looked: LookResult) -> (LookReply, Vec<Component>) {
    match looked {
        Ok(LookOutcome { is_answered, conversations }) => {
            let count = conversations.as_ref().map(Vec::len);
            let told = LookReply::Heard { is_answered, conversations: count };
            (told, conversations.unwrap_or_default())
        }
        Err(RemoteError::Bucket(error)) => (LookReply::Bucket(WireError::from(&error)), Vec::new()),
        Err(error) => (LookReply::Failed(error.to_string()), Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::thread;

    use super::*;

    /// A line that calls a function with the other end of the socket.
    struct TestLine(fn(UnixStream));

    impl Line for TestLine {
        fn connect(&self) -> Result<UnixStream, String> {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let end = self.0;
            thread::spawn(move || end(theirs));
            Ok(ours)
        }

        fn heard(&self) {}

        fn missed(&self, _: Instant) {}

        fn trouble(&self) -> Option<String> {
            None
        }
    }

    #[derive(Debug)]
    struct TestLooker;

    fn id(name: &str) -> Component {
        Component::new(name).unwrap()
    }

    impl Looker for TestLooker {
        fn look_now(&self, at: Option<&Component>) -> LookResult {
            match at.map(Component::to_text).as_deref() {
                None => {
                    let all = (0..2500).map(|number| id(&format!("c{number}"))).collect();
                    Ok(LookOutcome { is_answered: true, conversations: Some(all) })
                }
                Some("c7") => Ok(LookOutcome { is_answered: false, conversations: None }),
                Some("away") => {
                    let (what, why) = ("read `x`".to_owned(), "no network".to_owned());
                    Err(BucketError::Away { what, why }.into())
                }
                Some(_) => Err(RemoteError::WriteOnce),
            }
        }
    }

    fn apart() -> ProcessLooks {
        let end = |socket: UnixStream| drop(answer_look(&TestLooker, &socket));
        ProcessLooks(Arc::new(TestLine(end)))
    }

    #[test]
    fn a_look_of_another_process_is_one_of_this() {
        let looks = apart();
        let (here, there) = (TestLooker.look_now(None), looks.look_now(None));
        assert_eq!(here.unwrap(), there.unwrap());
        let heard = looks.look_now(Some(&id("c7"))).unwrap();
        assert_eq!(heard, LookOutcome { is_answered: false, conversations: None });
        let error = looks.look_now(Some(&id("away"))).unwrap_err();
        assert!(error.may_pass() && error.to_string().contains("no network"), "{error}");
        let error = looks.look_now(Some(&id("refused"))).unwrap_err();
        assert!(!error.may_pass(), "{error}");
        assert_eq!(error.to_string(), RemoteError::WriteOnce.to_string());
    }

    #[test]
    fn a_process_that_ends_or_answers_nonsense_is_away() {
        let ends: [fn(UnixStream); 3] = [
            drop,
            |mut socket| drop(socket.write_all(b"\x02\0\0\0{}")),
            |mut socket| {
                let told = br#"{"Heard":{"is_answered":true,"conversations":99999999}}"#;
                let length = u32::try_from(told.len()).unwrap().to_le_bytes();
                drop(socket.write_all(&[&length[..], told].concat()));
            },
        ];
        for end in ends {
            let error = ProcessLooks(Arc::new(TestLine(end))).look_now(None).unwrap_err();
            assert!(error.may_pass(), "{error}");
        }
    }
}
