//! The manifest on a real disk.

mod digits;
mod elsewhere;

use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use std::{fs, thread};

use tempfile::TempDir;

use super::*;
use ctxfs_core::model::{
    Analysis, ArtifactState, Encoding, ErrorLine, ErrorRank, Errors, Json, LocalFile, LooseJson,
    Provenance, Reading, Removal, Repeated, Section, Sections,
};

struct Scene {
    _temporary: TempDir,
    file: PathBuf,
    dir: Dir,
    manifest: Manifest,
}

impl Scene {
    fn new() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let dir = Dir::open(temporary.path()).unwrap();
        let file = temporary.path().join("manifest.jsonl");
        let manifest = open(&dir);
        Self { _temporary: temporary, file, dir, manifest }
    }

    fn append(&self, records: &[Record]) {
        self.manifest.append(records).unwrap();
    }

    fn generation(&self, path: &str) -> Option<u64> {
        self.manifest.record(path).unwrap().map(|record| record.generation)
    }

    fn paths(&self) -> Vec<String> {
        let records = all(self.manifest.records());
        records.into_iter().map(|record| record.path).collect()
    }

    fn write_raw(&self, bytes: &[u8]) {
        let mut file = fs::OpenOptions::new().append(true).create(true).open(&self.file).unwrap();
        file.write_all(bytes).unwrap();
    }

    fn lines(&self) -> usize {
        fs::read_to_string(&self.file).unwrap().lines().count()
    }
}

fn all(records: Result<StoredRecords, StoreError>) -> Vec<Record> {
    records.unwrap().map(Result::unwrap).collect()
}

fn open(dir: &Dir) -> Manifest {
    Manifest::new(Arc::new(dir.try_clone().unwrap()), PathBuf::from("manifest.jsonl"))
}

fn sealed(path: &str, generation: u64) -> Record {
    Record { path: path.into(), generation, state: ArtifactState::Sealed, ..Record::default() }
}

fn gone(path: &str) -> Record {
    Record { state: ArtifactState::Gone, ..sealed(path, 1) }
}

fn full() -> Record {
    let errors = Errors {
        count: 1,
        shown: vec![ErrorLine {
            line: 4410,
            offset: 224_876,
            length: 25,
            rank: ErrorRank::Logged,
            times: 3,
            last: None,
        }],
        words: vec!["timeout".into()],
    };
    let analysis = Analysis {
        bytes: 412_908,
        chars: 412_640,
        lines: 8112,
        longest_line: 240,
        encoding: Encoding::Utf8,
        tokens: 103_000,
        json: Json::No,
        loose: LooseJson::default(),
        errors,
        digest: "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262".into(),
        mime: "text/plain".into(),
        trouble: Vec::new(),
        unlike: Vec::new(),
        statuses: Vec::new(),
        repeated: vec![Repeated {
            count: 812,
            about: false,
            equal: true,
            first: 3,
            last: 8110,
            offset: 77,
            length: 15,
        }],
        sections: Sections {
            count: 1,
            shown: vec![Section { line: 12, last: 80, offset: 400, length: 8 }],
        },
        plain: None,
        reading: Reading::default(),
        charset: None,
        overdrawn: 0,
        shortcuts: None,
        version: 1,
    };
    Record {
        path: "artifacts/tool/9f3k.txt".into(),
        generation: 1,
        state: ArtifactState::Sealed,
        size: 412_908,
        modified: 1_763_755_201_250_000_000,
        file: Some(LocalFile {
            dev: 66_305,
            ino: 791,
            born: Some(1_763_755_200_000_000_000),
            changed: 1_763_755_201_250_000_000,
            copied: None,
        }),
        created: 1_763_755_200_000,
        owner: None,
        provenance: Provenance {
            tool: Some("exec".into()),
            server: Some("shell".into()),
            args: Some(r#"{"command":"make test"}"#.into()),
            exit_code: Some(0),
            ..Provenance::default()
        },
        analysis: Some(analysis),
        view_sizes: None,
        once: false,
        removed: None,
        far: None,
        since: None,
    }
}

#[test]
fn the_last_record_of_a_path_wins() {
    let scene = Scene::new();
    assert_eq!(scene.generation("a"), None);
    assert_eq!(scene.paths(), [""; 0]);
    scene.append(&[sealed("a", 1), sealed("b", 1)]);
    scene.append(&[sealed("a", 2)]);
    assert_eq!(scene.generation("a"), Some(2));
    assert_eq!(scene.generation("b"), Some(1));
    assert_eq!(scene.paths(), ["b", "a"]);
    scene.append(&[gone("a")]);
    assert_eq!(scene.generation("a"), None);
    assert_eq!(scene.paths(), ["b"]);
    scene.append(&[sealed("a", 1)]);
    assert_eq!(scene.generation("a"), Some(1));
}

#[test]
fn a_record_comes_back_as_it_was() {
    let scene = Scene::new();
    let incomplete = Record {
        state: ArtifactState::Incomplete("no \"room\"\n".into()),
        path: "odd \u{1f980} \"name\"\\".into(),
        ..full()
    };
    scene.append(&[full(), incomplete.clone()]);
    assert_eq!(scene.manifest.record(&full().path).unwrap(), Some(full()));
    assert_eq!(scene.manifest.record(&incomplete.path).unwrap(), Some(incomplete));
}

#[test]
fn a_torn_tail_is_skipped_and_repaired() {
    let scene = Scene::new();
    scene.append(&[sealed("a", 1)]);
    scene.write_raw(br#"{"path":"b","generation":1,"sta"#);
    assert_eq!(scene.paths(), ["a"]);
    scene.append(&[sealed("c", 1)]);
    assert_eq!(scene.paths(), ["a", "c"]);
    assert_eq!(Scene { manifest: open(&scene.dir), ..scene }.paths(), ["a", "c"]);
}

#[test]
fn a_tail_that_lacks_only_its_newline_counts_once_it_has_one() {
    let scene = Scene::new();
    let mut line = Vec::new();
    index::print(&[sealed("a", 1)], &mut line).unwrap();
    scene.write_raw(&line[..line.len() - 1]);
    assert_eq!(scene.paths(), [""; 0]);
    scene.append(&[sealed("b", 1)]);
    assert_eq!(scene.paths(), ["a", "b"]);
}

#[test]
fn lines_that_are_no_record_are_passed_over() {
    let scene = Scene::new();
    scene.append(&[sealed("a", 1)]);
    scene.write_raw(b"\n\0\0\0\0\nnot json\n[1,2]\n{\"path\":\"a\"}\n\xff\xfe\n");
    scene.write_raw(b"{\"path\":\"a\",\"state\":\"from the future\",\"generation\":9}\n");
    scene.append(&[sealed("b", 1)]);
    assert_eq!(scene.generation("a"), Some(1));
    assert_eq!(scene.paths(), ["a", "b"]);
}

#[test]
fn unknown_fields_and_an_unknown_analysis_are_tolerated() {
    let scene = Scene::new();
    let line = r#"{"path":"a","generation":3,"state":"sealed","size":1,"modified":2,"created":3,
        "colour":{"of":["the","sky"]},"tool":"exec","analysis":{"bytes":"many"}}"#;
    scene.write_raw(format!("{}\n", line.replace('\n', "")).as_bytes());
    let record = scene.manifest.record("a").unwrap().unwrap();
    assert_eq!((record.generation, record.analysis), (3, None));
    assert_eq!(record.provenance.tool.as_deref(), Some("exec"));
}

#[test]
fn an_analysis_of_an_older_version_is_valid() {
    let scene = Scene::new();
    let mut line = serde_json::to_value(full()).unwrap();
    let analysis = line["analysis"].as_object_mut().unwrap();
    for field in ["repeated", "sections", "version"] {
        assert!(analysis.remove(field).is_some(), "{field}");
    }
    scene.write_raw(format!("{line}\n").as_bytes());
    let found = scene.manifest.record(&full().path).unwrap().unwrap().analysis.unwrap();
    assert_eq!((found.lines, found.version), (8112, 0));
    assert!(found.repeated.is_empty() && found.sections.is_empty());
}

#[test]
fn what_others_add_is_seen_at_once() {
    let scene = Scene::new();
    let other = open(&scene.dir);
    for generation in 1..=20 {
        other.append(&[sealed("a", generation)]).unwrap();
        assert_eq!(scene.generation("a"), Some(generation));
        scene.append(&[sealed("b", generation)]);
        assert_eq!(other.record("b").unwrap(), Some(sealed("b", generation)));
    }
}

#[test]
fn a_lost_or_replaced_manifest_is_read_anew() {
    let scene = Scene::new();
    scene.append(&[sealed("a", 1), sealed("b", 1)]);
    assert_eq!(scene.paths(), ["a", "b"]);
    fs::remove_file(&scene.file).unwrap();
    assert_eq!(scene.paths(), [""; 0]);
    scene.append(&[sealed("c", 1)]);
    assert_eq!(scene.paths(), ["c"]);
    fs::write(&scene.file, b"").unwrap();
    assert_eq!(scene.paths(), [""; 0]);
}

#[test]
fn the_version_changes_with_the_records() {
    let scene = Scene::new();
    let version = || scene.manifest.version().unwrap();
    let before = version();
    scene.append(&[sealed("a", 1)]);
    let after = version();
    assert_ne!(before, after);
    assert_eq!(after, version());
    scene.manifest.compact().unwrap();
    assert_ne!(after, version());
}

#[test]
fn compaction_keeps_what_counts() {
    let scene = Scene::new();
    let reader = open(&scene.dir);
    for generation in 1..=10 {
        scene.append(&[sealed("a", generation), sealed("b", generation), sealed("c", 1)]);
    }
    scene.append(&[gone("c"), full()]);
    scene.write_raw(b"{\"torn");
    assert_eq!(all(reader.records()).len(), 3);
    scene.manifest.compact().unwrap();
    assert_eq!(scene.lines(), 3);
    assert_eq!(scene.paths(), ["a", "b", "artifacts/tool/9f3k.txt"]);
    assert_eq!(reader.record("a").unwrap(), Some(sealed("a", 10)));
    assert_eq!(reader.record(&full().path).unwrap(), Some(full()));
}

#[test]
fn traces_stay_whatever_follows() {
    let scene = Scene::new();
    let trace = sealed("a", 1).retired(4, 5, Removal::unlinked(6));
    let rule = sealed("b", 1).retired(4, 5, Removal { at: 1, ..Removal::default() });
    for number in 1..=3 {
        scene.append(&[sealed("a", number), rule.clone()]);
        scene.append(std::slice::from_ref(&trace));
    }
    scene.append(&[sealed("a", 9), gone("b")]);
    for _ in 0..2 {
        assert_eq!(all(scene.manifest.traces()), vec![trace.clone(); 3]);
        assert_eq!((scene.generation("a"), scene.generation("b")), (Some(9), None));
        assert_eq!(all(open(&scene.dir).traces()).len(), 3);
        scene.manifest.compact().unwrap();
        assert_eq!(scene.lines(), 4);
    }
    scene.append(&[gone("a")]);
    scene.manifest.compact().unwrap();
    // The trace of a file that is gone stays as the last line of its path.
    let last = scene.manifest.record("a").unwrap();
    assert_eq!((scene.lines(), last), (3, Some(trace)));
    assert!(scene.manifest.has_traces().unwrap());
}

#[test]
fn what_is_taken_back_counts_for_nothing() {
    let scene = Scene::new();
    scene.append(&[sealed("a", 1)]);
    for torn in [&b""[..], b"{\"path\":\"x\""] {
        scene.write_raw(torn);
        let lock = scene.manifest.lock().unwrap();
        let many: Vec<_> = (0..100).map(|number| sealed("new", number)).collect();
        let appended =
            lock.append_all([vec![gone("a")], many].concat().into_iter().map(Ok)).unwrap();
        lock.take_back(&appended).unwrap();
        lock.append(&[sealed("b", 2)]).unwrap();
        scene.manifest.read_again();
        drop(lock);
        for manifest in [&scene.manifest, &open(&scene.dir)] {
            let generation = |path: &str| manifest.record(path).unwrap().map(|at| at.generation);
            assert_eq!(
                [generation("a"), generation("b"), generation("new")],
                [Some(1), Some(2), None]
            );
        }
    }
}

#[test]
fn a_file_that_is_mostly_dead_is_compacted_by_itself() {
    let scene = Scene::new();
    for generation in 1..=3000 {
        scene.append(&[sealed("a", generation)]);
        if generation % 100 == 0 {
            assert_eq!(scene.generation("a"), Some(generation));
        }
    }
    assert!(scene.lines() < 2000, "{} lines", scene.lines());
    assert_eq!(scene.generation("a"), Some(3000));
}

#[test]
fn appends_and_compactions_at_once_lose_nothing() {
    let scene = Scene::new();
    let (writers, each) = (8, 60);
    thread::scope(|scope| {
        for writer in 0..writers {
            let dir = &scene.dir;
            scope.spawn(move || append_many(dir, writer, each));
        }
        scope.spawn(|| {
            for _ in 0..20 {
                open(&scene.dir).compact().unwrap();
            }
        });
    });
    assert_eq!(scene.paths().len(), writers * each);
}

const CHILD: &str = "CTXFS_TEST_APPENDER";

#[test]
fn processes_at_once_lose_nothing() {
    if std::env::var_os(CHILD).is_some() {
        return;
    }
    let scene = Scene::new();
    let dir = scene.file.parent().unwrap();
    let mut children: Vec<_> = (0..3).map(|writer| child(dir, writer)).collect();
    append_many(&scene.dir, 3, 200);
    scene.manifest.compact().unwrap();
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(scene.paths().len(), 4 * 200);
}

/// Not a test: runs in the child processes of `processes_at_once_lose_nothing`.
#[test]
fn append_as_a_child() {
    let Some(what) = std::env::var_os(CHILD) else { return };
    let what = what.into_string().unwrap();
    let (writer, dir) = what.split_once(' ').unwrap();
    append_many(&Dir::open(Path::new(dir)).unwrap(), writer.parse().unwrap(), 200);
}

fn child(dir: &Path, writer: usize) -> std::process::Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "manifest::tests::append_as_a_child"])
        .env(CHILD, format!("{writer} {}", dir.display()))
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap()
}

fn append_many(dir: &Dir, writer: usize, count: usize) {
    let manifest = open(dir);
    for i in 0..count {
        manifest.append(&[sealed(&format!("{writer}/{i}"), 1)]).unwrap();
        // This makes the appends last as long as the compactions.
        thread::sleep(Duration::from_millis(1));
    }
}

fn ran(path: &str, created: i64, run: &str) -> Record {
    let provenance = Provenance { run: Some(run.to_owned()), ..Provenance::default() };
    Record { created, provenance, ..sealed(path, 1) }
}

#[test]
fn the_runs_of_a_command_are_found() {
    let scene = Scene::new();
    let paths = |created| -> Vec<String> {
        all(scene.manifest.runs("make", created)).into_iter().map(|record| record.path).collect()
    };
    assert_eq!(paths(9), [""; 0]);
    scene.append(&[ran("b", 2, "make"), ran("x", 2, "ls"), ran("a", 1, "make"), sealed("y", 1)]);
    scene.append(&[ran("c", 3, "make"), ran("d", 4, "make")]);
    assert_eq!(paths(9), ["a", "b", "c", "d"]);
    assert_eq!(paths(3), ["a", "b"]);
    let mut back = scene.manifest.runs("make", 4).unwrap();
    assert_eq!(back.next_back().unwrap().unwrap().path, "c");
    assert_eq!(back.lines.len(), 2);
    scene.append(&[Record { state: ArtifactState::Gone, ..ran("b", 2, "make") }]);
    // Nothing is known of the command of a path that is gone.
    scene.append(&[gone("d")]);
    assert_eq!(paths(9), ["a", "c"]);
    scene.manifest.compact().unwrap();
    assert_eq!(paths(9), ["a", "c"]);
    assert_eq!(all(open(&scene.dir).runs("make", 9)).len(), 2);
}

#[test]
fn a_hundred_thousand_runs_cost_little() {
    let scene = Scene::new();
    let run = |n: i64| ran(&format!("artifacts/tool/call-{n}.txt"), n, &format!("{:016x}", n % 9));
    scene.append(&(0..100_000).map(run).collect::<Vec<_>>());
    assert_eq!(scene.manifest.runs(&format!("{:016x}", 1), 50_000).unwrap().lines.len(), 5556);
    let memory = scene.manifest.index.lock().memory();
    assert!(memory < 12 * 1024 * 1024, "{memory} bytes");
}

#[test]
fn a_hundred_thousand_records_cost_little() {
    let scene = Scene::new();
    let mut records = vec![full(); 100_000];
    for (i, record) in records.iter_mut().enumerate() {
        record.path = format!("artifacts/tool/call-{i}.txt");
    }
    scene.append(&records);
    assert_eq!(scene.generation("artifacts/tool/call-99999.txt"), Some(1));
    let memory = scene.manifest.index.lock().memory();
    assert!(memory < 8 * 1024 * 1024, "{memory} bytes");
    assert_eq!(all(scene.manifest.records()), records);
}

#[test]
fn the_documented_line_is_a_record() {
    let document = include_str!("../../../docs/FORMAT.md");
    let line = document.lines().find(|line| line.starts_with(r#"{"path""#)).unwrap();
    assert!(index::IndexedRecord::of(line.as_bytes()).is_some());
    assert_eq!(index::parse(line.as_bytes()), Some(full()));
    assert_eq!(serde_json::to_string(&full()).unwrap(), line);
}

#[test]
fn a_record_has_a_place_of_its_own() {
    let scene = Scene::new();
    let position = |path| scene.manifest.position(&RelPath::new(path).unwrap()).unwrap();
    assert_eq!(position("a"), None);
    scene.append(&[sealed("a", 1)]);
    let first = position("a");
    assert!(first.is_some());
    scene.append(&[sealed("b", 1)]);
    assert_eq!(position("a"), first, "that of another path is nothing to it");
    scene.append(&[sealed("a", 1)]);
    let mut seen = vec![first, position("a")];
    for _ in 0..4 {
        // The disk reuses the same inode, and the record has the same offset.
        scene.manifest.compact().unwrap();
        seen.push(position("a"));
    }
    let all = seen.len();
    seen.sort_unstable_by_key(|position| format!("{position:?}"));
    seen.dedup();
    assert_eq!(seen.len(), all);
    scene.append(&[gone("a")]);
    assert_eq!(position("a"), None);
}
