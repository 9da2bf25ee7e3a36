//! Local copies go, and what they were stays.

use std::fs;

use super::*;
use crate::remote::far::tests::Host;
use crate::remote::far::tests::large;
use crate::remote::far::tests::two_hosts;
use crate::remote::files::tests::scene::TOOL;
use crate::remote::files::tests::scene::soon;

fn path(name: &str) -> RelPath {
    RelPath::new(format!("{TOOL}/{name}.txt")).unwrap()
}

/// Evicts, once no process that another test starts has copies of all descriptors.
fn evict(host: &Host, far: &FarArtifacts, name: &str) -> RemovalOutcome {
    let id = host.scene.conversation.id();
    let agreement = host.home.conversation(id).unwrap().agreement().unwrap();
    soon(|| {
        let gone = far.evict(&host.scene.conversation, &agreement, &path(name)).unwrap();
        (gone != RemovalOutcome::Kept("it is being written")).then_some(gone)
    })
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
    let agreement = one.home.conversation(one.scene.conversation.id()).unwrap();
    let agreement = agreement.agreement().unwrap();
    let refused = far.evict(&one.scene.conversation, &agreement, &path("large"));
    assert!(refused.unwrap_err().to_string().contains("read back"));
    assert!(one.scene.has(&path("large").to_text()));
}
