//! A command that is killed, and the checks that must hold wherever that was.

use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::crash::sound::sound;
use crate::crash::stops::{Call, calls, calls_by_thread, each_once, traced, was_killed};
use crate::crash::{SAMPLE, chosen_of};
use crate::support::{Command, Output, TestStore};

/// A command that is killed.
pub(super) struct Case {
    /// Fills the store that it works on, and the directory beside it.
    pub(super) prepare: fn(&Ground),
    /// The command line, after `ctxfs --store STORE`; `BESIDE` stands for the directory beside the
    /// store.
    pub(super) command: &'static [&'static str],
    /// Its standard input.
    pub(super) input: fn() -> Vec<u8>,
    /// The check after the program was killed, in addition to those for every store.
    pub(super) check: fn(&Ground),
    /// The check after the program was then run again, with the result of that run.
    pub(super) again: fn(&Ground, &Output),
}

/// A store, and a directory beside it for other files.
pub(super) struct Ground {
    pub(super) store: TestStore,
    pub(super) beside: PathBuf,
}

impl Ground {
    pub(super) fn new() -> Self {
        let store = TestStore::new();
        let beside = store.scratch("beside");
        Self { store, beside }
    }

    /// Returns another one with the same files.
    fn copy(&self) -> Self {
        let other = Self::new();
        for (from, to) in
            [(self.store.path(), other.store.path()), (self.beside.clone(), other.beside.clone())]
        {
            Command::new("cp").arg("-aT").arg(from).arg(to).stdout();
        }
        other
    }

    fn arguments(&self, case: &Case) -> Vec<String> {
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let beside = text(&self.beside);
        let words = case.command.iter().map(|word| word.replace("BESIDE", &beside));
        ["--store".to_owned(), text(&self.store.path())].into_iter().chain(words).collect()
    }

    fn run(&self, case: &Case) -> Output {
        let command = Command::ctxfs().args(self.arguments(case)).stdin((case.input)());
        self.with_bucket(command).run()
    }

    /// Returns where the bucket is that this store shares.
    pub(super) fn bucket(&self) -> String {
        format!("file://{}/bucket", self.beside.display())
    }

    pub(super) fn with_bucket(&self, command: Command) -> Command {
        command.env("CTXFS_REMOTE_URL", self.bucket())
    }
}

impl Case {
    /// Kills it before one call after another.
    pub(super) fn run(&self) {
        self.kill(|trace| chosen_of(calls(trace, "VERSION"), SAMPLE));
    }

    /// Does that with a program whose threads make calls of their own. They are fewer, as
    /// each takes longer.
    pub(super) fn run_with_threads(&self) {
        self.kill(|trace| chosen_of(each_once(calls_by_thread(trace)), SAMPLE / 3));
    }

    fn kill(&self, chosen: fn(&Path) -> Vec<Call>) {
        let ground = Ground::new();
        (self.prepare)(&ground);
        let trace = self.trace(&ground.copy());
        let mut stopped = 0;
        for call in chosen(trace.path()) {
            let place = ground.copy();
            let trace = place.beside.with_extension("trace");
            let output = self.traced(&place, &call.options(), &trace);
            stopped += usize::from(was_killed(&output));
            println!("stopped before {call}");
            sound(&place.store);
            (self.check)(&place);
            let output = place.run(self);
            sound(&place.store);
            (self.again)(&place, &output);
        }
        assert!(stopped >= 5, "stopped {stopped} times");
    }

    fn traced(&self, place: &Ground, options: &[String], trace: &Path) -> Output {
        let run = traced(options, trace, &place.arguments(self)).stdin((self.input)());
        place.with_bucket(run).run()
    }

    /// Runs it once. Returns the trace of its calls.
    fn trace(&self, place: &Ground) -> NamedTempFile {
        let trace = NamedTempFile::new().unwrap();
        let output = self.traced(place, &[], trace.path());
        assert_eq!(output.code, 0, "{output}");
        sound(&place.store);
        (self.again)(place, &output);
        trace
    }
}
