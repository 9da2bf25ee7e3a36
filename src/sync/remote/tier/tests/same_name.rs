//! Outputs that request the same name.

use crate::remote::files::tests::scene::{TOOL, soon};
use crate::remote::tier::tests::{Host, bucket};
use crate::remote::tier::*;

/// Returns the ends of the paths of the outputs that requested `name`.
fn same_name(host: &Host, name: &str) -> Vec<String> {
    let path = RelPath::new(format!("{TOOL}/{name}")).unwrap();
    let found = host.tier.same_name(host.id(), &path).into_iter();
    found.map(|path| path.rsplit('/').next().unwrap().to_owned()).collect()
}

/// Returns two hosts that wrote the same name while disconnected and then synchronized, and the
/// assigned name of the output that did not get the requested one.
fn met() -> (Host, Host, String) {
    let bucket = bucket();
    let (one, other) = (Host::new(&bucket), Host::new(&bucket));
    one.put("x", "of one\n");
    one.put("y", "alone\n");
    one.put("y~3f09ab", "its own\n");
    one.send();
    other.put("x", "of the other\n");
    other.send();
    let lost = soon(|| {
        one.meet();
        other.meet();
        let lost = same_name(&one, "x.txt").pop()?;
        (same_name(&other, "x.txt") == [lost.clone()]).then_some(lost)
    });
    (one, other, lost)
}

#[test]
fn both_outputs_of_a_name_are_known_on_both_hosts_and_no_other() {
    let (one, other, lost) = met();
    for host in [&one, &other] {
        assert_eq!(same_name(host, "x.txt"), std::slice::from_ref(&lost));
        assert_eq!(same_name(host, &lost), ["x.txt"]);
        for name in ["y.txt", "y~3f09ab.txt", "none.txt"] {
            assert_eq!(same_name(host, name), [""; 0], "{name}");
        }
    }
}

#[test]
fn a_conversation_that_was_never_shared_has_none_and_nothing_is_made_for_it() {
    let host = Host::new(&bucket());
    assert_eq!(same_name(&host, "x.txt"), [""; 0]);
    host.put("x", "text\n");
    host.send();
    let known = host.tier.0.access.known().unwrap().unwrap();
    let other = Component::new("c8").unwrap();
    let path = RelPath::new(format!("{TOOL}/x.txt")).unwrap();
    assert!(host.tier.same_name(&other, &path).is_empty());
    assert!(known.home.known_conversation(&other).unwrap().is_none());
}

#[test]
fn names_are_read_once_and_bounded() {
    let (one, _other, lost) = met();
    let kept = || {
        let kept = one.tier.0.same_names.0.lock();
        kept.iter().map(|(_, names)| (names.mark, names.value.0.len())).collect::<Vec<_>>()
    };
    assert_eq!(same_name(&one, "x.txt"), [lost]);
    let first = kept();
    assert_eq!((first.len(), first[0].1), (1, 2));
    assert_eq!(same_name(&one, "y.txt"), [""; 0]);
    assert_eq!(kept(), first);
    one.put("z", "more\n");
    one.send();
    assert_eq!(same_name(&one, "y.txt"), [""; 0]);
    assert!(kept().len() == 1 && kept()[0].0 != first[0].0, "it is read again");
    let names = |number: usize, count: usize| {
        let pairs = (0..count).map(|pair| (pair.to_string(), String::new())).collect();
        let id = Component::new(format!("c{number}")).unwrap();
        (id, AgreementCache { mark: None, value: NamePairs(pairs) })
    };
    let mut many: VecDeque<_> = (0..100).map(|number| names(number, 1)).collect();
    bound(&mut many);
    assert_eq!(many.len(), CONVERSATIONS);
    many.push_back(names(100, NAMES + 1));
    bound(&mut many);
    assert_eq!(many.len(), 1);
}
