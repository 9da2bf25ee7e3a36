//! Eviction of local copies.

use std::fs;

use crate::remote::files::tests::scene::{TOOL, soon};
use crate::remote::tier::tests::{Host, bucket};
use crate::remote::tier::*;

/// Evicts the output of a call. First waits until no child process of another test holds copies of
/// the descriptors.
fn let_go(round: &mut Eviction<'_>, call: &str) -> EvictionResult {
    let path = RelPath::new(format!("{TOOL}/{call}.txt")).unwrap();
    soon(|| {
        let gone = round.let_go(&path);
        (gone != EvictionResult::Kept("it is being written")).then_some(gone)
    })
}

#[test]
fn a_round_reads_the_agreement_once_and_again_when_it_changes() {
    let bucket = bucket();
    let one = Host::new(&bucket);
    for call in ["a", "b", "c"] {
        one.put(call, "some bytes\n");
    }
    one.send();
    let mut round = Eviction::new(&one.tier.0, one.id());
    assert_eq!(let_go(&mut round, "a"), EvictionResult::Gone);
    assert_eq!(let_go(&mut round, "d"), EvictionResult::NotShared);
    one.put("d", "some bytes\n");
    one.send();
    assert_eq!(let_go(&mut round, "d"), EvictionResult::Gone);
    let known = one.tier.0.access.known().unwrap().unwrap();
    let remote = one.scene.store.root().join("remote").join(known.id.to_string());
    let agreement = remote.join("conversations/c7/agreement.jsonl");
    // Overwrite the agreement in place and keep its size and time, so that the change cannot be
    // detected.
    let (size, modified) = {
        let found = fs::metadata(&agreement).unwrap();
        (found.len(), found.modified().unwrap())
    };
    let file = fs::File::options().write(true).open(&agreement).unwrap();
    fs::write(&agreement, "\n".repeat(size as usize)).unwrap();
    file.set_modified(modified).unwrap();
    assert_eq!(let_go(&mut round, "b"), EvictionResult::Gone);
    let mut next = one.tier.evictor(one.id());
    let path = RelPath::new(format!("{TOOL}/c.txt")).unwrap();
    assert!(matches!(next(&path), EvictionResult::Kept(_)), "it cannot be read");
    assert!(one.file("c").exists());
}
