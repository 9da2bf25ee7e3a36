//! Two hosts write one name while parted: the summaries of both outputs say so.

use std::fs::File;
use std::io::Read as _;
use std::sync::Arc;
use std::{fs, io};

use tempfile::TempDir;

use super::mounts::store;
use crate::support::{Mode, TestMount, TestStore, eventually};

/// Two mounts that share a bucket. Each store had an output `x.txt` before they met.
struct Met {
    stores: [Arc<TestStore>; 2],
    mounts: [TestMount; 2],
    /// The name of the one that lost its own.
    lost: String,
    _shared: TempDir,
}

impl Met {
    fn new() -> Self {
        let shared = tempfile::Builder::new().prefix("ctxfs-bucket-").tempdir().unwrap();
        let stores = [store(shared.path()), store(shared.path())];
        stores[0].put("c7", "x", b"of one\n");
        stores[1].put("c7", "x", b"of the other\n");
        let mounts = stores.each_ref().map(|store| TestMount::of(store, Mode::Passthrough, &[]));
        eventually("they meet", || {
            let [one, other] = mounts.each_ref().map(lost);
            one.is_some() && one == other
        });
        let lost = lost(&mounts[0]).unwrap();
        Self { stores, mounts, lost, _shared: shared }
    }

    /// Waits until the summary of an output names another one, or none, on both hosts.
    fn tell(&self, name: &str, other: Option<&str>) {
        for mount in &self.mounts {
            eventually("the summary is as it is to be", || {
                // A listing asks what the other host did.
                let listed = names(mount);
                let is_there = other.is_none_or(|other| listed.iter().any(|name| name == other));
                is_there && tells(mount, name).is_ok_and(|told| told.as_deref() == other)
            });
            let path = mount.tool("c7").join(format!("{name}.summary"));
            let size = fs::metadata(&path).unwrap().len();
            assert_eq!(size, fs::read(&path).unwrap().len() as u64, "{name}");
        }
    }
}

fn names(mount: &TestMount) -> Vec<String> {
    let Ok(entries) = fs::read_dir(mount.tool("c7")) else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Returns the output that lost the name `x.txt`.
fn lost(mount: &TestMount) -> Option<String> {
    names(mount).into_iter().find(|name| {
        name.strip_prefix("x~").is_some_and(|rest| rest.strip_suffix(".txt").is_some())
    })
}

/// Returns the output that the summary of `name` names, if any.
fn tells(mount: &TestMount, name: &str) -> io::Result<Option<String>> {
    let mut summary = File::open(mount.tool("c7").join(format!("{name}.summary")))?;
    let size = summary.metadata()?.len();
    let mut text = String::new();
    summary.read_to_string(&mut text)?;
    assert_eq!(size, text.len() as u64, "{name}");
    Ok(named(&text))
}

fn named(summary: &str) -> Option<String> {
    let line = summary.lines().find_map(|line| line.strip_prefix("also:   "))?;
    let (name, rest) = line.split_once(", ").unwrap();
    assert_eq!(rest, "another output of this name, from another host");
    Some(name.to_owned())
}

#[test]
fn both_summaries_name_the_other_output_on_both_hosts_until_it_is_removed() {
    let met = Met::new();
    met.tell("x.txt", Some(&met.lost));
    met.tell(&met.lost, Some("x.txt"));
    for store in &met.stores {
        let summary = store.ctxfs("view", &["c7/artifacts/tool/x.txt.summary"]).text();
        assert_eq!(named(&summary).as_ref(), Some(&met.lost), "{summary}");
    }
    fs::remove_file(met.mounts[0].tool("c7").join(&met.lost)).unwrap();
    met.tell("x.txt", None);
}

#[test]
fn the_one_that_lost_its_name_stays_alone_when_the_other_is_removed() {
    let met = Met::new();
    met.tell(&met.lost, Some("x.txt"));
    fs::remove_file(met.mounts[1].tool("c7").join("x.txt")).unwrap();
    met.tell(&met.lost, None);
    for mount in &met.mounts {
        assert!(!names(mount).contains(&"x.txt".to_owned()), "no other one gets its name");
    }
}
