//! Checks of views: each must show the expected text, and a kept one must not change.

use serde_json::Value;

use super::expected;
use super::expected::Expected;
use super::harness::{Generation, Held, Run, Subject, same};
use super::operations::Ask;
use super::reference::{Answer, FileId, Found, Node, is_artifact};

/// The most views that one run holds.
const HELD: usize = 12;

impl<S: Subject> Run<S> {
    /// Returns the file whose view is asked for, or the errno if there is none.
    fn subject_of(&self, path: &str, ask: Ask) -> Answer<FileId> {
        let hidden = format!("{path}{}", ask.suffix());
        let found = self.tree.find(path)?;
        if self.tree.nodes.contains_key(&hidden) {
            // An ordinary file hides it.
            return Err(0);
        }
        let below = ask.suffix().contains('/');
        match found {
            Some(Found::File(file)) if self.tree.has_views(path) => {
                let dir = hidden.rsplit_once('/').map_or("", |(dir, _)| dir);
                match self.tree.nodes.get(dir) {
                    Some(Node::File(_)) => Err(libc::ENOTDIR),
                    Some(Node::Dir) if below => Err(libc::ENOENT),
                    _ => Ok(file),
                }
            }
            // A view has none, nor has a directory.
            _ => match self.tree.find(&hidden) {
                Err(error) if below => Err(error),
                _ => Err(libc::ENOENT),
            },
        }
    }

    pub(super) fn view(&mut self, path: &str, ask: Ask) {
        let file = self.subject_of(path, ask);
        if file == Err(0) {
            return;
        }
        let got = self.subject.bytes(&format!("{path}{}", ask.suffix()));
        self.judge(path, ask, file, got.as_deref().map_err(|error| *error));
    }

    pub(super) fn hold(&mut self, path: &str, ask: Ask) {
        let file = self.subject_of(path, ask);
        if file == Err(0) || self.held.len() >= HELD {
            return;
        }
        let view = format!("{path}{}", ask.suffix());
        let of_number = self.subject.stat(path).map_or(0, |stat| stat.number);
        let got = self.subject.hold(&view);
        let bytes = got.as_ref().map(|(_, bytes)| bytes.as_slice()).map_err(|error| *error);
        self.judge(path, ask, file, bytes);
        let (Ok((kept, bytes)), Ok(of)) = (got, file) else { return };
        let known = &self.tree.files[of];
        let (edits, touches, mapped) = (known.edits, known.touches, known.mapped);
        let held = Held { path: view, of, of_number, edits, touches, mapped, bytes, kept };
        self.compare_numbers(path, &held);
        self.held.push(held);
    }

    /// Checks that the view of an unchanged file keeps its number, and that of a changed file gets
    /// another.
    fn compare_numbers(&self, path: &str, new: &Held<S::Held>) {
        let number = self.subject.number(&new.kept);
        for old in self.held.iter().filter(|old| old.path == new.path) {
            let same = self.subject.number(&old.kept) == number;
            let unchanged = (old.of, old.touches, old.of_number, old.mapped)
                == (new.of, new.touches, new.of_number, false);
            assert!(same || !unchanged, "{path} is as it was, and its view has a new number");
            let changed = old.of != new.of || old.edits != new.edits;
            assert!(!(same && changed), "{path} has changed, and its view has the same number");
        }
    }

    fn judge(&mut self, path: &str, ask: Ask, of: Answer<FileId>, got: Result<&[u8], i32>) {
        let view = format!("{path}{}", ask.suffix());
        let file = match of {
            Ok(file) => file,
            Err(error) => return assert_eq!(got, Err(error), "{view}"),
        };
        let known = &self.tree.files[file];
        match expected::view(ask, &known.bytes) {
            Expected::Exactly(wanted) => same(&view, &got.map(<[u8]>::to_vec), &Ok(wanted)),
            Expected::Noted => assert!(got.is_ok_and(|text| text.starts_with(b"# ")), "{view}"),
            Expected::NotFound => assert_eq!(got, Err(libc::ENOENT), "{view}"),
            Expected::Something if ask == Ask::Meta => {
                let text = got.unwrap_or_else(|error| panic!("{view}: errno {error}"));
                self.judge_meta(path, file, &serde_json::from_slice(text).unwrap());
            }
            Expected::Something => assert!(got.is_ok_and(|text| !text.is_empty()), "{view}"),
        }
    }

    fn judge_meta(&mut self, path: &str, file: FileId, meta: &Value) {
        let known = &self.tree.files[file];
        let digest = blake3::hash(&known.bytes).to_hex().to_string();
        assert_eq!(meta["analysis"]["digest"], *digest, "{path}: {meta:#}");
        assert_eq!(meta["size"], known.bytes.len(), "{path}");
        assert_eq!(meta["exit_code"].as_u64(), known.exit_code.map(u64::from), "{path}: {meta:#}");
        assert_eq!(
            Some(meta["path"].as_str().unwrap()),
            path.split_once('/').map(|(_, path)| path)
        );
        if is_artifact(path) {
            self.judge_generation(path, file, meta["generation"].as_u64().unwrap());
        }
    }

    /// Checks that the generation never goes back, and grows with each life.
    fn judge_generation(&mut self, path: &str, file: FileId, number: u64) {
        let reopened = self.tree.files[file].reopened;
        let now = Generation { path: path.to_owned(), reopened, number };
        if let Some(before) = self.generations.insert(file, now).filter(|old| old.path == path) {
            let least = before.number + u64::from(reopened > before.reopened);
            assert!(number >= least, "{path}: generation {number} after {}", before.number);
        }
    }
}
