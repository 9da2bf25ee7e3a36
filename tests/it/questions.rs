//! Questions to real outputs: `tests/questions` has what each asks, and the passage that answers.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::{fs, thread};

use ctxfs_core::model::Limits;
use serde::Deserialize;

use crate::support::TestStore;

/// Fewest questions, and the fewest kinds of outputs that they are put to.
const QUESTIONS: usize = 60;
const KINDS: usize = 12;
/// The least part of the questions whose answer comes first, and whose reply has it, in percent.
const FIRST: usize = 80;
const FOUND: usize = 95;
/// The bytes that half of the replies stay below.
const MEDIAN: usize = 2048;
/// Threads that ask.
const THREADS: usize = 4;

/// The questions to one output.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Questions {
    kind: String,
    question: Vec<Question>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    ask: String,
    /// The lines any of which the answer is in: first and last.
    lines: Vec<(usize, usize)>,
    /// A part of the answer.
    holds: String,
}

/// What a question was answered.
struct Answer {
    /// The output and the question.
    asked: String,
    reply: String,
    /// The place of the right passage in the reply, from 0. None if it is not there.
    place: Option<usize>,
}

fn directories() -> Vec<PathBuf> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/questions");
    let mut all: Vec<PathBuf> =
        fs::read_dir(top).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

/// Returns the passages of a reply.
fn passages(reply: &str) -> impl Iterator<Item = &str> {
    let is_notice = |line: &str| line.starts_with("# ") && !line.starts_with("# .");
    let notices = reply.split_inclusive('\n').take_while(|line| is_notice(line));
    reply[notices.map(str::len).sum()..].split("--\n").filter(|passage| !passage.is_empty())
}

/// Returns the number of the line that is shown.
fn number(shown: &str) -> Option<usize> {
    shown.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

impl Question {
    /// Returns true if `passage` shows the answer.
    fn is_answered_by(&self, passage: &str) -> bool {
        let wanted: Vec<RangeInclusive<usize>> =
            self.lines.iter().map(|(first, last)| *first..=*last).collect();
        let mut numbers = passage.lines().filter_map(number);
        passage.contains(&self.holds)
            && numbers.any(|number| wanted.iter().any(|lines| lines.contains(&number)))
    }

    fn ask(&self, store: &TestStore, name: &str) -> Answer {
        let words = self.ask.replace('%', "%25").replace('/', "%2F");
        let path = format!("q/artifacts/tool/{name}.find/{words}");
        let bytes = store.view(&path);
        assert_eq!(bytes, store.view(&path), "{path}");
        assert!(bytes.len() <= Limits::STAND_IN_BYTES, "{path}: {} bytes", bytes.len());
        let reply = String::from_utf8(bytes).unwrap();
        let place = passages(&reply).position(|passage| self.is_answered_by(passage));
        Answer { asked: format!("{name}: {}", self.ask), reply, place }
    }
}

impl Answer {
    /// Returns what is not as it should be; an empty text if nothing is.
    fn fault(&self) -> String {
        match self.place {
            Some(0) => String::new(),
            Some(place) => format!("{} (answered in place {})\n", self.asked, place + 1),
            None => format!("{} (not answered)\n{}\n", self.asked, self.reply),
        }
    }
}

/// Puts the questions to one output. Returns its kind, and the answers.
fn ask_all(store: &TestStore, dir: &Path) -> (String, Vec<Answer>) {
    let text = fs::read_to_string(dir.join("questions.toml")).unwrap();
    let Questions { kind, question } =
        toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let call = dir.file_name().unwrap().to_str().unwrap();
    let name = store.put("q", call, &fs::read(dir.join("output")).unwrap());
    (kind, question.iter().map(|question| question.ask(store, &name)).collect())
}

#[test]
fn questions_are_answered_first_and_shortly() {
    let (store, dirs) = (TestStore::new(), directories());
    let ask = |dirs: &[PathBuf]| dirs.iter().map(|dir| ask_all(&store, dir)).collect();
    let asked: Vec<(String, Vec<Answer>)> = thread::scope(|scope| {
        let parts = dirs.chunks(dirs.len().div_ceil(THREADS));
        let threads: Vec<_> = parts.map(|part| scope.spawn(|| ask(part))).collect();
        threads.into_iter().flat_map(|thread| -> Vec<_> { thread.join().unwrap() }).collect()
    });
    let (mut kinds, answers): (Vec<String>, Vec<Vec<Answer>>) = asked.into_iter().unzip();
    kinds.sort();
    kinds.dedup();
    let answers: Vec<Answer> = answers.into_iter().flatten().collect();
    let (all, kinds) = (answers.len(), kinds.len());
    let first = answers.iter().filter(|answer| answer.place == Some(0)).count();
    let found = answers.iter().filter(|answer| answer.place.is_some()).count();
    let mut lengths: Vec<usize> = answers.iter().map(|answer| answer.reply.len()).collect();
    lengths.sort_unstable();
    let median = lengths[all / 2];
    assert!(
        all >= QUESTIONS
            && kinds >= KINDS
            && 100 * first >= FIRST * all
            && 100 * found >= FOUND * all
            && median < MEDIAN,
        "{}of {all} to {kinds} kinds, {first} were answered first, {found} at all; {median} bytes",
        answers.iter().map(Answer::fault).collect::<String>()
    );
}
