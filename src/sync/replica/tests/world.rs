//! Hosts that share one bucket, and random events.

mod bucket;
mod killed;
mod lost;
mod meeting;
mod restored;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::Rng as _;
use proptest::test_runner::{RngAlgorithm, TestRng};

use crate::replica::tests::checker::Checker;
use crate::replica::tests::host::{Host, Piece, Place, digest};
use crate::replica::{
    Changes, Covered, Entry, FileKey, FileVersion, FoundFile, LocalPut, Origin, Publication,
    SegmentId, State, WriterId,
};

use lost::Loss;

/// Hours of a day.
const DAY: u64 = 24;
/// Hours after which a host looks again before it publishes.
const LOOK_AGE: u64 = 1;
const HOSTS: u64 = 3;
/// Names for which hosts compete. The last two exclude each other, because one is a directory of
/// the other.
const PATHS: [&str; 4] = ["X", "Y", "Z.txt", "Z.txt/below"];
/// Kinds of steps, each with its average weight.
const STEPS: [(&str, u64); 18] = [
    ("put", 14),
    ("edit", 4),
    ("complete", 6),
    ("say", 4),
    ("remove", 6),
    ("rename", 6),
    ("show", 10),
    ("look", 12),
    ("push", 40),
    ("merge", 12),
    ("sweep", 5),
    ("again", 3),
    ("collect", 8),
    ("time", 9),
    ("link", 5),
    ("crash", 3),
    ("image", 2),
    ("restore", 2),
];

pub(super) struct World {
    random: TestRng,
    now: u64,
    last: u64,
    /// Weight of each kind of step in this schedule.
    weights: Vec<u64>,
    log: BTreeMap<SegmentId, (u64, Piece)>,
    /// All segments that were ever in the log.
    past: BTreeMap<SegmentId, Piece>,
    objects: BTreeMap<u64, u64>,
    to_delete: Option<Vec<u64>>,
    hosts: Vec<Host>,
    checker: Checker,
    talks: bool,
    /// True if hosts are restored from copies of their files, false if from images of their disks.
    copies: bool,
    /// True if the bucket loses segments temporarily.
    loses: bool,
    lost: BTreeMap<SegmentId, Loss>,
}

impl World {
    pub(super) fn new(seed: u64, talks: bool) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let mut world = Self {
            random,
            now: 1000,
            last: 100,
            weights: Vec::new(),
            log: BTreeMap::new(),
            past: BTreeMap::new(),
            objects: BTreeMap::new(),
            to_delete: None,
            hosts: Vec::new(),
            checker: Checker::default(),
            talks,
            copies: false,
            loses: false,
            lost: BTreeMap::new(),
        };
        for (_, weight) in STEPS {
            // In each schedule, some kinds of steps are much more frequent than others.
            let often = world.pick(&[1, 2, 2, 8]);
            world.weights.push(weight * often);
        }
        for number in 1..=HOSTS {
            let skew = world.pick(&[0, 0, -7, 5, 11]);
            world.hosts.push(Host::new(number, skew));
        }
        world
    }

    pub(super) fn run(&mut self) {
        for _ in 0..20 + self.below(120) {
            let host = self.below(HOSTS) as usize;
            let what = self.step();
            self.tell(host, what);
            self.act(host, what);
            self.lose_or_find();
        }
        self.meet();
    }

    /// Prints the next step, and the files of the host before it.
    fn tell(&self, host: usize, what: &str) {
        if self.talks {
            let away = if self.hosts[host].is_up { "" } else { " (cut off)" };
            println!("{:6} h{host}{away} {what}: {:?}", self.now, self.hosts[host].sight());
        }
    }

    fn act(&mut self, host: usize, what: &str) {
        match what {
            "put" => self.put(host),
            "edit" => self.edit(host),
            "complete" => self.complete(host),
            "say" => self.say(host),
            "remove" => self.remove(host),
            "rename" => self.rename(host),
            "show" => self.show(host),
            "look" => self.look(host),
            "push" => self.push(host),
            "merge" => self.merge(host),
            "sweep" => self.sweep(host),
            "again" => self.appear_again(),
            "collect" => self.collect(host),
            "time" => self.now += self.pick(&[1, 3, 13, 20, 30, 200]),
            "link" => self.hosts[host].is_up ^= true,
            "crash" => self.crash(host),
            "image" => self.hosts[host].image = Some(self.hosts[host].disk.clone()),
            _ => self.restore(host),
        }
    }

    fn put(&mut self, host: usize) {
        let path = self.pick(&PATHS);
        let token = self.fresh();
        let digest = self.pick(&["same", ""]);
        let digest = if digest.is_empty() { format!("d{token}") } else { digest.to_owned() };
        let (inode, modified) = (self.fresh(), token as i64);
        let key = FileKey::Local { inode, born: 0 };
        let version = FileVersion { size: self.below(10), modified };
        let found = FoundFile { key, version, digest: self.once_in(3).then_some(digest.into()) };
        self.write(host, path, &found, token);
    }

    /// Writes to an existing file.
    fn edit(&mut self, host: usize) {
        let here = |found: &FoundFile| matches!(found.key, FileKey::Local { .. });
        let Some((path, mut found)) = self.one_of(host, here) else { return };
        let token = self.fresh();
        found.version.modified = token as i64;
        found.digest = self.once_in(2).then(|| format!("d{token}").into());
        self.write(host, &path, &found, token);
    }

    fn write(&mut self, host: usize, path: &str, found: &FoundFile, token: u64) {
        if in_the_way(&self.hosts[host], path) {
            return;
        }
        let over = self.checker.under(&self.hosts[host], path);
        self.checker.wrote(found, token, over);
        self.hosts[host].disk.files.insert(path.to_owned(), found.clone());
        self.expect(host, path, Some(found));
    }

    fn complete(&mut self, host: usize) {
        let Some((path, mut found)) = self.one_of(host, |found| found.digest.is_none()) else {
            return;
        };
        found.digest = Some(format!("d{}", found.version.modified).into());
        self.checker.completed(&found);
        self.hosts[host].disk.files.insert(path, found);
    }

    fn complete_all(&mut self, host: usize) {
        while self.hosts[host].disk.files.values().any(|found| found.digest.is_none()) {
            self.complete(host);
        }
    }

    fn say(&mut self, host: usize) {
        let message = self.fresh();
        self.hosts[host].disk.messages.push(message);
    }

    fn remove(&mut self, host: usize) {
        let Some((path, _)) = self.one_of(host, |_| true) else { return };
        let under = self.checker.under(&self.hosts[host], &path);
        self.checker.removed(&under);
        self.hosts[host].disk.files.remove(&path);
        self.expect(host, &path, None);
    }

    fn rename(&mut self, host: usize) {
        let Some((from, found)) = self.one_of(host, |_| true) else { return };
        let to = self.pick(&PATHS);
        if from == to {
            return;
        }
        self.hosts[host].disk.files.remove(&from);
        if in_the_way(&self.hosts[host], to) {
            self.hosts[host].disk.files.insert(from, found);
            return;
        }
        let over = self.checker.under(&self.hosts[host], to);
        self.checker.removed(&over);
        self.hosts[host].disk.files.insert(to.to_owned(), found.clone());
        // Content that another host removed disappears under any name. If the file is at the path
        // of the agreement, hosts cannot tell that it was renamed, so the name from another host
        // wins.
        if self.hosts[host].lives(&found) && !self.hosts[host].has_agreed(to, &found) {
            self.expect(host, to, Some(&found));
        }
    }

    /// Checks that the user sees the result of an operation on `path`.
    fn expect(&self, host: usize, path: &str, found: Option<&FoundFile>) {
        let host = &self.hosts[host];
        assert_eq!(host.disk.files.get(path), found);
        let names = host.names();
        let asks = |entry: &&Entry| entry.path == path || entry.asked.as_deref() == Some(path);
        let shown = host.disk.base.entries.iter().filter(asks);
        let shown: BTreeSet<_> = shown.flat_map(|entry| &entry.origins).collect();
        let seen = names.get(path);
        if found.is_some() {
            let below = format!("{path}/");
            let is_directory = names.keys().any(|name| name.starts_with(&below));
            assert!(seen.is_some() || is_directory, "{path}, written a moment ago, is not seen");
        } else if let Some(seen) = seen {
            let is_back = seen.is_local || seen.origins.iter().any(|origin| shown.contains(origin));
            assert!(!is_back, "{path}, removed a moment ago, is seen again");
        }
    }

    fn show(&mut self, host: usize) {
        let most = if self.once_in(8) { self.below(3) as usize } else { usize::MAX };
        self.hosts[host].show(most);
    }

    fn look(&mut self, host: usize) {
        if !self.hosts[host].is_up {
            return;
        }
        self.hosts[host].show(usize::MAX);
        self.hosts[host].disk.looked = Some((self.now, self.covered_for(host)));
        self.recognize(host);
        let seen = self.seen_by(host).map(|(id, piece)| (*id, piece.clone())).collect();
        let host = &mut self.hosts[host];
        host.disk.seen = seen;
        host.disk.seen.values().for_each(|piece| host.disk.clock.see(piece.latest()));
        let disk = &host.disk;
        let is_copied =
            disk.seen.keys().any(|id| id.writer == disk.writer && id.number >= disk.next);
        if is_copied && host.disk.intent.is_none() {
            self.last += 1;
            host.disk.writer = WriterId(self.last);
            host.disk.next = 1;
        }
    }

    /// Completes a publication whose response was lost. Its changes must be agreed on before the
    /// host reads its segment as it reads segments of other hosts.
    fn recognize(&mut self, host: usize) {
        let Some((made, ..)) = &self.hosts[host].disk.intent else { return };
        let id = made.segment.id;
        if self.is_listed(id) || self.covered_for(host).contains(&id) {
            self.publish(host);
        }
    }

    fn push(&mut self, host: usize) {
        if !self.hosts[host].is_up {
            return;
        }
        if self.hosts[host].disk.intent.is_some() {
            return self.publish(host);
        }
        self.hosts[host].recognize_files();
        let changes = self.hosts[host].changes();
        if !self.upload_one(host, &changes) {
            self.prepare(host, &changes);
        }
    }

    /// Uploads the bytes of one file that needs an object. Returns false if there is none.
    fn upload_one(&mut self, host: usize, changes: &Changes) -> bool {
        for (path, put) in &changes.puts {
            let large = put.version.size > 4 && put.digest.is_some();
            let known = self.hosts[host].uploads.get(path);
            let fits = known.is_some_and(|(key, version, _, at)| {
                *key == put.key && *version == put.version && self.now - at <= DAY
            });
            if large && !fits {
                let object = self.fresh();
                self.objects.insert(object, self.now);
                let upload = (put.key, put.version, object, self.now);
                self.hosts[host].uploads.insert(path.clone(), upload);
                return true;
            }
        }
        false
    }

    fn prepare(&mut self, host: usize, changes: &Changes) {
        let (now, host_number) = (self.now, host);
        let host = &mut self.hosts[host_number];
        let said = host.disk.messages.len();
        let is_live = |put: &LocalPut| put.digest.is_none();
        let must_wait = changes.moves.is_empty()
            && changes.removed.is_empty()
            && changes.puts.values().all(is_live);
        if must_wait && said == host.disk.published_messages {
            return;
        }
        let Some(id) = self.next_id(host_number) else { return };
        let host = &mut self.hosts[host_number];
        let time = now.saturating_add_signed(host.skew) * 1000;
        let messages = host.disk.messages[host.disk.published_messages..].to_vec();
        let uploads = &host.uploads;
        let place = |path: &str| -> Place {
            (changes.puts[path].version.size > 4).then(|| uploads[path].2)
        };
        let made = Publication::new(id, changes, messages, &mut host.disk.clock, time, place);
        let after = State::of(host.disk.seen.values().chain([&made.segment])).artifacts;
        for (origin, to) in &made.accepted.moves {
            let has_name = after.get(origin).is_none_or(|claim| claim.path == *to);
            assert!(has_name, "{origin} is not named as it was renamed last");
        }
        host.disk.intent = Some((made, now, said));
    }

    fn publish(&mut self, host: usize) {
        let Some((made, at, said)) = self.hosts[host].disk.intent.clone() else { return };
        let id = made.segment.id;
        let covered = self.known_as_covered(host);
        if self.lost.get(&id) == Some(&Loss::Absent) {
            // The segment cannot be read for a comparison.
            return;
        }
        let there = self.log.get(&id).map(|(_, piece)| piece);
        let was_sent = match there {
            Some(piece) => Some(*piece == made.segment),
            None => covered.has(id, digest(&made.segment)),
        };
        if was_sent == Some(false) {
            let disk = &mut self.hosts[host].disk;
            self.last += 1;
            (disk.writer, disk.next, disk.intent) = (WriterId(self.last), 1, None);
            self.hosts[host].uploads.clear();
            return;
        }
        if was_sent.is_none() {
            if self.now - at > DAY {
                self.hosts[host].disk.intent = None;
                self.hosts[host].uploads.clear();
                return;
            }
            for entry in &made.accepted.puts {
                self.checker.published(entry.origins[0], entry.key, entry.version.modified);
            }
            self.checker.messages.extend(made.segment.messages.values().map(|(_, said)| *said));
            self.log.insert(id, (self.now, made.segment.clone()));
            self.past.insert(id, made.segment.clone());
            if self.once_in(3) {
                return;
            }
        }
        self.acknowledge(host, &made, said);
    }

    /// Returns the segments that are covered according to the merges that a host has seen. Looks
    /// first if the last look is [`LOOK_AGE`] old.
    fn known_as_covered(&mut self, host: usize) -> Covered {
        let now = self.now;
        let looked = self.hosts[host].disk.looked.take().filter(|(at, _)| now - at < LOOK_AGE);
        let looked = looked.unwrap_or_else(|| (now, self.covered_for(host)));
        self.hosts[host].disk.looked.insert(looked).1.clone()
    }

    fn covered(&self) -> Covered {
        self.log.values().map(|(_, piece)| &piece.covers).collect()
    }

    fn acknowledge(&mut self, host: usize, made: &Publication<Place, u64>, said: usize) {
        let origins: Vec<Origin> = made.segment.artifacts.keys().copied().collect();
        if made.segment.covers.is_empty() {
            self.checker.acknowledged(&origins, &made.accepted.removed);
        }
        let host = &mut self.hosts[host];
        host.disk.base.accept(&made.accepted);
        host.recognize_files();
        host.disk.published_messages = host.disk.published_messages.max(said);
        host.disk.seen.insert(made.segment.id, made.segment.clone());
        host.disk.intent = None;
        host.disk.next += 1;
    }

    fn one_of(
        &mut self,
        host: usize,
        fits: impl Fn(&FoundFile) -> bool,
    ) -> Option<(String, FoundFile)> {
        let files = self.hosts[host].disk.files.iter().filter(|(_, found)| fits(found));
        let files: Vec<_> = files.map(|(path, found)| (path.clone(), found.clone())).collect();
        let at = self.below(files.len().max(1) as u64) as usize;
        files.get(at).cloned()
    }

    fn step(&mut self) -> &'static str {
        let mut at = self.below(self.weights.iter().sum());
        for ((what, _), weight) in STEPS.iter().zip(&self.weights) {
            if at < *weight {
                return what;
            }
            at -= weight;
        }
        unreachable!("the weights add up")
    }

    fn pick<T: Copy>(&mut self, among: &[T]) -> T {
        among[self.below(among.len() as u64) as usize]
    }

    fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random.next_u64() % end
    }

    fn fresh(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

/// Returns true if a file cannot have this path, because the path is a directory or is below a
/// file.
fn in_the_way(host: &Host, path: &str) -> bool {
    let below = format!("{path}/");
    host.disk
        .files
        .keys()
        .any(|other| other.starts_with(&below) || path.starts_with(&format!("{other}/")))
}
