//! The store's own settings file.
//!
//! Whoever may write to the store may write this file: a command in the sandbox of an agent's host,
//! for example. So nothing in it sends data, names a key or a program, grants a right or reaches
//! outside of the store, and no content of it ends a command.

use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::{fs, io};

use crate::outcome::Failure;
use crate::settings::calls::{PERMISSIONS, RISK};
use crate::settings::file::{
    EXTRACT, REDACT, REMOTE, SettingsFile, SettingsReader, in_order, is_absent, text_of, unreadable,
};
use ctxfs_core::model::visible;

/// The tables that count from other files alone.
pub(crate) const USER_TABLES: [&str; 5] = [EXTRACT, REMOTE, PERMISSIONS, RISK, REDACT];
/// Maximum bytes of the file: a hostile one must not take a hook its time.
const MOST_BYTES: u64 = 64 << 10;
/// Maximum bytes of a notice about what is wrong in it.
const NOTICE: usize = 300;

/// The store's own file, as far as it counts.
#[derive(Debug)]
pub(crate) struct StoreFile {
    pub(crate) file: SettingsFile,
    /// Settings in it that do not count, as in `[extract]` and `mountpoint`.
    left_out: Vec<String>,
    /// The first thing in it that is wrong.
    wrong: Option<String>,
}

impl StoreFile {
    /// Reads the file. Returns `None` if it does not exist.
    pub(crate) fn read(path: &Path) -> Option<Self> {
        // A FIFO is not waited for.
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path);
        let text = file.and_then(|file| {
            let is_file = file.metadata()?.is_file();
            if is_file {
                text_of(file, MOST_BYTES)
            } else {
                Err(io::Error::other("it is no regular file"))
            }
        });
        match text {
            Ok(text) => Some(Self::parse(path, &text)),
            Err(error) if is_absent(&error) => None,
            Err(error) => {
                let mut file = Self::new(path);
                file.note(&unreadable(path, &error));
                Some(file)
            }
        }
    }

    fn new(path: &Path) -> Self {
        let file = SettingsFile { path: path.to_owned(), ..SettingsFile::default() };
        Self { file, left_out: Vec::new(), wrong: None }
    }

    /// Parses `text`, the content of `path`. An entry that is wrong does not count.
    fn parse(path: &Path, text: &str) -> Self {
        let reader = SettingsReader { path, text };
        let mut stores = Self::new(path);
        let table = match reader.document() {
            Ok(table) => table,
            Err(failure) => {
                stores.note(&failure);
                return stores;
            }
        };
        for (name, item) in in_order(table.get_ref()) {
            if USER_TABLES.iter().any(|table| name.get_ref() == table) {
                stores.left_out.push(format!("[{}]", name.get_ref()));
            } else if let Err(failure) = reader.entry(name, item, &mut stores.file) {
                stores.note(&failure);
            }
        }
        let (file, left_out) = (&mut stores.file, &mut stores.left_out);
        let keys = file.values.iter().map(|(key, _)| key);
        let keys = keys.chain(file.tools.iter().map(|(_, key, _)| key));
        left_out.extend(
            keys.filter(|key| !key.counts_from_store()).map(|key| key.row().name.to_owned()),
        );
        left_out.dedup();
        file.values.retain(|(key, _)| key.counts_from_store());
        file.tools.retain(|(_, key, _)| key.counts_from_store());
        stores
    }

    fn note(&mut self, failure: &Failure) {
        // A stranger may have written it, and a model may read it.
        let note = || visible::escaped(&failure.message, NOTICE);
        self.wrong.get_or_insert_with(note);
    }

    /// Returns what to tell about the file. `users` is the file that counts in its place.
    pub(crate) fn notices(&self, users: Option<&Path>) -> Vec<String> {
        let wrong = self.wrong.as_ref().map(|wrong| format!("{wrong}; this does not count"));
        let left_out = (!self.left_out.is_empty()).then(|| {
            let (names, path) = (self.left_out.join(", "), self.file.path.display());
            let (is, it) = if self.left_out.len() == 1 { ("is", "it") } else { ("are", "them") };
            let place = users
                .map_or("the file of `--config`".to_owned(), |users| users.display().to_string());
            format!("{path}: {names} {is} not read from a store; put {it} into {place}")
        });
        wrong.into_iter().chain(left_out).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::row::Key;

    fn parse(text: &str) -> StoreFile {
        StoreFile::parse(Path::new("/s/ctxfs.toml"), text)
    }

    fn notices(text: &str) -> Vec<String> {
        parse(text).notices(Some(Path::new("/u.toml")))
    }

    #[test]
    fn what_sends_names_or_grants_does_not_count_and_is_told() {
        let text = "store = \"/x\"\nquota = 7\nallow_other = true\nredact = \"off\"\n\
                    [mcp]\nreferences = true\nmax_body = 9\n\
                    [tool.\"a/*\"]\ndir = \"/home\"\nmax_lines = 3\n\
                    [extract]\ntargets = [\"x/y\"]\n[extract.provider.x]\nkind = 3\n\
                    [remote]\nurl = \"file:///x\"\n[permissions]\n\"*\" = \"allow\"\n[risk]\nx = 1\n";
        let stores = parse(text);
        let keys: Vec<Key> = stores.file.values.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys, [Key::Quota, Key::MaxBody]);
        assert_eq!(stores.file.tools.len(), 1);
        assert!(stores.file.redact.origin.is_none());
        assert!(stores.file.models.targets.is_none() && stores.file.models.providers.is_empty());
        assert!(stores.file.calls.tables().iter().all(|(_, rules)| rules.is_empty()));
        assert_eq!(
            stores.notices(Some(Path::new("/u.toml"))),
            ["/s/ctxfs.toml: [redact], [extract], [remote], [permissions], [risk], store, \
              allow_other, references, dir are not read from a store; put them into /u.toml"]
        );
    }

    #[test]
    fn what_is_wrong_is_told_once_and_the_rest_counts() {
        let text = "quota = 7\n\"\\u001b[31m\" = 1\nmax_lines = true\nmin_free = 3\n";
        assert_eq!(parse(text).file.values.len(), 2);
        assert_eq!(
            notices(text),
            ["/s/ctxfs.toml:2: unknown key `\\u{1b}[31m`; this does not count"]
        );
        let long = notices(&format!("{} = 1\n", "x".repeat(10_000)));
        assert!(long[0].len() < 2 * NOTICE, "{long:?}");
        assert!(notices("a = = 1\n")[0].starts_with("/s/ctxfs.toml:1: invalid TOML: "));
        assert!(notices("quota = 7\n").is_empty());
    }

    #[test]
    fn no_content_is_waited_for_or_read_to_an_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ctxfs.toml");
        let told = || StoreFile::read(&path).unwrap().notices(None).join("\n");
        assert!(StoreFile::read(&path).is_none());
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR).unwrap();
        assert!(told().contains("it is no regular file; this does not count"), "{}", told());
        fs::remove_file(&path).unwrap();
        for (to, why) in [("/dev/zero", "it is no regular file"), ("ctxfs.toml", "cannot read")] {
            std::os::unix::fs::symlink(to, &path).unwrap();
            assert!(told().contains(why), "{to}: {}", told());
            fs::remove_file(&path).unwrap();
        }
        fs::write(&path, vec![b'#'; 1 << 20]).unwrap();
        assert!(told().contains("larger than 64 KiB"), "{}", told());
        fs::write(&path, b"log = \"\xff\"\n").unwrap();
        assert!(!told().is_empty());
    }
}
