use std::fs;
use std::sync::Arc;

use tempfile::TempDir;

use super::*;
use crate::far::tests::{MODIFIED, expected};
use crate::{ImportOptions, Store};

/// A far store in which the bytes of each artifact are its path. Opening `gone.txt` fails, and
/// `wrong.txt` has other bytes.
#[derive(Debug)]
struct Elsewhere;

impl FarStore for Elsewhere {
    fn open(&self, _: &Component, record: &Record) -> io::Result<FarFile> {
        let bytes = match &record.path {
            path if path.ends_with("gone.txt") => {
                return Err(io::Error::from_raw_os_error(libc::ESTALE));
            }
            path if path.ends_with("wrong.txt") => path.replace("wrong", "other"),
            path => path.clone(),
        };
        let attribute = |name: &str| (OsString::from(name), b"v".to_vec());
        let attributes = vec![attribute("user.other"), attribute("trusted.other")];
        Ok(FarFile { content: Arc::new(bytes.into_bytes()), attributes })
    }
}

struct Scene {
    dir: TempDir,
    conversation: Arc<Conversation>,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let conversation = store.create_conversation(&Component::new("c7").unwrap()).unwrap();
        Self { dir, conversation }
    }

    fn expect(&self, name: &str) {
        let path = format!("artifacts/{name}");
        let bytes = path.as_bytes();
        expected(&self.conversation, &RelPath::new(&path).unwrap(), bytes).unwrap();
    }

    fn export(&self, far: Option<&dyn FarStore>) -> (Vec<u8>, Exported) {
        let (mut archive, mut progress) = (Vec::new(), 0);
        let parts = ExportParts { log: None, far };
        let mut count = |bytes: u64| progress += bytes;
        let done = export(&self.conversation, parts, &mut archive, &mut count).unwrap();
        if done.unread.is_empty() {
            assert_eq!(progress, bytes_to_export(&self.conversation).unwrap());
        }
        (archive, done)
    }

    /// Imports an archive into a new store.
    fn import(archive: &[u8]) -> Self {
        let most = u64::MAX;
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let options = ImportOptions {
            id: None,
            most_bytes: most,
            most_files: most,
            min_free: 0,
            quota: None,
        };
        store.import(archive, &options).unwrap();
        let conversation = store.conversation(&Component::new("c7").unwrap()).unwrap().unwrap();
        Self { dir, conversation }
    }
}

fn named(exported: &Exported) -> Vec<(&str, &str)> {
    exported.unread.named().iter().map(|place| (&*place.path, &*place.why)).collect()
}

#[test]
fn what_is_elsewhere_is_exported_in_its_place() {
    let one = Scene::new();
    let far = ["tool/b.txt", "tool/b/x.txt", "tool/b-c/x.txt", "tool/z.txt", "terminal/x.log"];
    for name in far {
        one.expect(name);
    }
    let tool = one.dir.path().join("context/c7/artifacts/tool");
    for name in ["a.txt", "b/a.txt", "c.txt"] {
        fs::write(tool.join(name), name).unwrap();
    }
    let (archive, done) = one.export(Some(&Elsewhere));
    assert_eq!((named(&done), done.files, done.changed, done.elsewhere), (vec![], 8, 0, 0));
    let other = Scene::import(&archive);
    let imported = &other.conversation;
    assert!(!imported.has_far(None).unwrap());
    for name in far {
        let path = RelPath::new(format!("artifacts/{name}")).unwrap();
        let at = other.dir.path().join("context/c7").join(path.as_os_str());
        assert_eq!(fs::read_to_string(&at).unwrap(), path.to_text());
        let stat = imported.dir().stat_at(&path).unwrap();
        assert_eq!((stat.mtime.as_nanos(), stat.mode & 0o777), (MODIFIED, 0o640));
        let record = imported.record(&path).unwrap().unwrap();
        assert_eq!((record.generation, record.far), (3, None));
    }
}

#[test]
fn what_cannot_be_had_is_named_and_the_rest_is_whole() {
    let one = Scene::new();
    for name in ["tool/gone.txt", "tool/wrong.txt", "tool/x.txt", "tool/deep/y.txt"] {
        one.expect(name);
    }
    fs::remove_dir(one.dir.path().join("context/c7/artifacts/tool/deep")).unwrap();
    let (archive, done) = one.export(Some(&Elsewhere));
    let [deep, gone, wrong] =
        ["deep/y.txt", "gone.txt", "wrong.txt"].map(|name| format!("artifacts/tool/{name}"));
    assert_eq!(named(&done), [(&*deep, NO_DIRECTORY), (&*gone, LEFT), (&*wrong, OTHERS)]);
    assert_eq!((done.files, done.elsewhere), (1, 2));
    Scene::import(&archive);
    let (_, done) = one.export(None);
    assert_eq!((done.files, done.elsewhere, done.unread.count()), (0, 3, 4));
}

#[test]
fn what_comes_or_goes_while_names_are_read_is_exported() {
    let scene = Scene::new();
    scene.expect("tool/came.txt");
    let (mut archive, mut quiet) = (Vec::new(), |_: u64| ());
    let parts = ExportParts { log: None, far: Some(&Elsewhere) };
    let mut export = Export::new(&scene.conversation, parts, &mut archive, &mut quiet).unwrap();
    export.last_dir = Some(RelPath::new("artifacts/tool").unwrap());
    export.expect_far(None).unwrap();
    let at = scene.dir.path().join("context/c7/artifacts/tool/came.txt");
    fs::write(at, "here").unwrap();
    scene.expect("tool/went.txt");
    export.write_far_before(None).unwrap();
    export.write_without_file(&RelPath::new("artifacts/tool/went.txt").unwrap()).unwrap();
    export.write_without_file(&RelPath::new("artifacts/tool/none.txt").unwrap()).unwrap();
    assert_eq!((export.done.files, export.done.gone), (2, 1));
    assert!(export.done.unread.is_empty());
}

#[derive(Debug)]
struct Away;

impl FarStore for Away {
    fn open(&self, _: &Component, _: &Record) -> io::Result<FarFile> {
        Err(io::ErrorKind::TimedOut.into())
    }
}

#[test]
fn not_each_of_many_waits_for_a_bucket_that_is_away() {
    let scene = Scene::new();
    scene.expect("tool/x.txt");
    let artifact = scene.conversation.far_artifacts(None).unwrap().remove(0);
    let mut fetching = Fetching { store: Some(&Away), failing: Duration::ZERO };
    let mut why = |failing| {
        fetching.failing = failing;
        let id = scene.conversation.id();
        fetching.fetch(id, &artifact, &mut |_| ()).unwrap_err().to_string()
    };
    assert_ne!(why(MAX_FAILING / 2), UNTRIED);
    assert_eq!(why(MAX_FAILING), UNTRIED);
}
