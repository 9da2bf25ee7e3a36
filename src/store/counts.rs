//! The counts of a conversation: a file of sums, one per line, to which all processes append.
//!
//! A line has what was counted for one tool on one day since the previous line for that tool and
//! day. Adding counts is one write under a lock. When the size of the file passes a power of two,
//! all lines for the same day and tool are merged into one. Clients can name any number of tools,
//! so the number of tools per day is bounded.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};

use rustix::fs::{OFlags, RenameFlags};

use crate::file_lock::{LockedLines, each_line};
use crate::{Conversation, Dir, StoreError, if_there, layout, stat_file};
use ctxfs_core::model::{Counts, DailyCounts, MOST_TOOLS, OTHER_TOOLS, counted_tool};

/// Size in bytes up to which the file is not rewritten. A larger file is rewritten each time its
/// size passes a power of two.
const REWRITTEN: u64 = 64 * 1024;
/// Maximum length of a line in bytes. ctxfs does not write longer lines.
const MAX_LINE: u64 = 1024 * 1024;

impl Conversation {
    /// Adds the counts in `happened`, each with its tool. `at` is the time in milliseconds since
    /// the epoch.
    pub fn count(
        &self,
        at: i64,
        happened: impl IntoIterator<Item = (String, Counts)>,
    ) -> Result<(), StoreError> {
        let day = day(at);
        let counted = |(tool, counts)| DailyCounts { day: day.clone(), tool, counts };
        let counted: Vec<DailyCounts> = happened.into_iter().map(counted).collect();
        add(self.dir(), &counted).map_err(|error| error_of(self, "add to", error))
    }

    /// Returns the counts so far, ordered by day and then by tool. Skips truncated lines.
    pub fn counted(&self) -> Result<Vec<DailyCounts>, StoreError> {
        let opened = if_there(self.dir().open_file(layout::COUNTS.as_ref(), OFlags::RDONLY));
        let sums = opened.and_then(|file| file.map_or(Ok(Vec::new()), |file| sums(&file)));
        sums.map_err(|error| error_of(self, "read", error))
    }
}

fn error_of(conversation: &Conversation, action: &'static str, source: io::Error) -> StoreError {
    StoreError::io(action, &conversation.path().join(layout::COUNTS), source)
}

fn add(dir: &Dir, counted: &[DailyCounts]) -> io::Result<()> {
    if counted.is_empty() {
        return Ok(());
    }
    let locked = LockedLines::lock(dir, layout::COUNTS)?;
    let before = stat_file(locked.file())?.size;
    locked.append(&lines(counted)?)?;
    let after = stat_file(locked.file())?.size;
    if after >= REWRITTEN && (before | 1).ilog2() != (after | 1).ilog2() {
        rewrite(dir, locked.file())?;
    }
    Ok(())
}

fn rewrite(dir: &Dir, file: &File) -> io::Result<()> {
    let sums = sums(file)?;
    let flags = OFlags::WRONLY | OFlags::TRUNC;
    let mut new = dir.create_file(layout::NEW_COUNTS.as_ref(), flags, layout::FILE_MODE)?;
    new.write_all(&lines(&sums)?)?;
    new.sync_all()?;
    let (from, to) = (layout::NEW_COUNTS.as_ref(), layout::COUNTS.as_ref());
    dir.rename(from, dir, to, RenameFlags::empty())
}

/// Returns one sum for each day and tool. Once a day has [`MOST_TOOLS`] tools, further tools count
/// as [`OTHER_TOOLS`]. Skips truncated or invalid lines.
fn sums(file: &File) -> io::Result<Vec<DailyCounts>> {
    let mut sums: BTreeMap<String, BTreeMap<String, Counts>> = BTreeMap::new();
    let mut file = file.try_clone()?;
    io::Seek::rewind(&mut file)?;
    each_line(file, MAX_LINE, |line| {
        if let Ok(DailyCounts { day, tool, counts }) = serde_json::from_slice(line) {
            let (tools, tool) = (sums.entry(day).or_default(), counted_tool(tool));
            let is_one_of_them = tools.len() < MOST_TOOLS || tools.contains_key(&tool);
            let tool = if is_one_of_them { tool } else { OTHER_TOOLS.to_owned() };
            *tools.entry(tool).or_default() += &counts;
        }
    })?;
    let rows = |(day, tools): (String, BTreeMap<String, Counts>)| {
        let row = move |(tool, counts)| DailyCounts { day: day.clone(), tool, counts };
        tools.into_iter().map(row)
    };
    Ok(sums.into_iter().flat_map(rows).collect())
}

fn lines(counted: &[DailyCounts]) -> io::Result<Vec<u8>> {
    let mut lines = Vec::new();
    for counted in counted {
        serde_json::to_writer(&mut lines, counted)?;
        lines.push(b'\n');
    }
    Ok(lines)
}

fn day(millis: i64) -> String {
    let time = jiff::Timestamp::from_millisecond(millis).unwrap_or_default();
    time.strftime("%Y-%m-%d").to_string()
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::sync::Arc;
    use std::thread;

    use tempfile::TempDir;

    use super::*;
    use crate::Store;
    use ctxfs_core::model::{Amount, Component};

    /// 13 January 2026, 15:30:45 UTC.
    const NOW: i64 = 1_768_318_245_000;
    const DAY: i64 = 24 * 60 * 60 * 1000;

    fn conversation() -> (TempDir, Arc<Conversation>) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let made = store.create_conversation(&Component::new("c").unwrap()).unwrap();
        (dir, made)
    }

    fn stored(bytes: u64) -> Counts {
        Counts { stored: Amount::once(bytes, bytes / 4), ..Counts::default() }
    }

    #[test]
    fn sums_are_by_day_and_tool() {
        let (_dir, conversation) = conversation();
        assert_eq!(conversation.counted().unwrap(), []);
        let tool = |name: &str| name.to_owned();
        conversation.count(NOW, [(tool("b"), stored(40)), (tool("a"), stored(4))]).unwrap();
        conversation.count(NOW, [(tool("b"), stored(60))]).unwrap();
        conversation.count(NOW - DAY, [(tool("b"), stored(8))]).unwrap();
        conversation.count(NOW, []).unwrap();
        let counted = conversation.counted().unwrap();
        let found: Vec<_> =
            counted.iter().map(|c| (&*c.day, &*c.tool, c.counts.stored.bytes)).collect();
        assert_eq!(
            found,
            [("2026-01-12", "b", 8), ("2026-01-13", "a", 4), ("2026-01-13", "b", 100)]
        );
    }

    #[test]
    fn what_is_torn_counts_for_nothing() {
        let (dir, conversation) = conversation();
        conversation.count(NOW, [("a".to_owned(), stored(4))]).unwrap();
        let path = dir.path().join("context/c").join(layout::COUNTS);
        let mut file = OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(b"{\"day\":\"2026-01-13\",\"tool\":\"a\",\"sto").unwrap();
        conversation.count(NOW, [("a".to_owned(), stored(5))]).unwrap();
        assert_eq!(
            conversation.counted().unwrap()[0].counts.stored,
            Amount { times: 2, bytes: 9, tokens: 2 }
        );
    }

    #[test]
    fn the_file_stays_small_and_nothing_is_lost() {
        let (dir, conversation) = conversation();
        thread::scope(|scope| {
            for number in 0..4 {
                let conversation = &conversation;
                scope.spawn(move || {
                    for _ in 0..1000 {
                        conversation.count(NOW, [(format!("tool-{number}"), stored(100))]).unwrap();
                    }
                });
            }
        });
        let counted = conversation.counted().unwrap();
        assert_eq!(counted.len(), 4);
        assert!(
            counted
                .iter()
                .all(|c| c.counts.stored == Amount { times: 1000, bytes: 100_000, tokens: 25_000 })
        );
        let size =
            std::fs::metadata(dir.path().join("context/c").join(layout::COUNTS)).unwrap().len();
        assert!(size < 2 * REWRITTEN, "{size}");
    }

    #[test]
    fn a_day_has_a_bounded_number_of_tools() {
        let (dir, conversation) = conversation();
        for first in 0..20 {
            let names =
                (0..200).map(|number| format!("{}-{}", first * 200 + number, "x".repeat(200)));
            conversation.count(NOW, names.map(|name| (name, stored(4)))).unwrap();
        }
        conversation.count(NOW, [("x".repeat(300), stored(4))]).unwrap();
        let counted = conversation.counted().unwrap();
        assert!(counted.len() <= MOST_TOOLS + 1, "{}", counted.len());
        let all: u64 = counted.iter().map(|counted| counted.counts.stored.times).sum();
        assert_eq!(all, 4001);
        let size = std::fs::metadata(dir.path().join("context/c").join(layout::COUNTS)).unwrap();
        assert!(size.len() < 1 << 20, "{}", size.len());
        conversation.count(NOW, [("0-".to_owned() + &"x".repeat(200), stored(4))]).unwrap();
        let again = conversation.counted().unwrap();
        assert_eq!(again.len(), counted.len(), "a tool that has a name keeps it");
    }
}
