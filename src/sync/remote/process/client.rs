use std::io::Read;
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, io};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::bucket::{
    BucketError, Created, Deadline, Identity, Listed, NameRange, NewNames, RequestCounts, StoreTime,
};
use crate::channel::{BodyError, Channel};
use crate::remote::Objects;
use crate::remote::process::protocol::{
    DELETES, LARGEST, ListedName, NAMES, READS, Reply, ReplyEnvelope, Request, RequestEnvelope,
    WireError,
};

/// Maximum number of objects in a list. The limit of a bucket is the same.
const MOST_LISTED: usize = 1_000_000;
/// Minimum time of a request whose timeout is reported. A timeout of a shorter request says nothing
/// about the health of the process.
const MEANT: Duration = Duration::from_millis(500);
const NAME_BYTES: usize = 256 << 20;

const MARK: &str = "ctxfs.json";

/// Connections to the process that makes the requests, and supervision of that process. The client
/// reports successes and timeouts. From these reports, the implementation decides when to restart
/// the process.
pub trait Line: Send + Sync {
    /// Returns a socket for one request. Fails with the reason if there is none. Does not block.
    fn connect(&self) -> Result<UnixStream, String>;

    /// Called when the process has answered or accepted data.
    fn heard(&self);

    /// Called when the process has not answered a request in time. `since` is the time at which the
    /// request was made.
    fn missed(&self, since: Instant);

    /// Returns the reason why requests are impossible, as a text for users. Returns `None` if
    /// requests are possible.
    fn trouble(&self) -> Option<String>;
}

/// A bucket to which another process makes the requests. No request outlasts its deadline, even if
/// that process hangs. The request determines the maximum size of the response.
pub struct ProcessObjects {
    line: Arc<dyn Line>,
    counted: Mutex<ProcessCounts>,
    fail_fast: Option<FailFast>,
}

#[derive(Debug, Default)]
struct ProcessCounts {
    process: u32,
    earlier: RequestCounts,
    latest: RequestCounts,
}

enum ExchangeError {
    Bucket(BucketError),
    Socket(io::Error),
}

impl ExchangeError {
    fn is_late(&self) -> bool {
        matches!(self, Self::Socket(error) if error.kind() == io::ErrorKind::TimedOut)
    }
}

impl From<io::Error> for ExchangeError {
    fn from(error: io::Error) -> Self {
        Self::Socket(error)
    }
}

struct SentBody<'a, R: ?Sized> {
    source: &'a mut R,
    line: &'a dyn Line,
}

impl<R: Read + ?Sized> Read for SentBody<'_, R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.line.heard();
        self.source.read(bytes)
    }
}

impl fmt::Debug for ProcessObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessObjects").field("counted", &self.counted).finish_non_exhaustive()
    }
}

impl ProcessObjects {
    /// Creates a bucket that is accessed through the process of `line`.
    pub fn new(line: Arc<dyn Line>) -> Self {
        Self { line, counted: Mutex::default(), fail_fast: None }
    }

    /// Creates a bucket for interactive readers: see [`Self::new`]. A read takes at most `most`.
    /// For 5 s after a failure, all reads fail immediately.
    pub fn hasty(line: Arc<dyn Line>, most: Duration) -> Self {
        Self { fail_fast: Some(FailFast::new(most)), ..Self::new(line) }
    }

    /// Makes one request. Calls `read` to read the response. `read` fails with `InvalidData` if the
    /// response does not match the request.
    fn ask<T>(
        &self,
        (what, key): (&str, &str),
        deadline: Deadline,
        (request, body): (Request, Option<&mut dyn Read>),
        read: impl FnOnce(Reply, &mut Channel<'_>) -> io::Result<T>,
    ) -> Result<T, BucketError> {
        let away = |why: String| BucketError::Away { what: format!("{what} `{key}`"), why };
        if deadline.is_past() {
            return Err(away("there was no time".to_owned()));
        }
        let since = Instant::now();
        let socket = self.line.connect().map_err(away)?;
        let mut channel = Channel::new(&socket, Instant::now() + deadline.left());
        let asked = RequestEnvelope { left: deadline.left(), request };
        let outcome = self
            .exchange(&mut channel, &asked, key, body)
            .inspect_err(|failure| {
                if failure.is_late() && asked.left >= MEANT {
                    self.line.missed(since);
                }
            })
            .and_then(|answer| Ok(read(answer, &mut channel)?));
        outcome.map_err(|failure| match failure {
            ExchangeError::Bucket(error) => error,
            ExchangeError::Socket(error) => away(describe(&error)),
        })
    }

    fn exchange(
        &self,
        channel: &mut Channel<'_>,
        asked: &RequestEnvelope,
        key: &str,
        body: Option<&mut dyn Read>,
    ) -> Result<Reply, ExchangeError> {
        channel.write_document(asked)?;
        let line = &*self.line;
        match body.map_or(Ok(()), |source| channel.write_body(&mut SentBody { source, line })) {
            Err(BodyError::Source(source)) => {
                let key = key.to_owned();
                return Err(ExchangeError::Bucket(BucketError::Source { key, source }));
            }
            Err(BodyError::Socket(error)) if error.kind() == io::ErrorKind::TimedOut => {
                return Err(error.into());
            }
            // If the request failed early, the answer is already there, and the server does not
            // read the rest of the body.
            Ok(()) | Err(BodyError::Socket(_)) => {}
        }
        let ReplyEnvelope { process, requests, outcome } = channel.read_document()?;
        self.line.heard();
        self.count(process, requests);
        outcome.map_err(|fault| ExchangeError::Bucket(fault.into()))
    }

    pub(super) fn count(&self, process: u32, requests: RequestCounts) {
        let mut counted = self.counted.lock();
        if counted.process != process {
            counted.earlier = counted.earlier + std::mem::take(&mut counted.latest);
            counted.process = process;
        }
        // Responses may arrive out of order.
        if requests.total() >= counted.latest.total() {
            counted.latest = requests;
        }
    }

    fn get_some(&self, wanted: &[(String, Option<Range<u64>>)], deadline: Deadline) -> Got {
        let name = wanted.first().map_or("", |(key, _)| key.as_str());
        let get = |deadline| self.get_named(name, wanted, deadline);
        match &self.fail_fast {
            Some(fail_fast) => fail_fast.get(name, deadline, get),
            None => get(deadline),
        }
    }

    fn get_named(
        &self,
        name: &str,
        wanted: &[(String, Option<Range<u64>>)],
        deadline: Deadline,
    ) -> Got {
        let request = Request::Get { wanted: wanted.to_vec() };
        self.ask(("read", name), deadline, (request, None), |answer, channel| {
            let Reply::Got(lengths) = answer else { return Err(odd()) };
            if lengths.len() != wanted.len() {
                return Err(odd());
            }
            let each = lengths.into_iter().zip(wanted);
            each.map(|(length, (_, range))| body(channel, length, range.as_ref())).collect()
        })
    }

    fn mark(
        &self,
        what: &str,
        request: Request,
        deadline: Deadline,
    ) -> Result<Option<Identity>, BucketError> {
        let mark = self.ask((what, MARK), deadline, (request, None), |answer, _| match answer {
            Reply::Bucket(mark) => Ok(mark),
            _ => Err(odd()),
        })?;
        mark.map(Identity::try_from).transpose()
    }

    fn list_some(
        &self,
        prefix: &str,
        most: usize,
        deadline: Deadline,
        request: Request,
    ) -> Result<Vec<ListedName>, BucketError> {
        self.ask(("list", prefix), deadline, (request, None), |answer, channel| match answer {
            Reply::Listed(count) if count <= most => names(channel, count),
            _ => Err(odd()),
        })
    }

    fn delete_some(
        &self,
        keys: &[String],
        deadline: Deadline,
    ) -> Result<Vec<Option<WireError>>, BucketError> {
        let name = keys.first().map_or("", String::as_str);
        let request = Request::Delete { keys: keys.to_vec() };
        self.ask(("delete", name), deadline, (request, None), |answer, _| match answer {
            Reply::Deleted(outcomes) if outcomes.len() == keys.len() => Ok(outcomes),
            _ => Err(odd()),
        })
    }
}

impl Objects for ProcessObjects {
    fn get(
        &self,
        key: &str,
        range: Option<Range<u64>>,
        deadline: Deadline,
    ) -> Result<Bytes, BucketError> {
        let mut got = self.get_some(&[(key.to_owned(), range)], deadline)?;
        got.pop().expect("there is an outcome for what was asked")
    }

    fn get_many(
        &self,
        wanted: &[(String, Option<Range<u64>>)],
        deadline: Deadline,
    ) -> Vec<Result<Bytes, BucketError>> {
        let mut all = Vec::with_capacity(wanted.len());
        for some in wanted.chunks(READS) {
            match self.get_some(some, deadline) {
                Ok(got) => all.extend(got),
                Err(error) => {
                    let fault = WireError::from(&error);
                    all.extend(some.iter().map(|_| Err(fault.clone().into())));
                }
            }
        }
        all
    }

    fn create(&self, key: &str, bytes: &Bytes, deadline: Deadline) -> Result<Created, BucketError> {
        let request = Request::Create { key: key.to_owned() };
        let mut source = &bytes[..];
        self.ask(("write", key), deadline, (request, Some(&mut source)), |answer, _| match answer {
            Reply::Created(true) => Ok(Created::New),
            Reply::Created(false) => Ok(Created::Exists),
            _ => Err(odd()),
        })
    }

    fn upload(
        &self,
        key: &str,
        source: &mut (dyn Read + Send),
        expected: u64,
        deadline: Deadline,
    ) -> Result<u64, BucketError> {
        let request = Request::Upload { key: key.to_owned(), expected };
        let mut source = source;
        self.ask(("write", key), deadline, (request, Some(&mut source)), |answer, _| match answer {
            Reply::Uploaded(size) => Ok(size),
            _ => Err(odd()),
        })
    }

    fn list(&self, prefix: &str, deadline: Deadline) -> Result<Vec<Listed>, BucketError> {
        let request = Request::List { prefix: prefix.to_owned() };
        Ok(listed(self.list_some(prefix, MOST_LISTED, deadline, request)?))
    }

    fn list_new(
        &self,
        prefix: &str,
        known: &[NameRange],
        deadline: Deadline,
    ) -> Result<NewNames, BucketError> {
        let request = Request::ListNew { prefix: prefix.to_owned(), known: known.to_vec() };
        self.ask(("list", prefix), deadline, (request, None), |answer, channel| match answer {
            Reply::ListedNew { count, skipped } if count <= MOST_LISTED => {
                Ok(NewNames { listed: listed(names(channel, count)?), skipped })
            }
            _ => Err(odd()),
        })
    }

    fn list_staged(
        &self,
        directories: &[String],
        deadline: Deadline,
    ) -> Result<Vec<Listed>, BucketError> {
        let name = directories.first().map_or("", String::as_str);
        let request = Request::ListStaged { directories: directories.to_vec() };
        Ok(listed(self.list_some(name, MOST_LISTED, deadline, request)?))
    }

    fn list_dirs(
        &self,
        prefix: &str,
        limit: usize,
        deadline: Deadline,
    ) -> Result<Vec<String>, BucketError> {
        let request = Request::ListDirs { prefix: prefix.to_owned(), limit };
        let names = self.list_some(prefix, limit, deadline, request)?;
        Ok(names.into_iter().map(|(name, _, _)| name).collect())
    }

    fn modified(&self, key: &str, deadline: Deadline) -> Result<StoreTime, BucketError> {
        let request = Request::Modified { key: key.to_owned() };
        self.ask(("look at", key), deadline, (request, None), |answer, _| match answer {
            Reply::Modified(time) => Ok(time),
            _ => Err(odd()),
        })
    }

    fn delete(
        &self,
        keys: Vec<String>,
        deadline: Deadline,
    ) -> Vec<(String, Result<(), BucketError>)> {
        let mut faults = Vec::with_capacity(keys.len());
        for some in keys.chunks(DELETES) {
            match self.delete_some(some, deadline) {
                Ok(outcomes) => faults.extend(outcomes),
                Err(error) => faults.extend(some.iter().map(|_| Some(WireError::from(&error)))),
            }
        }
        let outcome = |fault: Option<WireError>| fault.map_or(Ok(()), |fault| Err(fault.into()));
        keys.into_iter().zip(faults.into_iter().map(outcome)).collect()
    }

    fn identity(&self, deadline: Deadline) -> Result<Option<Identity>, BucketError> {
        self.mark("read", Request::Identity, deadline)
    }

    fn found(&self, write_once: bool, deadline: Deadline) -> Result<Identity, BucketError> {
        let asked = (Request::Found { write_once }, None);
        let mark = self.ask(("write", MARK), deadline, asked, |answer, _| match answer {
            Reply::Bucket(Some(mark)) => Ok(mark),
            _ => Err(odd()),
        })?;
        mark.try_into()
    }

    fn met(&self, write_once: bool, deadline: Deadline) -> Result<Option<Identity>, BucketError> {
        self.mark("write", Request::Met { write_once }, deadline)
    }

    fn answerer(&self) -> u32 {
        self.counted.lock().process
    }

    fn requests(&self) -> RequestCounts {
        let counted = self.counted.lock();
        counted.earlier + counted.latest
    }

    fn trouble(&self) -> Option<String> {
        self.line.trouble()
    }
}

fn body(
    channel: &mut Channel<'_>,
    length: Result<u64, WireError>,
    range: Option<&Range<u64>>,
) -> io::Result<Result<Bytes, BucketError>> {
    let length = match length {
        Ok(length) => length,
        Err(fault) => return Ok(Err(fault.into())),
    };
    let most = range.map_or(LARGEST, |range| range.end.saturating_sub(range.start).min(LARGEST));
    if length > most {
        return Err(odd());
    }
    Ok(Ok(channel.read_bytes(length)?.into()))
}

fn listed(names: Vec<ListedName>) -> Vec<Listed> {
    let listed = |(name, size, modified_ms)| Listed { name, size, modified_ms };
    names.into_iter().map(listed).collect()
}

fn names(channel: &mut Channel<'_>, count: usize) -> io::Result<Vec<ListedName>> {
    let (mut all, mut bytes) = (Vec::new(), 0);
    while all.len() < count {
        let page: Vec<ListedName> = channel.read_document()?;
        bytes += page.iter().map(|(name, ..)| name.len()).sum::<usize>();
        let is_full = page.len() == NAMES.min(count - all.len());
        if !is_full || bytes > NAME_BYTES {
            return Err(odd());
        }
        all.extend(page);
    }
    Ok(all)
}

fn odd() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

fn describe(error: &io::Error) -> String {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, TimedOut, UnexpectedEof};
    match error.kind() {
        TimedOut => "the process `ctxfs-remote` did not answer in time".to_owned(),
        UnexpectedEof | BrokenPipe | ConnectionReset => {
            "the process `ctxfs-remote` ended meanwhile".to_owned()
        }
        _ => format!("the process `ctxfs-remote` answers nonsense ({error})"),
    }
}

/// Time after a failure during which reads fail immediately.
const FAIL_FAST_FOR: Duration = Duration::from_secs(5);

type Got = Result<Vec<Result<Bytes, BucketError>>, BucketError>;

/// Fail-fast reads for interactive readers. Reads have a short time limit. After a failure, they
/// make no request for [`FAIL_FAST_FOR`].
#[derive(Debug)]
struct FailFast {
    most: Duration,
    failed: Mutex<Option<Instant>>,
}

impl FailFast {
    fn new(most: Duration) -> Self {
        Self { most, failed: Mutex::default() }
    }

    /// Calls `get` with a shortened deadline. Fails immediately if a read has failed within the
    /// last [`FAIL_FAST_FOR`].
    fn get(&self, what: &str, deadline: Deadline, get: impl FnOnce(Deadline) -> Got) -> Got {
        let failed = *self.failed.lock();
        if failed.is_some_and(|failed| failed.elapsed() < FAIL_FAST_FOR) {
            let why = "the bucket did not answer a moment ago; try again in some seconds";
            return Err(BucketError::Away { what: format!("read `{what}`"), why: why.to_owned() });
        }
        let got = get(deadline.min(Deadline::after(self.most)));
        *self.failed.lock() = is_unreachable(&got).then(Instant::now);
        got
    }
}

fn is_unreachable(got: &Got) -> bool {
    match got {
        Ok(all) => all.iter().filter_map(|each| each.as_ref().err()).any(BucketError::may_pass),
        Err(error) => error.may_pass(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn away() -> BucketError {
        BucketError::Away { what: "x".to_owned(), why: "y".to_owned() }
    }

    #[test]
    fn a_read_that_failed_is_the_last_for_a_moment() {
        let soon = || Deadline::after(Duration::from_hours(1));
        for failed in [Err(away()), Ok(vec![Ok(Bytes::new()), Err(away())])] {
            let fail_fast = FailFast::new(Duration::from_secs(7));
            let got = fail_fast.get("x", soon(), |deadline| {
                assert!(deadline.left() <= Duration::from_secs(7));
                Ok(vec![Err(BucketError::Absent { key: "x".to_owned() })])
            });
            assert!(got.is_ok());
            assert!(is_unreachable(&fail_fast.get("x", soon(), |_| failed)));
            let error = fail_fast.get("x", soon(), |_| panic!("it asks")).unwrap_err();
            assert!(error.may_pass() && error.to_string().contains("a moment ago"), "{error}");
            *fail_fast.failed.lock() = Some(Instant::now().checked_sub(FAIL_FAST_FOR).unwrap());
            assert!(fail_fast.get("x", soon(), |_| Ok(Vec::new())).is_ok());
        }
    }
}
