//! Links to the web page. `ctxfs web` writes a small file with the address of the page. Other
//! commands read it to print links to the conversations and outputs that they are about.
//!
//! The file contains no token. A browser that was authorized once does not need it again.

use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::{fmt::Write as _, fs};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};

use crate::{Context, Environment, places};
use ctxfs_core::model::{Component, Owner};
use ctxfs_store::{owner_lives, this_process};

// Prefixes of file names: files with the address of a page, and files that open the page in a
// browser.
const PAGE: &str = "page-";
const OPEN: &str = "open-page-";
const MOST: u64 = 16 << 10;
// All characters except the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A running page: its address (which ends in `/`), its process, its store, and the conversation if
/// the page shows only one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunningPage {
    pub(crate) url: String,
    owner: Owner,
    store: PathBuf,
    only: Option<String>,
}

impl RunningPage {
    pub(crate) fn of(url: String, store: &Path, only: Option<&Component>) -> Option<Self> {
        let only = only.map(Component::to_text);
        Some(Self { url, owner: this_process()?, store: store.to_owned(), only })
    }

    /// Writes the file with the address of this page, and removes the files of pages that have
    /// ended.
    pub(crate) fn write_link(&self, environment: &Environment) -> io::Result<()> {
        let dir = made(environment)?;
        remove_ended(&dir);
        let text = serde_json::to_vec(self)?;
        write(&dir.join(format!("{PAGE}{}.json", self.owner.pid)), &text)
    }

    /// Writes a file that redirects a browser to `address`. The address contains the token, so it
    /// must not be passed as an argument of a program, where other users can see it.
    pub(crate) fn write_opener(
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

    /// Returns the address of the page, of the conversation `id`, or of the output at `path` in
    /// that conversation. Returns `None` if the page does not show the conversation.
    pub(crate) fn address(&self, id: Option<&Component>, path: Option<&str>) -> Option<String> {
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

pub(crate) fn running(store: &Path, environment: &Environment) -> Option<RunningPage> {
    let dir = places::state_dir(environment)?;
    let pages = fs::read_dir(dir).ok()?.flatten().filter_map(|entry| page_at(&entry.path()));
    pages.into_iter().find(|page| page.store == store && owner_lives(page.owner))
}

/// Prints the address of the page, of a conversation or of an output. Prints nothing if no running
/// page shows it, or if the terminal is not interactive.
pub(crate) fn print_link(
    context: &mut Context,
    store: &Path,
    id: Option<&Component>,
    path: Option<&str>,
) {
    if !context.printer.is_interactive() {
        return;
    }
    let page = running(store, &context.environment);
    if let Some(address) = page.and_then(|page| page.address(id, path)) {
        let link = linked(&address, context.environment.links);
        context.printer.message(&format_args!("page: {link}"));
    }
}

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
    // A link of another user is never used.
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
        let running_page = page("/store");
        running_page.write_link(&environment).unwrap();
        assert_eq!(running(Path::new("/store"), &environment), Some(running_page.clone()));
        assert_eq!(running(Path::new("/other"), &environment), None);
        let ended = RunningPage { owner: Owner { pid: 1, started: 1 }, ..page("/ended") };
        ended.write_link(&environment).unwrap();
        assert_eq!(running(Path::new("/ended"), &environment), None);
        running_page.write_link(&environment).unwrap();
        assert_eq!(fs::read_dir(dir.path().join("ctxfs")).unwrap().count(), 1);
        let text = fs::read_to_string(
            running_page.write_opener(&environment, "http://x/?token=t").unwrap(),
        );
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
