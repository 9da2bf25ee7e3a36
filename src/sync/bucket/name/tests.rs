use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use proptest::prelude::*;

use super::*;
use crate::replica::WriterId;

fn id(text: &str) -> Component {
    Component::new(text).unwrap()
}

fn segment() -> SegmentId {
    SegmentId { writer: WriterId(0xab), number: 7 }
}

#[test]
fn keys_are_as_documented() {
    let (c7, object) = (id("c7"), ObjectName(0x3f));
    let name = "0000000000000000000000000000003f";
    assert_eq!(log_prefix(&c7), "conversations/c7/log/");
    assert_eq!(
        segment_key(&c7, segment()),
        "conversations/c7/log/00000000000000ab-000000000007.tar.zst"
    );
    assert_eq!(objects_prefix(&c7), "conversations/c7/objects/");
    assert_eq!(object_key(&c7, object), format!("conversations/c7/objects/{name}.zst"));
    assert_eq!(blocks_key(&c7, object), format!("conversations/c7/objects/{name}.blocks"));
}

#[test]
fn odd_conversations_have_plain_keys() {
    for (name, encoded) in [
        (&b"a b"[..], "a%20b"),
        (b"A-b_c.d", "A-b_c.d"),
        (b"...", "..."),
        (b"100%", "100%25"),
        (b"a\\b", "a%5Cb"),
        (b"a~b*?#&+", "a%7Eb%2A%3F%23%26%2B"),
        ("\u{fc}".as_bytes(), "%C3%BC"),
        (b"\xff", "%5Cxff"),
    ] {
        let conversation = id_of(name);
        assert_eq!(log_prefix(&conversation), format!("conversations/{encoded}/log/"));
        assert_eq!(conversation_of(encoded), Some(conversation));
    }
}

#[test]
fn the_longest_key_fits_or_not() {
    let long = id(&"x".repeat(255));
    assert!(fits_directory(&long) && fits_store(&long, &"p".repeat(512)));
    let encoded = id(&"\u{5b57}".repeat(28));
    assert_eq!(encoded.as_os_str().len(), 84);
    assert!(fits_directory(&encoded));
    assert!(!fits_directory(&id(&"\u{5b57}".repeat(29))));
    let longest = id(&"\u{5b57}".repeat(85));
    assert!(fits_store(&longest, "prefix") && !fits_store(&longest, &"p".repeat(512)));
}

fn id_of(name: &[u8]) -> Component {
    Component::new(OsStr::from_bytes(name)).unwrap()
}

#[test]
fn other_keys_are_no_conversations() {
    for encoded in [
        "", ".", "..", "%2E%2E", "%2e", "a%2Fb", "a/b", "%00", "%", "%zz", "a%20b%", "%41", "a b",
        "%c3%bc", "%FF", ".ctxfs", "%5Cx5c", "~",
    ] {
        assert_eq!(conversation_of(encoded), None, "{encoded}");
    }
    assert_eq!(conversation_of(&"a".repeat(256)), None);
}

#[test]
fn names_of_files_and_back() {
    let object = ObjectName::random();
    assert_ne!(object, ObjectName::random());
    assert_eq!(object.to_string().parse(), Ok(object));
    assert_eq!(segment_of(&format!("{}.tar.zst", segment())), Some(segment()));
    assert_eq!(object_of(&format!("{object}.zst")), Some((object, ObjectPart::Bytes)));
    assert_eq!(object_of(&format!("{object}.blocks")), Some((object, ObjectPart::Blocks)));
    let json = serde_json::to_string(&object).unwrap();
    assert_eq!(json, format!("\"{object}\""));
    assert_eq!(serde_json::from_str::<ObjectName>(&json).unwrap(), object);
}

#[test]
fn other_names_are_of_nothing() {
    let digits = "0123456789abcdef0123456789abcdef";
    for name in ["", ".zst", &digits[1..], &digits.to_uppercase(), &format!("+{}", &digits[1..])] {
        assert!(name.parse::<ObjectName>().is_err(), "{name}");
        assert_eq!(object_of(&format!("{name}.zst")), None, "{name}");
    }
    for end in ["", ".tar.zst", ".zst.tmp", ".blocks.zst", ".txt"] {
        assert_eq!(object_of(&format!("{digits}{end}")), None, "{end}");
    }
    for name in ["", ".tar.zst", "x.tar.zst", "00000000000000ab-000000000007.zst", "../x.tar.zst"] {
        assert_eq!(segment_of(name), None, "{name}");
    }
    assert_eq!(segment_of("00000000000000ab-000000000007.tar.zst.tmp"), None);
}

proptest! {
    #[test]
    fn every_conversation_has_a_key_of_its_own(
        names in proptest::collection::btree_set(
            proptest::collection::vec(any::<u8>(), 1..20),
            1..8,
        )
    ) {
        let conversations: BTreeSet<Component> =
            names.iter().filter_map(|name| Component::new(OsStr::from_bytes(name)).ok()).collect();
        let mut seen = BTreeSet::new();
        for conversation in conversations {
            let key = log_prefix(&conversation);
            let name = key.strip_prefix(CONVERSATIONS).unwrap().strip_suffix("/log/").unwrap();
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._%".contains(&byte);
            prop_assert!(name.bytes().all(plain) && name != "." && name != "..", "{}", name);
            prop_assert_eq!(conversation_of(name), Some(conversation));
            prop_assert!(seen.insert(key));
        }
    }

    #[test]
    fn any_text_is_a_name_or_none(text in any::<String>()) {
        if let Some(conversation) = conversation_of(&text) {
            prop_assert_eq!(encoded(&conversation), text.clone());
        }
        if let Some(segment) = segment_of(&text) {
            prop_assert_eq!(format!("{segment}.tar.zst"), text.clone());
        }
        prop_assert!(object_of(&text).is_none_or(|(name, _)| text.starts_with(&name.to_string())));
    }
}
