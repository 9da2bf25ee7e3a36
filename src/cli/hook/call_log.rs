//! `hook.log`: a line for each call of a hook, `<time> <host> <outcome>`, from which `ctxfs doctor`
//! counts. Lines are appended, so no call waits for another.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use jiff::Timestamp;

use crate::env::Environment;
use crate::hooks::{Action, Host};
use crate::places;

/// The size beyond which the log becomes `hook.log.old`: the last 20,000 calls or so.
const ROTATE_AT: u64 = 1 << 20;
/// The most bytes of a reason.
const REASON: usize = 400;

/// The end of a call.
pub(super) enum HookOutcome {
    Done(Action),
    /// It failed, for this reason, and the host kept its own result.
    Failed(String),
}

/// The counts of one host.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct HostCalls {
    /// The time of the first call that is counted, and of the last.
    pub(crate) first: String,
    pub(crate) last: String,
    /// The number of calls by outcome.
    pub(crate) outcomes: BTreeMap<String, u64>,
    /// The time and the reason of the last failure.
    pub(crate) failure: Option<String>,
}

/// Returns the place of the log, if there is a home.
pub(crate) fn path(environment: &Environment) -> Option<PathBuf> {
    Some(places::state_dir(environment)?.join("hook.log"))
}

/// Adds a line. Where that fails, nothing is counted.
pub(super) fn add(log: Option<&Path>, host: Host, outcome: &HookOutcome) {
    if let Some(log) = log {
        append(log, &format!("{:.0} {host} {outcome}\n", Timestamp::now())).ok();
    }
}

fn append(log: &Path, line: &str) -> io::Result<()> {
    if let Some(dir) = log.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    if fs::metadata(log).is_ok_and(|found| found.len() > ROTATE_AT) {
        fs::rename(log, log.with_extension("log.old"))?;
    }
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(log)?;
    file.write_all(line.as_bytes())
}

/// Counts the calls in the log and the one before it.
pub(crate) fn count(log: &Path) -> BTreeMap<String, HostCalls> {
    let mut hosts = BTreeMap::new();
    for path in [log.with_extension("log.old"), log.to_owned()] {
        let Ok(file) = fs::File::open(path) else { continue };
        for line in BufReader::new(file).lines().map_while(Result::ok) {
            count_line(&line, &mut hosts);
        }
    }
    hosts
}

/// Counts a line, unless it is torn.
fn count_line(line: &str, hosts: &mut BTreeMap<String, HostCalls>) {
    let mut words = line.splitn(3, ' ');
    let (Some(time), Some(host), Some(outcome)) = (words.next(), words.next(), words.next()) else {
        return;
    };
    let (outcome, reason) = outcome.split_once(": ").unwrap_or((outcome, ""));
    let calls = hosts.entry(host.to_owned()).or_default();
    if calls.first.is_empty() {
        time.clone_into(&mut calls.first);
    }
    time.clone_into(&mut calls.last);
    *calls.outcomes.entry(outcome.to_owned()).or_default() += 1;
    if !reason.is_empty() {
        calls.failure = Some(format!("{time}: {reason}"));
    }
}

impl fmt::Display for HookOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done(action) => f.write_str(name(*action)),
            Self::Failed(why) => {
                let why: String = why.chars().take(REASON).collect();
                write!(f, "failed: {}", why.replace(char::is_control, " "))
            }
        }
    }
}

fn name(action: Action) -> &'static str {
    match action {
        Action::Passed => "passed",
        Action::Short => "short",
        Action::Own => "own",
        Action::Kept => "kept",
        Action::Told => "told",
    }
}
