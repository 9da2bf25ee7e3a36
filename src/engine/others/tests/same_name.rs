//! Summaries of outputs that were written under the same name.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;

use crate::others::fixture::Rival;
use crate::{Engine, EngineOptions, Replace, StandInRequest, StoredOutput, Tree};
use ctxfs_core::model::{Component, Content as _, Folder, OtherHosts, Provenance, RelPath};
use ctxfs_store::{ArtifactWriter, Store};
use ctxfs_view::{Audience, Form, StandIn};

const OF_ONE: &str = "\nalso:   x~3f09ab.txt, another output of this name, from another host\n";
const OF_OTHER: &str = "\nalso:   x.txt, another output of this name, from another host\n";

struct Scene {
    _temporary: TempDir,
    rival: Arc<Rival>,
    engine: Arc<Engine>,
    tree: Tree,
}

impl Scene {
    /// Creates a scene with outputs of these calls. Another host wrote some of them if `is_shared`.
    fn new(calls: &[&str], is_shared: bool) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let store = Store::open(temporary.path()).unwrap();
        let conversation = store.create_conversation(&Component::new("c7").unwrap()).unwrap();
        for call in calls {
            let provenance = Provenance::default();
            let mut writer =
                ArtifactWriter::create_for_call(&conversation, Folder::Tool, call, provenance)
                    .unwrap();
            writer.write_all(b"a line\n").unwrap();
            writer.seal().unwrap();
        }
        let rival = Arc::new(Rival::default());
        let other_hosts = is_shared.then(|| Arc::clone(&rival) as Arc<dyn OtherHosts>);
        let engine = Engine::new(store, EngineOptions { other_hosts, ..EngineOptions::default() });
        let tree = Tree::new(Arc::clone(&engine));
        Self { _temporary: temporary, rival, engine, tree }
    }

    fn view(&self, view: &str) -> String {
        let opened = self.tree.open(&Path::new("c7/artifacts/tool").join(view)).unwrap();
        String::from_utf8(opened.bytes(0, 1 << 20).unwrap()).unwrap()
    }

    fn stand_in(&self, name: &str) -> String {
        let conversation = self.engine.conversation(&Component::new("c7").unwrap()).unwrap();
        let path = RelPath::new(format!("artifacts/tool/{name}")).unwrap();
        let record = conversation.record(&path).unwrap().unwrap();
        let output = StoredOutput::open(&self.engine, &conversation, record, true).unwrap();
        let audience = Audience { tools: &[], is_stored: &|_| false, above: b"" };
        let request =
            StandInRequest { form: Form::Summary, replace: Replace::Always, seen: false, audience };
        match output.shown().stand_in(&request).unwrap() {
            StandIn::Replaced(text) => text,
            StandIn::Unchanged => panic!("it was to be replaced"),
        }
    }
}

#[test]
fn both_summaries_and_stand_ins_name_the_other_output() {
    let scene = Scene::new(&["x", "x~3f09ab"], true);
    scene.rival.wrote("x~3f09ab.txt", "x.txt");
    for (name, line) in [("x.txt", OF_ONE), ("x~3f09ab.txt", OF_OTHER)] {
        let summary = scene.view(&format!("{name}.summary"));
        assert!(summary.contains(line), "{summary}");
        assert!(scene.stand_in(name).contains(line));
        for view in ["tail", "meta.json", "ref.json", "envelope.json"] {
            assert!(!scene.view(&format!("{name}.{view}")).contains("also:"), "{view}");
        }
    }
}

#[test]
fn only_what_looks_like_it_is_asked_for() {
    let scene = Scene::new(&["x", "x~3f09ab", "z", "z~not", "w~3f09ab"], true);
    for name in ["z.txt", "z~not.txt", "w~3f09ab.txt"] {
        assert!(!scene.view(&format!("{name}.summary")).contains("also:"));
        assert_eq!(scene.rival.asked(), 0, "{name}");
    }
    for name in ["x.txt", "x~3f09ab.txt"] {
        assert!(!scene.view(&format!("{name}.summary")).contains("also:"), "it is one's own");
        assert!(scene.rival.asked() > 0, "{name}");
    }
    let alone = Scene::new(&["x", "x~3f09ab"], false);
    alone.rival.wrote("x~3f09ab.txt", "x.txt");
    assert!(!alone.view("x.txt.summary").contains("also:"));
}

#[test]
fn what_is_not_here_is_not_named() {
    let scene = Scene::new(&["x"], true);
    scene.rival.wrote("x~3f09ab.txt", "x.txt");
    assert!(!scene.view("x.txt.summary").contains("also:"));
}
