//! Logging, always to standard error. Standard error of a background server is a file, so that
//! panics and messages of helper programs are also written to it.
//!
//! No level logs stored data: no content, no names of files, no queries. Libraries may log such
//! data, so their records below `info` are logged only if a directive names the library.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal as _, Read as _, Seek as _, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::time::{Duration, Instant};
use std::{str::FromStr as _, sync::Arc};

use anyhow::Context as _;
use parking_lot::Mutex;
use tracing_subscriber::{EnvFilter, filter::LevelFilter};

const ROTATE_AT: u64 = 8 << 20;

pub(crate) fn check(directives: &str) -> anyhow::Result<()> {
    filter(directives).map(drop)
}

fn filter(directives: &str) -> anyhow::Result<EnvFilter> {
    let level = LevelFilter::from_str(directives).ok();
    let all = level.map(|level| format!("{},ctxfs={level}", level.min(LevelFilter::INFO)));
    Ok(EnvFilter::try_new(all.as_deref().unwrap_or(directives)).map_err(|error| {
        let text = format!("invalid log level `{directives}`: {error}");
        crate::Failure::usage(text, "use error, warn, info, debug or trace")
    })?)
}

/// Starts logging the records that `directives` select. If `own` is true and standard error is a
/// file, that file is the log of this server, and its size is limited.
pub(crate) fn start(directives: &str, own: bool) -> anyhow::Result<()> {
    let filter = filter(directives)?;
    let colours = std::io::stderr().is_terminal()
        && anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never;
    let every = filter.max_level_hint().is_none_or(|level| level > LevelFilter::INFO);
    let writer = RateLimitedStderr::new(every, own);
    std::panic::set_hook(Box::new(panicked));
    let subscriber =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(move || writer.clone());
    let started = subscriber.with_ansi(colours).try_init();
    started.map_err(|error| anyhow::anyhow!("cannot start logging: {error}"))
}

// Logs the message of a panic only if it is a literal. Other messages may contain stored data.
fn panicked(panic: &std::panic::PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    let text = panic.payload().downcast_ref::<&'static str>().copied().unwrap_or("a fault");
    tracing::error!("panicked at {place}: {text}");
}

/// Opens the log of a background server for appending. If the log is larger than 8 MiB, first
/// renames it to `<name>.old`.
pub(crate) fn open_file(path: &std::path::Path) -> anyhow::Result<File> {
    let context = || format!("cannot open the log `{}`", path.display());
    if let Some(dir) = path.parent() {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(dir).with_context(context)?;
    }
    if fs::metadata(path).is_ok_and(|found| found.len() > ROTATE_AT) {
        fs::rename(path, path.with_extension("log.old")).with_context(context)?;
    }
    OpenOptions::new().append(true).create(true).mode(0o600).open(path).with_context(context)
}

const AT_ONCE: u32 = 1000;
const EACH: Duration = Duration::from_secs(1);
const LONGEST: usize = 4096;
// Maximum size in bytes of the log of a background server. Above this size, the older half is
// dropped.
const MOST_BYTES: u64 = 8 << 20;

// The FUSE library logs this if a client was interrupted while it received its answer. That is
// harmless.
const TAKEN_NO_MORE: &[u8] = b"Failed to send FUSE reply: No such file or directory (os error 2)";

// Standard error with limits on the number of lines per second, the bytes per line, and the bytes
// of the file. Each call of `write` is one line.
#[derive(Debug, Clone)]
struct RateLimitedStderr(Arc<Mutex<LimitedStderr>>);

#[derive(Debug)]
struct LimitedStderr {
    began: Instant,
    lines: Option<LineAllowance>,
    file: Option<File>,
}

impl RateLimitedStderr {
    // `every` lifts the limit on the number of lines. `own` allows a file behind standard error to
    // be shortened.
    fn new(every: bool, own: bool) -> Self {
        let lines = (!every).then(LineAllowance::default);
        let open = || File::options().read(true).append(true).open("/proc/self/fd/2").ok();
        let is_file = |file: &File| file.metadata().is_ok_and(|found| found.is_file());
        let file = if own { open().filter(is_file) } else { None };
        Self(Arc::new(Mutex::new(LimitedStderr { began: Instant::now(), lines, file })))
    }
}

impl Write for RateLimitedStderr {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if is_worth_saying(line) {
            self.0.lock().write(line)?;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl LimitedStderr {
    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let now = self.began.elapsed();
        let Some(missing) = self.lines.as_mut().map_or(Some(0), |lines| lines.take(now)) else {
            return Ok(());
        };
        let mut out = io::stderr().lock();
        if missing > 0 {
            writeln!(out, "... {missing} lines were left out: too many came at once")?;
        }
        if line.len() > LONGEST {
            out.write_all(&line[..LONGEST])?;
            writeln!(out, "... {} bytes were left out", line.len() - LONGEST)?;
        } else {
            out.write_all(line)?;
        }
        self.file.as_mut().map_or(Ok(()), |file| shorten(file, MOST_BYTES))
    }
}

fn is_worth_saying(line: &[u8]) -> bool {
    memchr::memmem::find(line, TAKEN_NO_MORE).is_none()
}

#[derive(Debug)]
struct LineAllowance {
    left: u32,
    counted: Duration,
    missing: u64,
}

impl Default for LineAllowance {
    fn default() -> Self {
        Self { left: AT_ONCE, counted: Duration::ZERO, missing: 0 }
    }
}

impl LineAllowance {
    // Implements a token bucket. Returns the number of lines that were dropped before this line, or
    // `None` if this line has to be dropped too.
    fn take(&mut self, now: Duration) -> Option<u64> {
        let more = now.saturating_sub(self.counted).as_secs() / EACH.as_secs();
        self.counted += EACH * more as u32;
        self.left = AT_ONCE.min(self.left.saturating_add(more as u32));
        if self.left == 0 {
            self.missing += 1;
            return None;
        }
        self.left -= 1;
        Some(std::mem::take(&mut self.missing))
    }
}

fn shorten(file: &mut File, most: u64) -> io::Result<()> {
    if file.metadata()?.len() <= most {
        return Ok(());
    }
    let mut rest = Vec::new();
    file.seek(SeekFrom::End(-((most / 2) as i64)))?;
    file.read_to_end(&mut rest)?;
    let from = memchr::memchr(b'\n', &rest).map_or(0, |end| end + 1);
    file.set_len(0)?;
    file.write_all(b"... older lines were left out\n")?;
    file.write_all(&rest[from..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_limited_to_a_rate() {
        let mut lines = LineAllowance::default();
        let second = Duration::from_secs;
        let taken = (0..5000).filter(|_| lines.take(second(0)).is_some()).count();
        assert_eq!(taken, AT_ONCE as usize);
        assert_eq!(lines.take(second(2)), Some(4000));
        assert_eq!(lines.take(second(2)), Some(0));
        assert_eq!(lines.take(second(2)), None);
        let later = second(10_000_000);
        assert_eq!((0..5000).filter(|_| lines.take(later).is_some()).count(), AT_ONCE as usize);
    }

    #[test]
    fn an_answer_that_nobody_waits_for_is_no_error() {
        let line = |error| {
            let error = io::Error::from_raw_os_error(error);
            format!("12:00:00Z ERROR fuser::reply: Failed to send FUSE reply: {error}\n")
        };
        assert!(!is_worth_saying(line(libc::ENOENT).as_bytes()));
        assert!(is_worth_saying(line(libc::EINVAL).as_bytes()));
    }

    #[test]
    fn a_file_keeps_its_newest_lines() {
        let named = tempfile::NamedTempFile::new().unwrap();
        let mut file = File::options().read(true).append(true).open(named.path()).unwrap();
        for number in 0..1000 {
            writeln!(file, "line {number}").unwrap();
            shorten(&mut file, 200).unwrap();
            assert!(file.metadata().unwrap().len() <= 200);
        }
        let text = std::fs::read_to_string(named.path()).unwrap();
        assert!(text.starts_with("... older lines were left out\nline 9"), "{text}");
        assert!(text.ends_with("line 998\nline 999\n"), "{text}");
    }
}
