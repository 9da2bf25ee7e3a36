//! Eviction of local copies, and the properties that it preserves.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::remote::artifacts::tests::{Host, large, two_hosts};
use crate::remote::artifacts::*;
use crate::remote::files::tests::scene::{TOOL, soon};
use ctxfs_store::disk_clock;

fn path(name: &str) -> RelPath {
    RelPath::new(format!("{TOOL}/{name}.txt")).unwrap()
}

fn try_evict(
    host: &Host,
    far: &RemoteArtifacts,
    name: &str,
) -> Result<RemovalOutcome, RemoteError> {
    let (conversation, path) = (&host.scene.conversation, path(name));
    let agreement = host.home.conversation(conversation.id()).unwrap().agreement().unwrap();
    let entry = agreement.base.entries.iter().find(|entry| entry.path == path.to_text());
    far.evict(conversation, &path, entry, host.scene.store.clock())
}

/// Evicts an artifact. First waits until no child process of another test holds copies of the
/// descriptors, and until the clock of the disk has advanced.
fn evict(host: &Host, far: &RemoteArtifacts, name: &str) -> RemovalOutcome {
    soon(|| match try_evict(host, far, name).unwrap() {
        RemovalOutcome::Kept("it is being written") => None,
        RemovalOutcome::Kept("it was changed a moment ago") => {
            std::thread::sleep(std::time::Duration::from_millis(1));
            None
        }
        gone => Some(gone),
    })
}

/// Returns the bytes of a remote artifact.
fn read_far(host: &Host, far: &RemoteArtifacts, name: &str) -> Vec<u8> {
    let content = host.open(far, name).unwrap().content;
    let length = usize::try_from(content.len()).unwrap();
    content.bytes(0, length).unwrap()
}

#[test]
fn what_was_read_back_goes_and_can_be_read() {
    let (one, other) = two_hosts();
    let text = large();
    one.scene.put("small", "few bytes\n");
    one.scene.put("large", &text);
    one.push();
    let far = one.far();
    for name in ["small", "large"] {
        assert_eq!(evict(&one, &far, name), RemovalOutcome::Removed);
        assert!(!one.scene.has(&path(name).to_text()));
    }
    one.bucket.made();
    let content = one.open(&far, "large").unwrap().content;
    let end = text.len() - 100;
    assert_eq!(content.bytes(0, 100).unwrap(), &text.as_bytes()[..100]);
    assert_eq!(content.bytes(end as u64, 100).unwrap(), &text.as_bytes()[end..]);
    assert!(one.bucket.made().is_empty(), "both ends are kept");
    assert_eq!(content.bytes(0, text.len()).unwrap(), text.as_bytes());
    one.hear();
    assert!(one.sync(|sync| sync.push(&one.scene.conversation)).unwrap().segments.is_empty());
    other.hear();
    assert_eq!(other.scene.conversation.far_artifacts(None).unwrap().len(), 2);
}

#[test]
fn what_comes_back_goes_again() {
    let (one, _) = two_hosts();
    one.scene.put("x", "few bytes\n");
    one.push();
    let far = one.far();
    assert_eq!(evict(&one, &far, "x"), RemovalOutcome::Removed);
    let before = one.scene.conversation.far(&path("x")).unwrap().unwrap();
    assert!(far.bring_here(&one.scene.conversation, &before).unwrap());
    assert_eq!(one.scene.read(&path("x").to_text()), "few bytes\n");
    assert!(one.sync(|sync| sync.push(&one.scene.conversation)).unwrap().segments.is_empty());
}

#[test]
fn what_is_new_or_changed_or_damaged_stays() {
    let (one, _) = two_hosts();
    one.scene.put("new", "not published\n");
    let far = one.far();
    assert_eq!(evict(&one, &far, "new"), RemovalOutcome::Kept("it was not published yet"));
    one.scene.put("large", &large());
    one.push();
    let at = one.scene.at(&path("new").to_text());
    fs::write(&at, "changed\n").unwrap();
    assert_eq!(evict(&one, &far, "new"), RemovalOutcome::Kept("it was changed meanwhile"));
    let objects = format!("conversations/{}/objects/", one.scene.conversation.id().to_text());
    for name in one.bucket.names(&objects).iter().filter(|name| !name.ends_with(".blocks")) {
        one.bucket.replace(&format!("{objects}{name}"), &vec![0; 1 << 20]);
    }
    let refused = try_evict(&one, &far, "large");
    assert!(refused.unwrap_err().to_string().contains("read back"));
    assert!(one.scene.has(&path("large").to_text()));
}

#[test]
fn what_was_renamed_without_ctxfs_goes_and_can_be_read() {
    let (one, other) = two_hosts();
    let text = large();
    one.scene.put("small", "few bytes\n");
    one.scene.put("large", &text);
    one.push();
    let at = |name: &str| one.scene.at(&path(name).to_text());
    for name in ["small", "large"] {
        fs::rename(at(name), at(&format!("new-{name}"))).unwrap();
    }
    one.push();
    let far = one.far();
    for (name, bytes) in [("new-small", "few bytes\n"), ("new-large", text.as_str())] {
        assert_eq!(evict(&one, &far, name), RemovalOutcome::Removed);
        assert!(!one.scene.has(&path(name).to_text()));
        assert_eq!(read_far(&one, &far, name), bytes.as_bytes());
    }
    assert!(one.sync(|sync| sync.push(&one.scene.conversation)).unwrap().segments.is_empty());
    other.hear();
    assert_eq!(read_far(&other, &other.far(), "new-small"), b"few bytes\n");
}

#[test]
fn attributes_that_others_changed_keep_nothing_here_but_bytes_do() {
    let (one, _) = two_hosts();
    for name in ["mode", "bytes"] {
        one.scene.put(name, "few bytes\n");
    }
    one.push();
    disk_clock::moves_on();
    let at = |name: &str| one.scene.at(&path(name).to_text());
    let far = one.far();
    fs::set_permissions(at("mode"), fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(evict(&one, &far, "mode"), RemovalOutcome::Removed);
    assert_eq!(read_far(&one, &far, "mode"), b"few bytes\n");
    assert!(one.scene.record(&path("mode").to_text()).unwrap().provenance.tool.is_some());
    // All attributes that a user can set are unchanged.
    let modified = fs::metadata(at("bytes")).unwrap().modified().unwrap();
    fs::write(at("bytes"), "few BYTES\n").unwrap();
    fs::File::options().write(true).open(at("bytes")).unwrap().set_modified(modified).unwrap();
    let kept = RemovalOutcome::Kept("the bucket has other bytes");
    assert_eq!(evict(&one, &far, "bytes"), kept);
    assert_eq!(one.scene.read(&path("bytes").to_text()), "few BYTES\n");
}
