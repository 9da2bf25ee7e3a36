use std::fs;

use tempfile::TempDir;

use super::*;
use crate::{EngineOptions, Redaction};
use ctxfs_core::model::{Component, RelPath};
use ctxfs_core::redact::{SETS, SecretRules};
use ctxfs_models::extract::fixture::{Scripted, answers, failure};
use ctxfs_models::extract::{
    ExtractSettings, LanguageModel, ModelFailure, ModelFailureKind, ModelProfile, ModelReply,
    ModelRequest, Models, ProviderKind, TargetSettings,
};
use ctxfs_store::Store;
use ctxfs_view::fixture::Fixture;

const QUESTION: &str = "which disk is full?";
const LOG: &str = "start\nERROR disk sdb1 is full\nend\n";

/// A store with one conversation, and a model that follows a script.
struct AskedStore {
    dir: TempDir,
    tree: Tree,
    model: Arc<Scripted>,
}

impl AskedStore {
    fn new(model: Arc<Scripted>, options: EngineOptions) -> Self {
        let made = Arc::clone(&model) as _;
        Self::with((model, made), options, ExtractSettings::default())
    }

    /// The scripted `model` is called through `made`, which may wrap it.
    fn with(
        (model, made): (Arc<Scripted>, Arc<dyn LanguageModel>),
        options: EngineOptions,
        mut settings: ExtractSettings,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        store.create_conversation(&id()).unwrap();
        let target = TargetSettings {
            profile: model.profile().clone(),
            model: "a".to_owned(),
            kind: ProviderKind::OpenAi,
            base_url: "http://127.0.0.1:1".to_owned(),
            api_key_env: None,
        };
        settings.targets = vec![target];
        let models = Arc::new(Models::new(settings, move |_| Arc::clone(&made)));
        let tree = Tree::new(Engine::new(store, EngineOptions { models, ..options }));
        Self { dir, tree, model }
    }

    fn answering(text: &'static str) -> Self {
        let model = Scripted::new("a", move |request| answers(request, text)).with(|_| {});
        Self::new(model, EngineOptions::default())
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = PathBuf::from("c7/artifacts/tool").join(name);
        fs::write(self.dir.path().join("context").join(&path), text).unwrap();
        path
    }

    fn ask(&self, path: &Path, text: &str) -> Answer {
        let question = Question::new((text, Mode::Auto), &|| false, &|_| {});
        self.tree.answer(path, &question).unwrap()
    }

    fn conversation(&self) -> Arc<Conversation> {
        self.tree.engine.conversation(&id()).unwrap()
    }

    fn questions(&self) -> ctxfs_core::model::QuestionCounts {
        self.tree.engine.counts(None).unwrap().sums.total.questions
    }

    fn kept(&self) -> Vec<String> {
        let dir = self.dir.path().join("context/c7/history/answers");
        let names = fs::read_dir(dir).map(|dir| dir.map(|entry| entry.unwrap().file_name()));
        let names = names.map(|names| names.map(|name| name.into_string().unwrap()).collect());
        names.unwrap_or_default()
    }
}

fn id() -> Component {
    Component::new("c7").unwrap()
}

#[test]
fn the_same_question_about_the_same_bytes_is_asked_once() {
    let asked = AskedStore::answering("sdb1");
    let path = asked.write("a.txt", LOG);
    let first = asked.ask(&path, QUESTION);
    let again = asked.ask(&path, QUESTION);
    assert_eq!((first.cached, again.cached, asked.model.asked().len()), (false, true, 1));
    assert_eq!(first.text(), again.text());
    assert!(first.text().starts_with("ABSTRACT FROM TOOL OUTPUT unknown WITH HANDLE c7/a.txt, "));
    assert!(first.text().ends_with("STRATEGY:full-chunked:\n\nsdb1\n"), "{}", first.text());
    // The same bytes under another name, in the same conversation.
    assert!(asked.ask(&asked.write("b.txt", LOG), QUESTION).cached);
    assert!(!asked.ask(&path, "which disk is empty?").cached);
    asked.write("a.txt", &format!("{LOG}more\n"));
    assert!(!asked.ask(&path, QUESTION).cached, "the bytes are others");
}

#[test]
fn answers_go_with_their_output() {
    let asked = AskedStore::answering("sdb1");
    let path = asked.write("a.txt", LOG);
    asked.ask(&path, QUESTION);
    assert_eq!(asked.kept().len(), 1);
    let conversation = asked.conversation();
    let inside = RelPath::new("artifacts/tool/a.txt").unwrap();
    let stat = conversation.dir().stat_at(&inside).unwrap();
    let facts = asked.ask(&path, QUESTION).facts;
    let mut record = conversation.record_for(&inside, &stat).unwrap();
    record.analysis = Some(Fixture::analysed(LOG).analysis);
    assert_eq!(record.analysis.as_ref().unwrap().digest, facts.digest);
    conversation.manifest().append(&[record]).unwrap();
    let lock = conversation.manifest().lock().unwrap();
    conversation.forget_locked(&lock, &inside).unwrap();
    assert!(asked.kept().is_empty());
    assert!(!asked.dir.path().join("context/c7/history/answers").exists());
}

/// If another program removes or changes an output, the next answer deletes the output's old
/// answers.
#[test]
fn answers_about_bytes_that_are_gone_go_with_the_next_answer() {
    let asked = AskedStore::answering("sdb1");
    let path = asked.write("a.txt", LOG);
    asked.ask(&path, QUESTION);
    let before = asked.kept();
    asked.write("a.txt", "other bytes\n");
    asked.ask(&path, QUESTION);
    assert_eq!(asked.kept().len(), 1);
    assert_ne!(asked.kept(), before);
}

#[test]
fn the_log_and_the_counts_have_each_call() {
    let asked = AskedStore::answering("sdb1");
    let path = asked.write("a.txt", LOG);
    for _ in 0..3 {
        asked.ask(&path, QUESTION);
    }
    asked.ask(&path, "else?");
    let sums = asked.questions();
    assert_eq!((sums.times, sums.cached, sums.calls), (4, 2, 2));
    assert_eq!((sums.input, sums.output), (200, 20));
    assert_eq!(sums.nanodollars, 2 * (100 * 1000 + 10 * 4000));
    let log = asked.dir.path().join("context/c7/history/extractions.jsonl");
    let entries: Vec<serde_json::Value> = fs::read_to_string(log)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let [first, second, ..] = &entries[..] else { panic!("{entries:?}") };
    assert_eq!((&first["ref"], &first["question"]), (&"c7/a.txt".into(), &QUESTION.into()));
    assert_eq!((&first["asked"], &first["used"]), (&"auto".into(), &"full-chunked".into()));
    assert_eq!((&first["ended"], &first["preview"]), (&"answered".into(), &"sdb1".into()));
    assert_eq!(first["calls"][0]["kind"], "map");
    assert_eq!((first.get("cached"), &second["cached"]), (None, &true.into()));
    let read = asked.tree.engine.counts(None).unwrap().sums.total;
    assert_eq!((read.read.times, read.views.get("extract")), (4, Some(&4)));
    // Reads that an answer makes internally are not counted as reads.
    let question = Question::new(("other?", Mode::Truncate), &|| false, &|_| {});
    asked.tree.answer_about(Path::new("c7"), &question).unwrap();
    let read = asked.tree.engine.counts(None).unwrap().sums.total;
    assert_eq!(read.views.keys().collect::<Vec<_>>(), ["extract"]);
}

#[test]
fn what_costs_nothing_is_not_kept() {
    let model = Scripted::new("a", |_| failure(ModelFailureKind::Unavailable)).with(|_| {});
    let asked = AskedStore::new(model, EngineOptions::default());
    let answer = asked.ask(&asked.write("a.txt", LOG), QUESTION);
    assert_eq!(answer.extraction.used, Mode::Truncate);
    assert!(answer.text().contains("ERROR disk sdb1") && answer.text().contains("Warning: "));
    assert!(asked.kept().is_empty());
    assert_eq!((asked.questions().times, asked.questions().calls), (1, 1));
}

#[test]
fn a_question_that_nobody_waits_for_is_logged_with_its_cost() {
    let asked = AskedStore::answering("sdb1");
    let path = asked.write("a.txt", LOG);
    let stopped = AtomicBool::new(true);
    let is_stopped = || stopped.load(Relaxed);
    let question = Question::new((QUESTION, Mode::Auto), &is_stopped, &|_| {});
    let answer = asked.tree.answer(&path, &question).unwrap();
    assert!(answer.extraction.answer.unwrap_err().is_stop());
    let log = asked.dir.path().join("context/c7/history/extractions.jsonl");
    assert!(fs::read_to_string(log).unwrap().contains("\"ended\":\"stopped\""));
}

#[test]
fn no_secret_is_in_what_is_kept_and_shown() {
    const KEY: &str = "AKIAIOSFODNN7EXAMPLE";
    let rules = SecretRules::new(&SETS.iter().collect::<Vec<_>>(), &[]).unwrap();
    let redaction = Some(Redaction { rules: Arc::new(rules), stored: false });
    // The model invents a text that looks like a secret, and the question contains one.
    let model = Scripted::new("a", |request| answers(request, KEY)).with(|_| {});
    let asked = AskedStore::new(model, EngineOptions { redaction, ..Default::default() });
    let path = asked.write("a.txt", &format!("{LOG}key {KEY}\n"));
    let question = format!("is {KEY} in it?");
    let texts = [asked.ask(&path, &question).text(), asked.ask(&path, &question).text()];
    assert_eq!(asked.model.asked().len(), 1);
    let request = format!("{:?}", asked.model.asked()[0]);
    let kept = asked.kept().pop().unwrap();
    let history = asked.dir.path().join("context/c7/history");
    let kept = fs::read_to_string(history.join("answers").join(kept)).unwrap();
    let log = fs::read_to_string(history.join("extractions.jsonl")).unwrap();
    for (what, text) in [
        ("shown", &texts[0]),
        ("again", &texts[1]),
        ("kept", &kept),
        ("log", &log),
        ("model", &request),
    ] {
        assert!(!text.contains(KEY), "{what}: {text}");
    }
}

#[test]
fn a_question_about_a_conversation_reads_what_fits_it_first() {
    let asked = AskedStore::answering("sdb1");
    asked.write("noise.txt", "nothing of interest\n");
    asked.write("disk.txt", LOG);
    for number in 0..10 {
        asked.write(&format!("more-{number}.txt"), &format!("request {number} served\n"));
    }
    let question = Question::new((QUESTION, Mode::Auto), &|| false, &|_| {});
    let found = asked.tree.answer_about(Path::new("c7"), &question).unwrap();
    assert_eq!(found.read[0].facts.handle, "c7/disk.txt");
    assert_eq!((found.read.len(), found.others), (8, 4));
    assert!(found.text().contains("Read: c7/disk.txt, ") && found.text().contains("4 other"));
    // Each answer costs 110 tokens, and the request is counted before it is made.
    let most = Question { most_tokens: Some(1), ..question };
    let none = asked.tree.answer_each(&[asked.write("new.txt", "new\n")], &most).unwrap();
    assert_eq!(none.read[0].extraction.used, Mode::Truncate);
}

/// The cap limits outputs. An answer is a line of a log, to which the cap does not apply.
#[test]
fn a_cap_of_outputs_is_none_of_answers() {
    let model = Scripted::new("a", |request| answers(request, "sdb1")).with(|_| {});
    let options = EngineOptions { max_artifact: Some(10), ..EngineOptions::default() };
    let asked = AskedStore::new(model, options);
    let path = asked.write("a.txt", LOG);
    asked.ask(&path, QUESTION);
    assert!(asked.ask(&path, QUESTION).cached);
    assert_eq!((asked.questions().times, asked.questions().cached), (2, 1));
}

#[test]
fn one_output_that_cannot_be_read_takes_nothing_from_the_others() {
    let asked = AskedStore::answering("sdb1");
    let (path, none) = (asked.write("a.txt", LOG), PathBuf::from("c7/artifacts/tool/none.txt"));
    let question = Question::new((QUESTION, Mode::Auto), &|| false, &|_| {});
    let found = asked.tree.answer_each(&[none.clone(), path], &question).unwrap();
    assert_eq!((found.read.len(), &found.unreadable[0].0), (1, &none));
    assert!(found.text().contains("Read: c7/a.txt. c7/artifacts/tool/none.txt cannot be read: "));
    assert!(!found.have_failed());
    let found = asked.tree.answer_each(&[none.clone(), none.clone()], &question).unwrap();
    assert!(found.have_failed());
    assert!(asked.tree.answer_each(&[none], &question).is_err());
}

/// Opens the view that answers the question.
fn look(asked: &AskedStore, path: &Path, question: &str) -> Result<String> {
    let view = PathBuf::from(format!("{}.extract", path.display())).join(question);
    let opened = asked.tree.open(&view)?;
    Ok(String::from_utf8(opened.uncounted(10_000)?).unwrap())
}

/// A store whose views call a model.
fn viewed(model: Arc<Scripted>) -> AskedStore {
    let made = Arc::clone(&model) as _;
    let options = EngineOptions { view_deadline: Duration::from_hours(1), ..Default::default() };
    AskedStore::with((model, made), options, with_views())
}

fn with_views() -> ExtractSettings {
    ExtractSettings { view: true, ..ExtractSettings::default() }
}

/// A model that answers slowly.
struct Slow(Arc<Scripted>);

impl LanguageModel for Slow {
    fn profile(&self) -> &ModelProfile {
        self.0.profile()
    }

    fn ask(
        &self,
        request: &ModelRequest,
        stopped: &Stopped<'_>,
    ) -> std::result::Result<ModelReply, ModelFailure> {
        for _ in 0..30 {
            assert!(!stopped());
            std::thread::sleep(Duration::from_millis(10));
        }
        self.0.ask(request, stopped)
    }
}

#[test]
fn a_look_asks_once_and_only_where_the_settings_say_so() {
    let without = AskedStore::answering("never");
    let path = without.write("x.txt", LOG);
    let error = look(&without, &path, QUESTION).unwrap_err();
    assert!(matches!(error, EngineError::NotFound), "{error}");
    let model = Scripted::new("a", move |request| answers(request, "sdb1")).with(|_| {});
    let asked = viewed(model);
    let path = asked.write("x.txt", LOG);
    for _ in 0..2 {
        let text = look(&asked, &path, QUESTION).unwrap();
        assert!(text.starts_with("ABSTRACT FROM TOOL OUTPUT") && text.ends_with("\nsdb1\n"));
    }
    assert!(look(&asked, &path, "a%2Fb or c?").unwrap().ends_with("\nsdb1\n"));
    assert_eq!(asked.model.asked().len(), 2);
    assert!(look(&asked, Path::new("c7/artifacts/tool/none.txt"), QUESTION).is_err());
    asked.tree.engine.finish();
    // The door counts the reads of a view.
    assert_eq!((asked.questions().times, asked.questions().calls), (3, 2));
}

#[test]
fn a_reader_does_not_wait_for_a_slow_model() {
    let model = Scripted::new("a", move |request| answers(request, "sdb1")).with(|_| {});
    let slow = Arc::new(Slow(Arc::clone(&model)));
    let options = EngineOptions { view_deadline: Duration::from_millis(10), ..Default::default() };
    let asked = AskedStore::with((model, slow), options, with_views());
    let path = asked.write("x.txt", LOG);
    assert!(look(&asked, &path, QUESTION).unwrap().starts_with("# a model is reading"));
    assert!(look(&asked, &path, QUESTION).unwrap().ends_with("\nsdb1\n"));
    assert_eq!(asked.model.asked().len(), 1);
}

#[test]
fn a_failure_is_not_paid_for_at_each_look() {
    let model = Scripted::new("a", |_| failure(ModelFailureKind::Rejected));
    let asked = viewed(model.with(|_| {}));
    let path = asked.write("x.txt", LOG);
    let first = look(&asked, &path, QUESTION).unwrap();
    assert!(
        first.contains("the endpoint is rejected") && first.contains("ERROR disk sdb1"),
        "{first}"
    );
    assert_eq!(look(&asked, &path, QUESTION).unwrap(), first);
    assert_eq!(asked.model.asked().len(), 1);
    look(&asked, &path, "another question").unwrap();
    assert_eq!(asked.model.asked().len(), 2);
}

#[test]
fn an_output_is_read_without_escape_sequences() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    store.create_conversation(&Component::new("c7").unwrap()).unwrap();
    let path = dir.path().join("context/c7/artifacts/tool/x.txt");
    std::fs::write(path, "one\n\x1b[31mERROR\x1b[0m two\nthree/four\n").unwrap();
    let tree = Tree::new(Engine::new(store, EngineOptions::default()));
    tree.with_document(Path::new("c7/artifacts/tool/x.txt"), |document| {
        let all = document.content().bytes(0, 1000).unwrap();
        assert_eq!(String::from_utf8(all).unwrap(), "one\nERROR two\nthree/four\n");
        assert_eq!((document.facts().lines, &*document.facts().handle), (3, "c7/x.txt"));
        assert_eq!(document.view("lines/2").unwrap(), "ERROR two\n");
        assert_eq!(document.view("grep/-F -e three%2Ffour").unwrap(), "3:three/four\n");
        assert!(document.view("lines/9").is_err() && document.view("nothing").is_err());
    })
    .unwrap();
    let other = |path: &str| tree.with_document(Path::new(path), |_| ());
    assert!(other("c7/artifacts/tool").is_err() && other("c7/artifacts/tool/x.txt.tail").is_err());
    Arc::clone(&tree.engine).finish();
}

#[test]
fn other_bytes_of_the_same_size_and_time_have_no_old_answer() {
    let asked = AskedStore::answering("sdb1");
    let path = asked.write("a.txt", LOG);
    let file = asked.dir.path().join("context").join(&path);
    asked.ask(&path, QUESTION);
    let modified = fs::metadata(&file).unwrap().modified().unwrap();
    asked.write("a.txt", &LOG.replace('1', "2"));
    fs::File::open(&file).unwrap().set_modified(modified).unwrap();
    for is_cached in [false, true] {
        assert_eq!(asked.ask(&path, QUESTION).cached, is_cached);
    }
    assert_eq!(asked.model.asked().len(), 2);
}

#[test]
fn a_question_that_is_being_asked_is_not_asked_again() {
    let model = Scripted::new("a", move |request| answers(request, "sdb1")).with(|_| {});
    let slow = Arc::new(Slow(Arc::clone(&model)));
    let settings = ExtractSettings::default();
    let asked = AskedStore::with((model, slow), EngineOptions::default(), settings);
    let path = asked.write("a.txt", LOG);
    let cached: Vec<bool> = std::thread::scope(|scope| {
        let ask = || scope.spawn(|| asked.ask(&path, QUESTION).cached);
        let asking = [ask(), ask(), ask()];
        asking.map(|one| one.join().unwrap()).into()
    });
    assert_eq!(cached.iter().filter(|cached| **cached).count(), 2);
    assert_eq!(asked.model.asked().len(), 1);
    for dir in ["context/c7", "context/c7/history"] {
        let entries = fs::read_dir(asked.dir.path().join(dir)).unwrap();
        let names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        assert!(!names.iter().any(|name| name.to_string_lossy().contains("asking")), "{names:?}");
    }
}
