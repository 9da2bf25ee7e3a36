//! Merged messages of random segments, and of hosts that share a real bucket.

mod published;
use std::fs;
use std::io::Write as _;

use proptest::prelude::*;

use super::*;
use crate::bucket::{MessageLine, RemoveLine, SegmentWriter};
use crate::remote::files::tests::scene::Scene;
use crate::remote::pieces;
use crate::replica::{Covers, Origin, Stamp, WriterId};
use ctxfs_store::message::log_of;

const LOG: &str = "history/messages.jsonl";
/// Id of the writer that represents this host.
const OWN: u64 = 1;

/// A store and its local state about a bucket.
struct Stage {
    scene: Scene,
    home: Home,
    notes: Notes,
}

impl Stage {
    fn new() -> Self {
        let scene = Scene::new();
        let bucket = "000102030405060708090a0b0c0d0e0f".parse().unwrap();
        let home = Home::open(&scene.store, bucket).unwrap();
        let notes = home.conversation(scene.conversation.id()).unwrap();
        Self { scene, home, notes }
    }

    /// Stores a segment locally with these messages, each with its stamp. Returns its name.
    fn segment(&self, writer: u64, number: u64, messages: &[(u64, String)]) -> SegmentId {
        let id = SegmentId { writer: WriterId(writer), number };
        let mut segment = SegmentWriter::new(id, Covers::new());
        for (stamp, text) in messages {
            let (text, stamp) = (text.clone(), Stamp(*stamp));
            segment.message(MessageLine { text, stamp, origin: None }).unwrap();
        }
        self.notes.keep_segment(id, &segment.finish().unwrap()).unwrap();
        id
    }

    /// Stores a segment locally that removes everything in `segments`.
    fn removal(&self, segments: &[SegmentId]) {
        let id = SegmentId { writer: WriterId(99), number: 1 };
        let mut segment = SegmentWriter::new(id, Covers::new());
        let segments = segments.iter().copied().collect();
        segment.remove(RemoveLine { segments, ..RemoveLine::default() }).unwrap();
        self.notes.keep_segment(id, &segment.finish().unwrap()).unwrap();
    }

    /// Writes the merged messages for readers. The first `offset` bytes of the local log count as
    /// published.
    fn keep(&self, offset: u64, now: u64) {
        let found = pieces(&self.notes).unwrap();
        let state = State::of(&found.pieces);
        let conversation = &self.scene.conversation;
        let mark =
            conversation.log_file().unwrap().map(|log| FileMark::of(&stat_file(&log).unwrap()));
        let at = mark.map_or_else(LogPosition::default, |mark| LogPosition {
            inode: mark.ino,
            born: mark.born,
            offset,
            chain: 0,
        });
        let (home, notes, state) = (&self.home, &self.notes, &state);
        let segments = found.pieces.iter().map(|piece| piece.id).collect();
        MergedLog { home, notes, conversation, state, segments, at, now }.keep().unwrap();
    }

    fn append(&self, text: &str) {
        let log = self.scene.at(LOG);
        let mut log = fs::OpenOptions::new().append(true).create(true).open(log).unwrap();
        log.write_all(text.as_bytes()).unwrap();
    }

    /// Returns the log as readers see it.
    fn shown(&self) -> String {
        let others = PublishedMessages::of(&self.scene.store);
        let log = log_of(&self.scene.conversation, Some(&others)).unwrap().unwrap();
        String::from_utf8(log.bytes(0, log.len() as usize).unwrap()).unwrap()
    }

    fn edition(&self) -> Option<u64> {
        let stat = stat_file(self.scene.conversation.log_file().unwrap().as_deref()?).unwrap();
        let others = PublishedMessages::of(&self.scene.store);
        let published = others.published(self.scene.conversation.id(), &stat).unwrap();
        published.map(|published| published.edition())
    }
}

fn line(text: &str) -> String {
    format!("{{\"role\":\"user\",\"content\":\"{text}\"}}")
}

fn lines<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    texts.into_iter().map(|text| line(text) + "\n").collect()
}

/// Generates segments. Each has a writer, the stamps of its messages, and a flag that is true if
/// the segment is removed.
fn segments() -> impl Strategy<Value = Vec<(u64, Vec<u64>, bool)>> {
    let stamps = prop::collection::vec(0..30_u64, 0..6);
    prop::collection::vec((1..4_u64, stamps, prop::bool::weighted(0.1)), 0..12)
}

proptest! {
    #[test]
    fn messages_are_in_the_order_of_their_stamps_then_origins(
        segments in segments(),
        unpublished in 0..3_u32,
    ) {
        let stage = Stage::new();
        let mut numbers: BTreeMap<u64, u64> = BTreeMap::new();
        let (mut wanted, mut removed) = (BTreeMap::new(), Vec::new());
        let mut own = String::new();
        for (writer, mut stamps, is_removed) in segments {
            let number = numbers.entry(writer).or_default();
            *number += 1;
            stamps.sort_unstable();
            let text = |place: usize| line(&format!("{writer}-{number}-{place}"));
            let messages: Vec<_> =
                stamps.iter().enumerate().map(|(place, stamp)| (*stamp, text(place))).collect();
            let segment = stage.segment(writer, *number, &messages);
            if writer == OWN {
                own.extend(messages.iter().map(|(_, text)| format!("{text}\n")));
            }
            if is_removed {
                removed.push(segment);
                continue;
            }
            for ((stamp, text), place) in messages.into_iter().zip(0..) {
                wanted.insert((stamp, Origin { segment, place }), text);
            }
        }
        if !removed.is_empty() {
            stage.removal(&removed);
        }
        stage.append(&own);
        let tail: String =
            (0..unpublished).map(|number| line(&number.to_string()) + "\n").collect();
        stage.append(&tail);
        stage.keep(own.len() as u64, 1);
        let wanted: String = wanted.into_values().map(|text| text + "\n").collect();
        prop_assert_eq!(stage.shown(), wanted.clone() + &tail);
        prop_assert_eq!(stage.edition().is_none(), wanted == own);
        let edition = stage.edition();
        stage.keep(own.len() as u64, 2);
        prop_assert_eq!((stage.shown(), stage.edition()), (wanted + &tail, edition));
    }
}

#[test]
fn one_host_alone_shows_its_file() {
    let stage = Stage::new();
    let text = lines(["a", "b"]) + "\n \n" + &lines(["c"]);
    stage.append(&text);
    stage.segment(OWN, 1, &[(1, line("a")), (2, line("b"))]);
    stage.keep(lines(["a", "b"]).len() as u64, 1);
    assert_eq!((stage.edition(), stage.shown()), (None, text.clone()));
    stage.segment(OWN, 2, &[(3, line("c"))]);
    stage.keep(text.len() as u64, 2);
    assert_eq!((stage.edition(), stage.shown()), (None, text));
}

#[test]
fn what_follows_makes_the_log_longer_and_what_comes_late_makes_another_one() {
    let stage = Stage::new();
    stage.append(&lines(["a"]));
    stage.segment(OWN, 1, &[(10, line("a"))]);
    stage.segment(2, 1, &[(20, line("b"))]);
    let end = lines(["a"]).len() as u64;
    stage.keep(end, 100);
    assert_eq!((stage.edition(), stage.shown()), (Some(100), lines(["a", "b"])));
    stage.segment(2, 2, &[(30, line("c"))]);
    stage.keep(end, 200);
    assert_eq!((stage.edition(), stage.shown()), (Some(100), lines(["a", "b", "c"])));
    stage.append(&lines(["d"]));
    stage.segment(OWN, 2, &[(40, line("d"))]);
    stage.keep(2 * end, 300);
    assert_eq!((stage.edition(), stage.shown()), (Some(100), lines(["a", "b", "c", "d"])));
    stage.segment(3, 1, &[(15, line("late"))]);
    stage.keep(2 * end, 400);
    assert_eq!((stage.edition(), stage.shown()), (Some(400), lines(["a", "late", "b", "c", "d"])));
}

#[test]
fn a_message_that_is_only_here_stays_last() {
    let stage = Stage::new();
    stage.append(&lines(["mine"]));
    stage.segment(2, 1, &[(20, line("b"))]);
    stage.keep(0, 5);
    assert_eq!((stage.edition(), stage.shown()), (Some(5), lines(["b", "mine"])));
    stage.append(&lines(["more"]));
    assert_eq!(stage.shown(), lines(["b", "mine", "more"]));
    assert_eq!(stage.scene.read(LOG), lines(["mine", "more"]), "the file is what this host said");
}

#[test]
fn a_log_is_made_where_only_others_said_something() {
    let stage = Stage::new();
    stage.keep(0, 1);
    assert!(!stage.scene.has(LOG));
    fs::remove_dir_all(stage.scene.at("history")).ok();
    stage.segment(2, 1, &[(20, line("b"))]);
    stage.keep(0, 2);
    assert_eq!((stage.shown(), stage.scene.read(LOG)), (lines(["b"]), String::new()));
}

#[test]
fn what_somebody_removed_is_gone_also_from_the_log_of_its_host() {
    let stage = Stage::new();
    stage.append(&lines(["a", "new"]));
    let mine = stage.segment(OWN, 1, &[(10, line("a"))]);
    let theirs = stage.segment(2, 1, &[(20, line("b"))]);
    stage.removal(&[mine, theirs]);
    stage.keep(lines(["a"]).len() as u64, 1);
    assert_eq!(stage.shown(), lines(["new"]));
}

#[test]
fn what_no_segment_can_say_stays_after_what_it_followed() {
    let stage = Stage::new();
    let own = [lines(["a"]).as_bytes(), b"{\"role\":\"\xff\"}\n", lines(["c"]).as_bytes()].concat();
    fs::write(stage.scene.at(LOG), &own).unwrap();
    stage.segment(OWN, 1, &[(10, line("a")), (30, line("c"))]);
    stage.segment(2, 1, &[(20, line("b"))]);
    stage.keep(own.len() as u64, 1);
    let others = PublishedMessages::of(&stage.scene.store);
    let log = log_of(&stage.scene.conversation, Some(&others)).unwrap().unwrap();
    let wanted =
        [lines(["a"]).as_bytes(), b"{\"role\":\"\xff\"}\n", lines(["b", "c"]).as_bytes()].concat();
    assert_eq!(log.bytes(0, 1000).unwrap(), wanted);
}

#[test]
fn a_log_that_was_replaced_shows_itself_until_the_messages_are_kept_again() {
    let stage = Stage::new();
    stage.append(&lines(["a"]));
    stage.segment(OWN, 1, &[(10, line("a"))]);
    stage.segment(2, 1, &[(20, line("b"))]);
    stage.keep(lines(["a"]).len() as u64, 1);
    fs::write(stage.scene.at("other"), lines(["other"])).unwrap();
    fs::rename(stage.scene.at("other"), stage.scene.at(LOG)).unwrap();
    assert_eq!(stage.shown(), lines(["other"]));
    stage.keep(0, 2);
    assert_eq!(stage.shown(), lines(["a", "b", "other"]));
}

#[test]
fn a_damaged_list_is_made_anew() {
    let stage = Stage::new();
    stage.append(&lines(["a"]));
    stage.segment(2, 1, &[(20, line("b"))]);
    stage.keep(0, 1);
    let kept = stage.scene.store.root().join("remote/messages/c7/published.jsonl");
    fs::write(&kept, "nothing").unwrap();
    assert_eq!(stage.shown(), lines(["a"]));
    stage.keep(0, 2);
    assert_eq!(stage.shown(), lines(["b", "a"]));
}
