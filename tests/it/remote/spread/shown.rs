//! The artifacts and views of each host, beside what standard tools print of copies outside.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{Artifact, HOSTS, MOVED, NAMES, WORD, World};
use crate::support::{Command, comes_true, eventually};

/// The views of which a standard tool prints the text, and how.
const PRINTED: [(&str, &str); 4] = [
    (".tail", r#"tail -n 200 "$1""#),
    (".head", r#"head -n 200 "$1""#),
    (".lines/2-5", r#"sed -n 2,5p "$1""#),
    (".grep/ERROR", r#"grep -n ERROR "$1" || true"#),
];
/// The names that are listed beside an artifact.
const LISTED: [&str; 3] = [".summary", ".tail", ".grep"];

impl World {
    /// Waits until each host shows what all did.
    pub(super) fn meet(&self) {
        let mut differs = None;
        let met = comes_true(|| {
            differs = (0..HOSTS).find_map(|host| self.difference(host));
            differs.is_none()
        });
        assert!(met, "{}", differs.unwrap_or_default());
    }

    /// Returns how a host differs from what all did.
    fn difference(&self, host: usize) -> Option<String> {
        let (shown, listed) = (self.shown(host), self.listed(host));
        let beside = |name: &String| LISTED.map(|end| format!("{name}{end}"));
        // The shortest artifacts are listed alone.
        let with_views = shown.iter().filter(|(_, artifact)| artifact.bytes.len() > 2);
        let views = with_views.flat_map(|(name, _)| beside(name));
        let expected: BTreeSet<String> = shown.keys().cloned().chain(views).collect();
        if listed != expected {
            return Some(format!("host {host} lists {listed:?}, and not {expected:?}"));
        }
        let is_it = |name: &str, artifact: &Artifact| {
            fs::read(self.at(host, name)).is_ok_and(|bytes| bytes == artifact.bytes)
        };
        let wrong = shown.iter().find(|(name, artifact)| !is_it(name, artifact));
        if let Some((name, _)) = wrong {
            return Some(format!("host {host} has other bytes of {name}"));
        }
        let messages = fs::read_to_string(self.log(host)).unwrap_or_default();
        (messages != self.messages).then(|| format!("host {host} has the messages {messages}"))
    }

    /// Returns the artifacts that a host is to show: a live one is as its writer sees it there
    /// alone.
    fn shown(&self, host: usize) -> BTreeMap<String, Artifact> {
        let mut shown = self.artifacts.clone();
        for live in self.live.iter().filter(|live| live.host == host) {
            shown.get_mut(&live.name).unwrap().bytes.clone_from(&live.bytes);
        }
        shown
    }

    /// Returns the names that a host lists. Reads no attributes, which would compute views.
    fn listed(&self, host: usize) -> BTreeSet<String> {
        let names = |dir: &str| {
            let entries = fs::read_dir(self.at(host, dir)).into_iter().flatten().flatten();
            entries.map(|entry| entry.file_name().into_string().unwrap()).collect::<Vec<_>>()
        };
        let top = names("").into_iter().filter(|name| name != MOVED);
        let moved = names(MOVED).into_iter().map(|name| format!("{MOVED}/{name}"));
        top.chain(moved).collect()
    }

    /// Each host shows the right bytes, views and search results, and all show the same summaries.
    pub(super) fn check(&self) {
        let copy = self.shared.path().join("copy");
        for host in 0..HOSTS {
            let shown = self.shown(host);
            for (name, artifact) in &shown {
                fs::write(&copy, &artifact.bytes).unwrap();
                self.check_views(host, name, &copy);
                self.check_meta(host, name, artifact);
            }
            self.check_search(host, &shown);
            self.check_absent(host, &shown);
        }
        let is_live = |name: &str| self.live.iter().any(|live| live.name == name);
        for name in self.artifacts.keys().filter(|name| !is_live(name)) {
            let summary = |host| self.view(host, name, ".summary");
            let (first, mut others) = (summary(0), (1..HOSTS).map(summary));
            assert!(others.all(|other| other == first), "{name}: {first}");
        }
    }

    /// Returns the text of a view. Its size is exact.
    fn view(&self, host: usize, name: &str, view: &str) -> String {
        let path = self.at(host, &format!("{name}{view}"));
        let text = fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("host {host}, {name}{view}: {error}"));
        let size = fs::metadata(&path).map(|metadata| metadata.len()).unwrap();
        assert_eq!(size, text.len() as u64, "host {host}, {name}{view}");
        text
    }

    fn check_views(&self, host: usize, name: &str, copy: &Path) {
        for (view, script) in PRINTED {
            let expected = Command::shell(script, &[copy]).text();
            // A range of lines beyond the end is not there.
            if view.starts_with(".lines/") && expected.is_empty() {
                assert!(fs::metadata(self.at(host, &format!("{name}{view}"))).is_err(), "{name}");
                continue;
            }
            assert_eq!(self.view(host, name, view), expected, "host {host}, {name}{view}");
        }
    }

    fn check_meta(&self, host: usize, name: &str, artifact: &Artifact) {
        let meta: Value = serde_json::from_str(&self.view(host, name, ".meta.json")).unwrap();
        let digest = blake3::hash(&artifact.bytes).to_hex().to_string();
        let told = format!("host {host}, {name}: {meta:#}");
        assert_eq!(meta["analysis"]["digest"], *digest, "{told}");
        assert_eq!(meta["size"], artifact.bytes.len(), "{told}");
        assert_eq!(meta["path"], *format!("artifacts/tool/{name}"), "{told}");
        assert_eq!(meta["exit_code"], artifact.exit_code, "{told}");
    }

    /// A search of the directory finds each line once, and none in views.
    fn check_search(&self, host: usize, shown: &BTreeMap<String, Artifact>) {
        let top = self.at(host, "");
        let searched = Command::new("rg").args(["-n", "--no-heading", WORD]).arg(&top).run();
        assert!(searched.code < 2, "host {host}: {searched}");
        let searched = String::from_utf8(searched.stdout).unwrap();
        let mut printed: Vec<&str> = searched.lines().collect();
        let mut expected = Vec::new();
        for (name, artifact) in shown {
            let text = String::from_utf8_lossy(&artifact.bytes).into_owned();
            let (lines, place) = (text.lines().zip(1..), top.join(name).display().to_string());
            let found = lines.filter(|(line, _)| line.contains(WORD));
            expected.extend(found.map(|(line, number)| format!("{place}:{number}:{line}")));
        }
        printed.sort_unstable();
        expected.sort_unstable();
        assert_eq!(printed, expected, "host {host}");
    }

    /// An artifact that was moved or removed has no view under its old name.
    fn check_absent(&self, host: usize, shown: &BTreeMap<String, Artifact>) {
        let names = NAMES.into_iter().flat_map(|name| [name.to_owned(), format!("{MOVED}/{name}")]);
        for name in names.filter(|name| !shown.contains_key(name)) {
            for end in ["", ".summary", ".grep/ERROR"] {
                let path = self.at(host, &format!("{name}{end}"));
                // The kernel knows a name for a second.
                eventually(&path.display().to_string(), || fs::metadata(&path).is_err());
            }
        }
    }
}
