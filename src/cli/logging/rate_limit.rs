//! A rate limiter for the log: limits on lines a second, bytes a line and bytes of the file, and a
//! line that says nothing.

use std::fs::File;
use std::io;
use std::io::{Read as _, Seek as _, SeekFrom, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Lines that may be written at once.
const AT_ONCE: u32 = 1000;
/// The time after which one more line may be written.
const EACH: Duration = Duration::from_secs(1);
/// Bytes of a line. The rest of a longer line is left out.
const LONGEST: usize = 4096;
/// Bytes of the log file of a background server. Beyond them, the older half is dropped.
const MOST_BYTES: u64 = 8 << 20;

/// The line of the FUSE library about an answer that the kernel takes no more. It answers every
/// notice that a client was interrupted, also where the client has got its answer meanwhile. Nobody
/// misses that answer.
const TAKEN_NO_MORE: &[u8] = b"Failed to send FUSE reply: No such file or directory (os error 2)";

/// Standard error, with limits. Each call of `write` is one line.
#[derive(Debug, Clone)]
pub(super) struct RateLimitedStderr(Arc<Mutex<LimitedStderr>>);

#[derive(Debug)]
struct LimitedStderr {
    began: Instant,
    /// `None` if every line is wanted.
    lines: Option<LineAllowance>,
    /// The file behind standard error, if it is one to keep small.
    file: Option<File>,
}

impl RateLimitedStderr {
    /// `every` lifts the limit on the number of lines. `own` says that a file behind standard error
    /// belongs to this process, which may shorten it.
    pub(super) fn new(every: bool, own: bool) -> Self {
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

/// The lines that may be written now: a token bucket.
#[derive(Debug)]
struct LineAllowance {
    left: u32,
    /// The time up to which `left` was refilled.
    counted: Duration,
    /// Lines left out since the last one that was written.
    missing: u64,
}

impl Default for LineAllowance {
    fn default() -> Self {
        Self { left: AT_ONCE, counted: Duration::ZERO, missing: 0 }
    }
}

impl LineAllowance {
    /// Takes one line, and returns the number of lines that were left out before it. Returns `None`
    /// if no line may be written now.
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

/// Shortens a file of more than `most` bytes to its newer half, from the beginning of a line.
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
