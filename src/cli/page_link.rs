//! Links to the page, where one runs: `ctxfs web` leaves a small file that names it, and other
//! commands print where the page shows what they are about.
//!
//! The file has no token. A browser that was let in once needs none.

use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::{fs, io};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};

use crate::context::Context;
use crate::env::Environment;
use crate::places;
use ctxfs_core::model::{Component, Owner};
use ctxfs_store::{owner_lives, this_process};

/// The beginning of the names of these files, and of those by which a browser is let in.
const PAGE: &str = "page-";
const OPEN: &str = "open-page-";
/// The most bytes of such a file.
const MOST: u64 = 16 << 10;
/// Everything but what RFC 3986 calls unreserved.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A page that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RunningPage {
    /// Its address, which ends in `/`.
    pub(super) url: String,
    /// Its process.
    owner: Owner,
    store: PathBuf,
    /// The only conversation that it shows.
    only: Option<String>,
}

impl RunningPage {
    /// Describes the page of this process at `url`.
    pub(super) fn of(url: String, store: &Path, only: Option<&Component>) -> Option<Self> {
        let only = only.map(Component::to_text);
        Some(Self { url, owner: this_process()?, store: store.to_owned(), only })
    }

    /// Leaves the file that names this page, and removes those of pages that have ended.
    pub(super) fn leave(&self, environment: &Environment) -> io::Result<()> {
        let dir = made(environment)?;
        remove_ended(&dir);
        let text = serde_json::to_vec(self)?;
        write(&dir.join(format!("{PAGE}{}.json", self.owner.pid)), &text)
    }

    /// Leaves a file that leads a browser to `address`. The address has the token, so it must not
    /// be among the arguments of a program, which other users see.
    pub(super) fn leave_opener(
        &self,
        environment: &Environment,
        address: &str,
    ) -> io::Result<PathBuf> {
        let path = made(environment)?.join(format!("{OPEN}{}.html", self.owner.pid));
        let text = format!(
            "<!doctype html><meta charset=utf-8><meta http-equiv=refresh content=\"0;url={address}\">\
             <title>ctxfs</title><a href=\"{address}\">the page of ctxfs</a>\n"
        );
        write(&path, text.as_bytes())?;
        Ok(path)
    }

    /// Returns the address of a conversation, or of the output at `path` in it; `None` if the page
    /// does not show it.
    pub(super) fn address(&self, id: Option<&Component>, path: Option<&str>) -> Option<String> {
        let Some(id) = id.map(Component::to_text) else { return Some(self.url.clone()) };
        if self.only.as_ref().is_some_and(|only| *only != id) {
            return None;
        }
        let mut address = format!("{}c/{}", self.url, encoded(&id));
        if let Some(path) = path {
            address.push_str("/o");
            for name in path.split('/') {
                let _infallible = write!(address, "/{}", encoded(name));
            }
        }
        Some(address)
    }
}

/// Finds a page that shows `store`.
pub(super) fn running(store: &Path, environment: &Environment) -> Option<RunningPage> {
    let dir = places::state_dir(environment)?;
    let pages = fs::read_dir(dir).ok()?.flatten().filter_map(|entry| page_at(&entry.path()));
    pages.into_iter().find(|page| page.store == store && owner_lives(page.owner))
}

/// Tells a person at a terminal where the page shows a conversation, or an output of it.
pub(super) fn tell(
    context: &mut Context,
    store: &Path,
    id: Option<&Component>,
    path: Option<&str>,
) {
    if !context.printer.is_for_person() {
        return;
    }
    let page = running(store, &context.environment);
    if let Some(address) = page.and_then(|page| page.address(id, path)) {
        let link = linked(&address, context.environment.links);
        context.printer.say(&format_args!("page: {link}"));
    }
}

/// Returns an address as a link, if the terminal knows such.
fn linked(address: &str, links: bool) -> String {
    if links {
        format!("\x1b]8;;{address}\x1b\\{address}\x1b]8;;\x1b\\")
    } else {
        address.to_owned()
    }
}

fn page_at(path: &Path) -> Option<RunningPage> {
    let name = path.file_name()?.to_str()?;
    let is_page = name.starts_with(PAGE) && fs::symlink_metadata(path).ok()?.len() <= MOST;
    serde_json::from_slice(&is_page.then(|| fs::read(path).ok())??).ok()
}

fn remove_ended(dir: &Path) {
    for path in fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()) {
        if let Some(page) = page_at(&path).filter(|page| !owner_lives(page.owner)) {
            // Another page may do the same.
            fs::remove_file(&path).ok();
            fs::remove_file(dir.join(format!("{OPEN}{}.html", page.owner.pid))).ok();
        }
    }
}

fn made(environment: &Environment) -> io::Result<PathBuf> {
    let dir = places::state_dir(environment)
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "HOME is not set"))?;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
    Ok(dir)
}

fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    // Another user's link is never followed.
    fs::remove_file(path).ok();
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(text)
}

fn encoded(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(dir: &Path) -> Environment {
        Environment { state_home: Some(dir.to_owned()), ..Environment::default() }
    }

    fn page(store: &str) -> RunningPage {
        let only = Component::new("c7").unwrap();
        let url = "http://127.0.0.1:9/".to_owned();
        RunningPage::of(url, Path::new(store), Some(&only)).unwrap()
    }

    #[test]
    fn a_page_is_found_while_it_runs() {
        let dir = tempfile::tempdir().unwrap();
        let environment = environment(dir.path());
        assert_eq!(running(Path::new("/store"), &environment), None);
        let mine = page("/store");
        mine.leave(&environment).unwrap();
        assert_eq!(running(Path::new("/store"), &environment), Some(mine.clone()));
        assert_eq!(running(Path::new("/other"), &environment), None);
        let ended = RunningPage { owner: Owner { pid: 1, started: 1 }, ..page("/ended") };
        ended.leave(&environment).unwrap();
        assert_eq!(running(Path::new("/ended"), &environment), None);
        mine.leave(&environment).unwrap();
        assert_eq!(fs::read_dir(dir.path().join("ctxfs")).unwrap().count(), 1);
        let text =
            fs::read_to_string(mine.leave_opener(&environment, "http://x/?token=t").unwrap());
        assert!(text.unwrap().contains("url=http://x/?token=t"));
    }

    #[test]
    fn addresses_are_those_of_what_the_page_shows() {
        let page = page("/store");
        let (own, other) = (Component::new("c7").unwrap(), Component::new("c8").unwrap());
        assert_eq!(page.address(None, None).unwrap(), "http://127.0.0.1:9/");
        let output = page.address(Some(&own), Some("artifacts/tool/a b?.txt")).unwrap();
        assert_eq!(output, "http://127.0.0.1:9/c/c7/o/artifacts/tool/a%20b%3F.txt");
        assert_eq!(page.address(Some(&other), None), None);
        assert_eq!(linked("http://x/", true), "\x1b]8;;http://x/\x1b\\http://x/\x1b]8;;\x1b\\");
    }
}
