//! Growth of the cost of one operation with the size of the store.
//!
//! All places show the same store, which is filled without a mount. The plain directory is the
//! directory of files in this store. Each round mounts again, so that the first access to a file is
//! measured too.

use std::fs;
use std::hint::black_box;
use std::path::Path;

use ctxfs_core::materialize::Analyzer;
use ctxfs_core::model::{Component, Folder, Record, RelPath};
use ctxfs_store::{Conversation, Store, stat_file};

use crate::measures::{log, seconds};
use crate::place::{Kind, Place};
use crate::table::Table;

/// Numbers of artifacts in a conversation. The last one is measured only with `--large`.
const ARTIFACTS: [usize; 3] = [1_000, 10_000, 100_000];
/// Numbers of conversations.
const CONVERSATIONS: [usize; 3] = [1, 10, 100];
/// Number of artifacts in each conversation.
const EACH: usize = 100;
/// Number of repetitions of an operation on one artifact.
const TIMES: usize = 200;
/// Number of records that are added at once.
const BATCH: usize = 1000;

/// Options of a measurement.
pub(crate) struct Scale<'a> {
    pub(crate) program: &'a Path,
    pub(crate) dir: &'a Path,
    pub(crate) rounds: usize,
    /// True to measure 100,000 artifacts as well.
    pub(crate) large: bool,
}

impl Scale<'_> {
    /// Measures one conversation with increasing numbers of artifacts.
    pub(crate) fn artifacts(&self, table: &mut Table) {
        for count in ARTIFACTS.into_iter().filter(|count| self.large || *count < 100_000) {
            self.with_store(1, count, |place, round| {
                let what = |row: &str| format!("{} artifacts: {row}", thousands(count));
                if place.kind != Kind::Plain {
                    table.add(
                        &what("mount, until it answers"),
                        "ms",
                        place.kind,
                        place.start * 1e3,
                    );
                }
                let dir = place.stored("c0");
                let row = what("the first of them opened and read");
                table.add(&row, "us", place.kind, read(&dir, 1, count, "") * 1e6);
                let row = what("one of them opened and read");
                table.add(&row, "us", place.kind, read(&dir, TIMES, count, "") * 1e6);
                if !place.is_bare() {
                    let view = if place.has_views() { ".summary" } else { "" };
                    let row = what("the first `.summary` (plain: the file itself)");
                    table.add(&row, "us", place.kind, read(&dir, 1, count, view) * 1e6);
                    let row = what("`.summary` of one of them (plain: the file itself)");
                    table.add(&row, "us", place.kind, read(&dir, TIMES, count, view) * 1e6);
                    let row = what("one more of 4 KB, and its `.summary` (plain: the file itself)");
                    let time = add(place, &["c0".to_owned()], round);
                    table.add(&row, "us", place.kind, time * 1e6);
                }
                let time = seconds(|| assert!(fs::read_dir(&dir).unwrap().count() >= count));
                table.add(&what("names"), "ms", place.kind, time * 1e3);
            });
        }
    }

    /// Measures increasing numbers of conversations of 100 artifacts.
    pub(crate) fn conversations(&self, table: &mut Table) {
        for count in CONVERSATIONS {
            self.with_store(count, EACH, |place, round| {
                if place.is_bare() {
                    return;
                }
                let ids: Vec<_> = (0..count).map(|number| format!("c{number}")).collect();
                let row = format!(
                    "{count} conversation(s) of 100: one more of 4 KB in each in turn, and its \
                     `.summary` (plain: the file itself)"
                );
                table.add(&row, "us", place.kind, add(place, &ids, round) * 1e6);
            });
        }
    }

    /// Calls `measure` with each place, over a store with the given numbers of conversations and
    /// artifacts.
    fn with_store(
        &self,
        conversations: usize,
        artifacts: usize,
        mut measure: impl FnMut(&Place, usize),
    ) {
        let own = self.dir.join("scale");
        let path = own.join("store");
        fs::create_dir(&own).unwrap();
        fill(&path, conversations, artifacts);
        for round in 0..self.rounds {
            for kind in Kind::all() {
                measure(&Place::over(&path, self.program, &own, kind), round);
            }
        }
        fs::remove_dir_all(&own).unwrap();
        rustix::fs::sync();
    }
}

/// Returns the mean time in seconds of `times` reads, each of one of `count` artifacts or its view
/// `view`.
fn read(dir: &Path, times: usize, count: usize, view: &str) -> f64 {
    // The step has no common factor with the counts, so it reaches each artifact.
    let paths: Vec<_> =
        (1..=times).map(|look| dir.join(format!("{}.txt{view}", look * 7919 % count))).collect();
    let time = seconds(|| {
        for path in &paths {
            black_box(fs::read(path).unwrap());
        }
    });
    time / times as f64
}

/// Returns the time in seconds of writing and reading an output, in one conversation after the
/// other.
fn add(place: &Place, ids: &[String], round: usize) -> f64 {
    let output = log(4096, 10);
    let view = if place.has_views() { ".summary" } else { "" };
    let path = |number: usize| {
        place.stored(&ids[number % ids.len()]).join(format!("new-{round}-{number}.txt"))
    };
    let time = seconds(|| {
        for number in 0..TIMES {
            let path = path(number);
            fs::write(&path, &output).unwrap();
            black_box(fs::read(format!("{}{view}", path.display())).unwrap());
        }
    });
    place.settle();
    for number in 0..TIMES {
        fs::remove_file(path(number)).unwrap();
    }
    time / TIMES as f64
}

/// Creates a store with `conversations` conversations. Each has `artifacts` short, sealed
/// artifacts.
fn fill(path: &Path, conversations: usize, artifacts: usize) {
    let store = Store::open(path).unwrap();
    for number in 0..conversations {
        let id = Component::new(format!("c{number}")).unwrap();
        let conversation = store.create_conversation(&id).unwrap();
        let dir = path.join("context").join(id.as_os_str());
        let mut records = Vec::with_capacity(BATCH);
        for number in 0..artifacts {
            records.push(leave(&dir, number));
            if records.len() == BATCH || number + 1 == artifacts {
                conversation.manifest().append(&records).unwrap();
                records.clear();
            }
        }
    }
    rustix::fs::sync();
}

/// Writes one artifact and returns its record.
fn leave(dir: &Path, number: usize) -> Record {
    let name = Component::new(format!("{number}.txt")).unwrap();
    let path = RelPath::artifact(Folder::Tool, &name);
    let text = format!("output {number} of a tool\n");
    let file = dir.join(path.as_os_str());
    fs::write(&file, &text).unwrap();
    let stat = stat_file(fs::File::open(&file).unwrap()).unwrap();
    let mut analyzer = Analyzer::new();
    analyzer.push(text.as_bytes());
    Record { analysis: Some(analyzer.finish()), ..Conversation::fresh_record(&path, &stat) }
}

fn thousands(count: usize) -> String {
    format!("{},{:03}", count / 1000, count % 1000)
}
