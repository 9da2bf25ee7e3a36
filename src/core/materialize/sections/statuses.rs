//! The statuses of the responses in an access log.

use std::sync::LazyLock;

use memchr::memmem::Finder;

/// Lines after which it is judged whether an output is an access log.
const JUDGED: u64 = 64;
/// The fewest entries of an access log.
const FEWEST: u64 = 10;
/// Most statuses.
const STATUSES: usize = 24;

/// Counts the statuses in the lines of an access log.
#[derive(Debug, Clone, Default)]
pub(super) struct Statuses {
    lines: u64,
    entries: u64,
    /// True if the output is another one.
    pub(super) is_off: bool,
    counts: Vec<(u16, u64)>,
}

impl Statuses {
    pub(super) fn line(&mut self, line: &[u8]) {
        self.lines += 1;
        self.is_off |= self.lines > JUDGED && 2 * self.entries < self.lines;
        if self.is_off {
            return;
        }
        let Some(status) = status(line) else { return };
        self.entries += 1;
        if let Some((_, count)) = self.counts.iter_mut().find(|(known, _)| *known == status) {
            *count += 1;
        } else if self.counts.len() < STATUSES {
            self.counts.push((status, 1));
        }
    }

    /// Returns the statuses with their counts, in order, if most lines are entries.
    pub(super) fn finish(&self) -> Vec<(u16, u64)> {
        let mut counts = self.counts.clone();
        counts.sort_unstable();
        let is_log = self.entries >= FEWEST && 2 * self.entries >= self.lines;
        if is_log && !self.is_off { counts } else { Vec::new() }
    }
}

/// Returns the number in `... "GET / HTTP/1.1" 200 ...`.
fn status(line: &[u8]) -> Option<u16> {
    let after = PROTOCOL.find(line)? + PROTOCOL.needle().len();
    let rest = &line[after..];
    let version = rest.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
    let [b'"', b' ', status @ .., b' '] = rest.get(version..version + 6)? else { return None };
    let status = str::from_utf8(status).ok()?.parse().ok()?;
    (100..600).contains(&status).then_some(status)
}

static PROTOCOL: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("HTTP/"));
