//! The tree as its user sees it, in the simplest form: a map from paths to nodes.
//!
//! Errors are those of the system calls. Views are here only as names; `expected` has their bytes.

use std::collections::{BTreeMap, BTreeSet};

use libc::{EEXIST, EINVAL, EISDIR, ENOENT, ENOTDIR, ENOTEMPTY, EPERM};

use super::operations::{How, Mode};

/// The result of a call, or its errno.
pub(crate) type Answer<T> = Result<T, i32>;

/// The directories of a new conversation.
const SKELETON: [&str; 8] = [
    "artifacts",
    "artifacts/tool",
    "artifacts/terminal",
    "history",
    "history/archive",
    "history/summary",
    "catalog",
    "catalog/tools",
];

/// A file by its number, which outlives its name.
pub(crate) type FileId = usize;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Node {
    Dir,
    File(FileId),
}

/// The file or directory that a name leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    Dir,
    File(FileId),
    View,
    ViewDir,
}

impl Found {
    fn is_dir(self) -> bool {
        matches!(self, Self::Dir | Self::ViewDir)
    }

    fn is_view(self) -> bool {
        matches!(self, Self::View | Self::ViewDir)
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct File {
    pub(crate) bytes: Vec<u8>,
    pub(crate) mode: u32,
    /// The time in seconds, if it was set and nothing has been written since.
    pub(crate) modified: Option<u32>,
    pub(crate) exit_code: Option<u8>,
    pub(crate) writers: u32,
    /// Grows with every change of the bytes.
    pub(crate) edits: u64,
    /// Grows with every change that may show in a view, or in its inode number.
    pub(crate) touches: u64,
    /// True if it was opened for reading and writing, so that it may have been mapped, which shows
    /// when it is sealed.
    pub(crate) mapped: bool,
    /// True if it is certainly sealed, with nothing done since.
    pub(crate) settled: bool,
    /// The number of times it was opened for writing after it was certainly sealed.
    pub(crate) reopened: u64,
    /// True if the manifest must have it, because it was closed or renamed as an artifact.
    pub(crate) recorded: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Handle {
    pub(crate) file: FileId,
    pub(crate) how: How,
}

#[derive(Debug, Default)]
pub(crate) struct Tree {
    pub(crate) nodes: BTreeMap<String, Node>,
    pub(crate) files: Vec<File>,
    pub(crate) handles: Vec<Handle>,
}

pub(crate) fn parent_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

pub(crate) fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn is_scratch(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(stem, end)| !stem.is_empty() && end == "tmp")
}

/// Returns the path inside the conversation.
fn inside(path: &str) -> &str {
    path.split_once('/').map_or("", |(_, inside)| inside)
}

pub(crate) fn is_artifact(path: &str) -> bool {
    inside(path).starts_with("artifacts/") && !is_scratch(name_of(path))
}

fn is_below(path: &str, dir: &str) -> bool {
    path.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/'))
}

impl Tree {
    /// Returns the node at `path`, or none if the directory exists and the name does not.
    pub(crate) fn find(&self, path: &str) -> Answer<Option<Found>> {
        let mut parent = parent_of(path);
        let mut answer = Ok(());
        while !parent.is_empty() {
            match self.nodes.get(parent) {
                Some(Node::Dir) => {}
                Some(Node::File(_)) => answer = Err(ENOTDIR),
                None => answer = Err(ENOENT),
            }
            parent = parent_of(parent);
        }
        answer.map(|()| self.at(path))
    }

    fn at(&self, path: &str) -> Option<Found> {
        match self.nodes.get(path) {
            Some(Node::Dir) => return Some(Found::Dir),
            Some(Node::File(file)) => return Some(Found::File(*file)),
            None => {}
        }
        [(".summary", Found::View), (".tail", Found::View), (".grep", Found::ViewDir)]
            .into_iter()
            .find(|(suffix, _)| path.strip_suffix(suffix).is_some_and(|of| self.has_views(of)))
            .map(|(_, found)| found)
    }

    /// Returns true if views of `path` are found, unless a real file hides them.
    pub(crate) fn has_views(&self, path: &str) -> bool {
        matches!(self.nodes.get(path), Some(Node::File(_))) && !is_scratch(name_of(path))
    }

    fn must(&self, path: &str) -> Answer<Found> {
        self.find(path)?.ok_or(ENOENT)
    }

    /// Returns the file or directory at a path. Fails with EPERM for a view.
    fn changeable(&self, path: &str) -> Answer<Node> {
        match self.must(path)? {
            Found::Dir => Ok(Node::Dir),
            Found::File(file) => Ok(Node::File(file)),
            Found::View | Found::ViewDir => Err(EPERM),
        }
    }

    pub(crate) fn children<'a>(&'a self, dir: &'a str) -> impl Iterator<Item = &'a str> {
        self.nodes.keys().map(String::as_str).filter(move |path| parent_of(path) == dir)
    }

    fn below(&self, dir: &str) -> Vec<String> {
        self.nodes.keys().filter(|path| is_below(path, dir)).cloned().collect()
    }

    pub(crate) fn open(&mut self, path: &str, how: How) -> Answer<()> {
        let found = self.find(path)?;
        if found.is_some() && how.excl {
            return Err(EEXIST);
        }
        let file = match found {
            Some(Found::File(file)) => file,
            Some(Found::Dir | Found::ViewDir) => return Err(EISDIR),
            Some(Found::View) => return Err(EPERM),
            None if !how.create => return Err(ENOENT),
            None if parent_of(path).is_empty() => return Err(EPERM),
            None => {
                let recorded = !how.write && is_artifact(path);
                self.files.push(File { mode: 0o600, recorded, ..File::default() });
                self.nodes.insert(path.to_owned(), Node::File(self.files.len() - 1));
                self.files.len() - 1
            }
        };
        self.files[file].opened(how);
        self.handles.push(Handle { file, how });
        Ok(())
    }

    pub(crate) fn write(&mut self, handle: usize, at: usize, text: &[u8]) -> Answer<()> {
        let Handle { file, how } = self.handles[handle];
        if !how.write {
            return Err(libc::EBADF);
        }
        let file = &mut self.files[file];
        let at = if how.append { file.bytes.len() } else { at };
        file.edit(|bytes| {
            bytes.resize(bytes.len().max(at + text.len()), 0);
            bytes[at..at + text.len()].copy_from_slice(text);
        });
        Ok(())
    }

    pub(crate) fn read(&self, handle: usize, at: usize, length: usize) -> Answer<Vec<u8>> {
        let Handle { file, how } = self.handles[handle];
        if !how.read {
            return Err(libc::EBADF);
        }
        let bytes = &self.files[file].bytes;
        let end = bytes.len().min(at + length);
        Ok(bytes[at.min(end)..end].to_vec())
    }

    pub(crate) fn truncate(&mut self, handle: usize, length: usize) -> Answer<()> {
        let Handle { file, how } = self.handles[handle];
        if !how.write {
            return Err(EINVAL);
        }
        self.files[file].edit(|bytes| bytes.resize(length, 0));
        Ok(())
    }

    pub(crate) fn truncate_path(&mut self, path: &str, length: usize) -> Answer<()> {
        match self.must(path)? {
            Found::File(file) => {
                let artifact = is_artifact(path);
                let file = &mut self.files[file];
                file.edit(|bytes| bytes.resize(length, 0));
                file.recorded |= artifact && file.writers == 0;
                Ok(())
            }
            Found::Dir | Found::ViewDir => Err(EISDIR),
            Found::View => Err(EPERM),
        }
    }

    pub(crate) fn close(&mut self, handle: usize) {
        let Handle { file, how } = self.handles.remove(handle);
        let path = self.path_of(file);
        let file = &mut self.files[file];
        if how.write {
            file.writers -= 1;
            file.recorded |= file.writers == 0 && path.is_some_and(|path| is_artifact(&path));
        }
    }

    pub(crate) fn path_of(&self, file: FileId) -> Option<String> {
        let here = |node: &Node| *node == Node::File(file);
        self.nodes.iter().find(|(_, node)| here(node)).map(|(path, _)| path.clone())
    }

    pub(crate) fn unlink(&mut self, path: &str) -> Answer<()> {
        match self.must(path)? {
            Found::Dir | Found::ViewDir => return Err(EISDIR),
            Found::View => {}
            Found::File(file) => {
                self.files[file].touches += 1;
                self.nodes.remove(path);
            }
        }
        Ok(())
    }

    /// Returns true for one of the directories that every conversation has from the start.
    pub(crate) fn is_standard(path: &str) -> bool {
        SKELETON.contains(&inside(path))
    }

    pub(crate) fn mkdir(&mut self, path: &str) -> Answer<()> {
        if self.find(path)?.is_some() {
            return Err(EEXIST);
        }
        self.nodes.insert(path.to_owned(), Node::Dir);
        if parent_of(path).is_empty() {
            let below = SKELETON.map(|name| (format!("{path}/{name}"), Node::Dir));
            self.nodes.extend(below);
        }
        Ok(())
    }

    pub(crate) fn rmdir(&mut self, path: &str) -> Answer<()> {
        match self.must(path)? {
            Found::File(_) | Found::View => return Err(ENOTDIR),
            Found::ViewDir => return Ok(()),
            Found::Dir => {}
        }
        if !self.is_bare(path) {
            return Err(ENOTEMPTY);
        }
        self.nodes.retain(|other, _| other != path && !is_below(other, path));
        Ok(())
    }

    /// Returns true if a directory counts as empty, as a conversation without any file does.
    fn is_bare(&self, path: &str) -> bool {
        let conversation = parent_of(path).is_empty();
        self.below(path)
            .iter()
            .all(|below| conversation && self.nodes[below] == Node::Dir && Self::is_standard(below))
    }

    pub(crate) fn rename(&mut self, from: &str, to: &str, mode: Mode) -> Answer<()> {
        self.find(from).and(self.find(to))?;
        let source = self.must(from)?;
        let target = self.find(to)?;
        match (mode, target) {
            (Mode::KeepExisting, Some(_)) => return Err(EEXIST),
            (Mode::Exchange, None) => return Err(ENOENT),
            _ => {}
        }
        if is_below(to, from) {
            return Err(EINVAL);
        }
        if is_below(from, to) {
            return Err(if mode == Mode::Exchange { EINVAL } else { ENOTEMPTY });
        }
        if from == to {
            return Ok(());
        }
        match target {
            Some(target) if mode == Mode::Replace && source.is_dir() != target.is_dir() => {
                return Err(if source.is_dir() { ENOTDIR } else { EISDIR });
            }
            _ => {}
        }
        let computed = source.is_view() || target.is_some_and(Found::is_view);
        if computed || parent_of(from).is_empty() != parent_of(to).is_empty() {
            return Err(EPERM);
        }
        if mode == Mode::Replace && target == Some(Found::Dir) && !self.is_bare(to) {
            return Err(ENOTEMPTY);
        }
        self.move_nodes(from, to, mode);
        Ok(())
    }

    fn move_nodes(&mut self, from: &str, to: &str, mode: Mode) {
        let there = self.take(to);
        let here = self.take(from);
        self.put(from, to, here);
        if mode == Mode::Exchange {
            self.put(to, from, there);
        }
    }

    /// Removes a node, with everything below it.
    fn take(&mut self, path: &str) -> Vec<(String, Node)> {
        let mut taken = vec![path.to_owned()];
        taken.extend(self.below(path));
        taken.into_iter().filter_map(|path| self.nodes.remove_entry(&path)).collect()
    }

    fn put(&mut self, from: &str, to: &str, nodes: Vec<(String, Node)>) {
        for (path, node) in nodes {
            let itself = path == from;
            let path = format!("{to}{}", &path[from.len()..]);
            if let Node::File(file) = node {
                let file = &mut self.files[file];
                file.touches += 1;
                file.settled = false;
                let closed = itself && file.writers == 0;
                file.recorded = is_artifact(&path) && (file.recorded || closed);
            }
            self.nodes.insert(path, node);
        }
    }

    pub(crate) fn chmod(&mut self, path: &str, mode: u32) -> Answer<()> {
        if let Node::File(file) = self.changeable(path)? {
            self.files[file].touches += 1;
            self.files[file].mode = mode;
        }
        Ok(())
    }

    pub(crate) fn utimes(&mut self, path: &str, seconds: u32) -> Answer<()> {
        if let Node::File(file) = self.changeable(path)? {
            self.files[file].touches += 1;
            self.files[file].modified = Some(seconds);
        }
        Ok(())
    }

    pub(crate) fn exit(&mut self, path: &str, code: u8) -> Answer<()> {
        if let Node::File(file) = self.changeable(path)? {
            self.files[file].touches += 1;
            self.files[file].exit_code = Some(code);
        }
        Ok(())
    }

    /// Returns the names in a directory.
    pub(crate) fn list(&self, path: &str) -> Answer<BTreeSet<String>> {
        match self.must(path)? {
            Found::Dir => {}
            Found::ViewDir => return Ok(BTreeSet::new()),
            Found::File(_) | Found::View => return Err(ENOTDIR),
        }
        let mut names: BTreeSet<String> =
            self.children(path).map(|child| name_of(child).to_owned()).collect();
        if parent_of(path).is_empty() {
            names.insert("manifest.json".to_owned());
        }
        let artifacts = inside(path) == "artifacts" || inside(path).starts_with("artifacts/");
        // Views are listed beside what is longer than a character and a newline.
        let is_long = |child: &&str| match self.nodes.get(*child) {
            Some(Node::File(file)) => self.files[*file].bytes.len() > 2,
            _ => false,
        };
        let listed = self.children(path).filter(|child| artifacts && self.has_views(child));
        for child in listed.filter(is_long) {
            names.extend([".summary", ".tail", ".grep"].map(|end| name_of(child).to_owned() + end));
        }
        Ok(names)
    }

    /// Marks all files without a writer as sealed.
    pub(crate) fn settle(&mut self) {
        for file in self.files.iter_mut().filter(|file| file.writers == 0) {
            if file.mapped {
                file.mapped = false;
                file.touches += 1;
            }
            file.settled = true;
        }
    }
}

impl File {
    fn opened(&mut self, how: How) {
        if how.write {
            self.writers += 1;
            self.touches += 1;
            self.mapped |= how.read;
            self.reopened += u64::from(self.settled);
            self.settled = false;
        }
        if how.truncate {
            self.edit(Vec::clear);
        }
    }

    fn edit(&mut self, change: impl FnOnce(&mut Vec<u8>)) {
        let before = self.bytes.clone();
        change(&mut self.bytes);
        self.edits += u64::from(self.bytes != before);
        self.touches += 1;
        self.modified = None;
        self.settled = false;
    }
}
