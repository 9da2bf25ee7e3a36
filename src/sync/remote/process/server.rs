use std::io;
use std::io::{Read as _, Write as _};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::bucket::{BucketError, Created, Deadline, Listed, NewNames, RequestCounts};
use crate::channel::Channel;
use crate::remote::Objects;
use crate::remote::process::protocol::{
    LARGEST, ListedName, NAMES, Reply, ReplyEnvelope, Request, RequestEnvelope, WireError,
};

/// Time limit for receiving a request. The response may be sent up to this long after the deadline
/// of the client.
const GRACE: Duration = Duration::from_secs(30);
const LONGEST: Duration = Duration::from_hours(24);
/// The server gives up a request this long before the deadline of the client, so that the error
/// arrives in time. If a tenth of the remaining time is shorter, the tenth is used instead.
const EARLY: Duration = Duration::from_millis(200);

/// Serves the request on `socket`. `objects` is the bucket, or the reason why there is none.
///
/// Returns when the response has been sent. Fails if the client is gone or violates the protocol.
/// An object is written only if its body was received completely. With `read_only`, requests that
/// change the bucket are refused.
pub fn answer_request(
    objects: Result<&dyn Objects, &BucketError>,
    socket: &UnixStream,
    read_only: bool,
) -> io::Result<()> {
    let refusal = |request: &Request| {
        let key = request.changed().filter(|_| read_only)?.to_owned();
        Some(WireError::Refused { key, why: "this process only reads the bucket".to_owned() })
    };
    let mut channel = Channel::new(socket, Instant::now() + GRACE);
    let RequestEnvelope { left, request } = channel.read_document()?;
    let left = left.min(LONGEST);
    channel.extend(Instant::now() + left + GRACE);
    let deadline = Deadline::after(left.saturating_sub(EARLY.min(left / 10)));
    let fault = match (refusal(&request), objects) {
        (Some(refused), _) => refused,
        (None, Err(error)) => WireError::from(error),
        (None, Ok(objects)) => return Answering { objects, deadline, channel }.answer(request),
    };
    let (process, requests) = (std::process::id(), RequestCounts::default());
    channel.write_document(&ReplyEnvelope { process, requests, outcome: Err(fault) })
}

struct Answering<'a> {
    objects: &'a dyn Objects,
    deadline: Deadline,
    channel: Channel<'a>,
}

impl Answering<'_> {
    fn answer(mut self, request: Request) -> io::Result<()> {
        let deadline = self.deadline;
        match request {
            Request::Get { wanted } => self.get(&wanted),
            Request::Create { key } => self.create(&key),
            Request::Upload { key, expected } => {
                let mut body = self.channel.body();
                let size = self.objects.upload(&key, &mut body, expected, deadline);
                self.reply(size.map(Reply::Uploaded))
            }
            Request::List { prefix } => {
                let listed = self.objects.list(&prefix, deadline);
                self.names(listed.map(named))
            }
            Request::ListNew { prefix, known } => {
                match self.objects.list_new(&prefix, &known, deadline) {
                    Ok(NewNames { listed, skipped }) => {
                        let count = listed.len();
                        self.reply(Ok(Reply::ListedNew { count, skipped }))?;
                        self.pages(&named(listed))
                    }
                    Err(error) => self.reply(Err(error)),
                }
            }
            Request::ListStaged { directories } => {
                let listed = self.objects.list_staged(&directories, deadline);
                self.names(listed.map(named))
            }
            Request::ListDirs { prefix, limit } => {
                let listed = self.objects.list_dirs(&prefix, limit, deadline);
                self.names(listed.map(|all| all.into_iter().map(|name| (name, 0, 0)).collect()))
            }
            Request::Modified { key } => {
                let modified = self.objects.modified(&key, deadline);
                self.reply(modified.map(Reply::Modified))
            }
            Request::Delete { keys } => {
                let outcomes = self.objects.delete(keys, deadline).into_iter();
                let faults =
                    outcomes.map(|(_, outcome)| outcome.err().as_ref().map(WireError::from));
                let deleted = Reply::Deleted(faults.collect());
                self.reply(Ok(deleted))
            }
            Request::Identity => {
                let identity = self.objects.identity(deadline);
                self.reply(identity.map(|identity| Reply::Bucket(identity.map(Into::into))))
            }
            Request::Met { write_once } => {
                let identity = self.objects.met(write_once, deadline);
                self.reply(identity.map(|identity| Reply::Bucket(identity.map(Into::into))))
            }
            Request::Found { write_once } => {
                let identity = self.objects.found(write_once, deadline);
                self.reply(identity.map(|identity| Reply::Bucket(Some(identity.into()))))
            }
        }
    }

    fn reply(&mut self, outcome: Result<Reply, BucketError>) -> io::Result<()> {
        let outcome = outcome.map_err(|error| WireError::from(&error));
        let (process, requests) = (std::process::id(), self.objects.requests());
        self.channel.write_document(&ReplyEnvelope { process, requests, outcome })
    }

    fn get(&mut self, wanted: &[(String, Option<Range<u64>>)]) -> io::Result<()> {
        let got = match wanted {
            [(key, range)] => vec![self.objects.get(key, range.clone(), self.deadline)],
            _ => self.objects.get_many(wanted, self.deadline),
        };
        let lengths = got.iter().map(|bytes| match bytes {
            Ok(bytes) => Ok(bytes.len() as u64),
            Err(error) => Err(WireError::from(error)),
        });
        let lengths = Reply::Got(lengths.collect());
        self.reply(Ok(lengths))?;
        for bytes in got.into_iter().flatten() {
            self.channel.write_all(&bytes)?;
        }
        Ok(())
    }

    fn create(&mut self, key: &str) -> io::Result<()> {
        let mut bytes = Vec::new();
        self.channel.body().take(LARGEST + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > LARGEST {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let created = self.objects.create(key, &bytes.into(), self.deadline);
        self.reply(created.map(|created| Reply::Created(created == Created::New)))
    }

    fn names(&mut self, listed: Result<Vec<ListedName>, BucketError>) -> io::Result<()> {
        let names = match listed {
            Ok(names) => names,
            Err(error) => return self.reply(Err(error)),
        };
        self.reply(Ok(Reply::Listed(names.len())))?;
        self.pages(&names)
    }

    fn pages(&mut self, names: &[ListedName]) -> io::Result<()> {
        names.chunks(NAMES).try_for_each(|page| self.channel.write_document(&page))
    }
}

fn named(listed: Vec<Listed>) -> Vec<ListedName> {
    listed.into_iter().map(|each| (each.name, each.size, each.modified_ms)).collect()
}
