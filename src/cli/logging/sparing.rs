//! A log that nobody can fill: so many lines a minute, so many bytes a line, so many bytes a file.

use std::fs::File;
use std::io;
use std::io::Read as _;
use std::io::Seek as _;
use std::io::SeekFrom;
use std::io::Write;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::Instant;

use tracing_subscriber::fmt::MakeWriter;

/// Lines that may come at once.
const AT_ONCE: u32 = 1000;
/// How long it takes until one more may come.
const EACH: Duration = Duration::from_secs(1);
/// Bytes of a line; the rest of a longer one is left out.
const LONGEST: usize = 4096;
/// Bytes of the file of a server in the background. Past them its older half goes.
const MOST_BYTES: u64 = 8 << 20;

/// Standard error, with bounds.
#[derive(Debug, Clone)]
pub(super) struct Sparing(Arc<Mutex<Bounds>>);

#[derive(Debug)]
struct Bounds {
    began: Instant,
    /// None, where every line is wanted.
    lines: Option<Lines>,
    /// What standard error is, where that is a file to be kept small.
    file: Option<File>,
}

impl Sparing {
    /// `every`: as many lines as there are. `own`: where it is a file, it may be shortened.
    pub(super) fn new(every: bool, own: bool) -> Self {
        let lines = (!every).then(Lines::default);
        let open = || File::options().read(true).append(true).open("/proc/self/fd/2").ok();
        let is_file = |file: &File| file.metadata().is_ok_and(|found| found.is_file());
        let file = if own { open().filter(is_file) } else { None };
        Self(Arc::new(Mutex::new(Bounds { began: Instant::now(), lines, file })))
    }
}

impl<'a> MakeWriter<'a> for Sparing {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// A call is a line.
impl Write for Sparing {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut bounds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        bounds.write(line).map(|()| line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Bounds {
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

/// How many lines may come.
#[derive(Debug)]
struct Lines {
    left: u32,
    counted: Duration,
    missing: u64,
}

impl Default for Lines {
    fn default() -> Self {
        Self { left: AT_ONCE, counted: Duration::ZERO, missing: 0 }
    }
}

impl Lines {
    /// Whether one may come now: how many were left out before it.
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

/// Leaves of a file that has more than `most` bytes the newer half, from the beginning of a line on.
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
    fn lines_come_as_fast_as_they_may() {
        let mut lines = Lines::default();
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
    fn a_file_keeps_what_came_last() {
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
