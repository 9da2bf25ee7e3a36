//! `X.extract/<question>` in a mount, whose server has no network.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use crate::extract::LOG;
use crate::extract::endpoint::{Endpoint, Reply};
use crate::support::{Mode, TestMount, TestStore, eventually};

/// A mount whose views ask the model of an endpoint, and an output in it.
struct ViewedMount {
    endpoint: Endpoint,
    mount: TestMount,
    file: PathBuf,
}

impl ViewedMount {
    fn new(reply: impl Fn() -> Reply + Send + Sync + 'static) -> Self {
        let (store, endpoint) = (Arc::new(TestStore::new()), Endpoint::new(move |_| reply()));
        let settings =
            endpoint.keyless_settings().replacen("[extract]\n", "[extract]\nview = true\n", 1);
        store.user_settings(settings);
        let mount = TestMount::of(&store, Mode::Passthrough, &[]);
        let file = mount.artifact("c7", "9f3k.txt", LOG);
        Self { endpoint, mount, file }
    }

    fn view(&self, question: &str) -> PathBuf {
        self.file.with_extension("txt.extract").join(question)
    }

    /// Returns the process that asks.
    fn asking(&self) -> Option<u32> {
        let is_it = |pid: &u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains("ask-models")
        };
        let server = self.mount.pid();
        let children =
            fs::read_to_string(format!("/proc/{server}/task/{server}/children")).unwrap();
        children.split_whitespace().map(|pid| pid.parse().unwrap()).find(is_it)
    }
}

#[test]
fn a_look_at_a_question_answers_it() {
    let viewed = ViewedMount::new(|| Reply::Answer("sdb1"));
    let confined = &viewed.mount.status()["confinement"];
    assert_eq!(confined["network"], true, "{confined}");
    let asking = viewed.asking().expect("a process asks");
    let status = || fs::read_to_string(format!("/proc/{asking}/status")).unwrap();
    let is_root = rustix::process::geteuid().is_root();
    // The process confines itself once it runs.
    eventually("it has no capability and is another user", || {
        let status = status();
        status.contains("CapEff:\t0000000000000000\n")
            && (!is_root || status.contains("Uid:\t65534\t65534\t65534\t65534\n"))
    });
    for _ in 0..2 {
        let text = fs::read_to_string(viewed.view("which disk is full?")).unwrap();
        assert!(text.ends_with("STRATEGY:full-chunked:\n\nsdb1\n"), "{text}");
    }
    assert_eq!(viewed.endpoint.requests().len(), 1);
    let log = viewed.mount.path().join("c7/history/extractions.jsonl");
    assert!(fs::read_to_string(log).unwrap().contains("which disk is full?"));
}

/// Programs that read all there is do not ask.
#[test]
fn nobody_asks_by_accident() {
    let viewed = ViewedMount::new(|| Reply::Answer("sdb1"));
    let names = |dir: &std::path::Path| {
        let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
        entries.map(|name| name.to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    let listed = names(viewed.file.parent().unwrap());
    assert!(!listed.iter().any(|name| name.contains("extract")), "{listed:?}");
    assert!(names(&viewed.file.with_extension("txt.extract")).is_empty());
    assert!(!viewed.view(".git").exists() && !viewed.view("").join("..").join("x").exists());
    assert!(viewed.endpoint.requests().is_empty());
}

#[test]
fn a_process_that_was_killed_is_named() {
    let viewed = ViewedMount::new(|| Reply::Answer("sdb1"));
    let asking = viewed.asking().expect("a process asks");
    crate::support::signal(asking, rustix::process::Signal::KILL);
    eventually("it is gone", || viewed.asking().is_none());
    let text = fs::read_to_string(viewed.view("which disk?")).unwrap();
    assert!(text.contains("unmount and mount again") && text.contains("disk sdb1"), "{text}");
    fs::read_to_string(viewed.file.with_extension("txt.summary")).unwrap();
}

/// A model that says nothing holds up no other view, and not the end of the mount.
#[test]
fn a_silent_model_is_in_nobodys_way() {
    let mut viewed = ViewedMount::new(|| Reply::Silence);
    let views: Vec<PathBuf> = (0..12).map(|n| viewed.view(&format!("what {n}?"))).collect();
    let (send, received) = std::sync::mpsc::channel();
    for view in views {
        let send = send.clone();
        std::thread::spawn(move || send.send(fs::read_to_string(view)));
    }
    // A conversation has three questions at a time.
    for _ in 3..12 {
        let text = received.recv().unwrap().unwrap();
        assert!(text.starts_with("# models are busy with other questions"), "{text}");
    }
    eventually("the model is asked", || viewed.endpoint.requests().len() == 3);
    let tail = viewed.file.with_extension("txt.tail");
    assert!(fs::read_to_string(tail).unwrap().contains("sdb1"));
    assert!(viewed.mount.status()["pid"].is_number());
    viewed.mount.end(rustix::process::Signal::TERM);
    eventually("each call has ended", || viewed.endpoint.given_up() == 3);
    for _ in 0..3 {
        received.recv().unwrap().ok();
    }
}
