//! What a name in a directory leads to.
//!
//! A real file always comes first; then the computed files of the directory; then the views of a
//! real file; then the bare id of a call whose output ctxfs named.

use std::ffi::OsStr;
use std::ffi::OsString;
use std::io;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use crate::fs::Attr;
use crate::fs::ContextFs;
use crate::fs::Entry;
use crate::fs::FileKind;
use crate::fs::FsError;
use crate::fs::Ino;
use crate::fs::Result;
use crate::fs::Shared;
use crate::fs::file::FileNode;
use crate::fs::inode::FileId;
use crate::fs::inode::Key;
use crate::fs::messages::is_history;
use crate::fs::node::DirNode;
use crate::fs::node::Link;
use crate::fs::node::Linked;
use crate::fs::node::Node;
use crate::fs::node::NodeKind;
use crate::fs::rendered::RenderedKey;
use crate::fs::rendered::RenderedNode;
use crate::fs::rendered::Source;
use crate::fs::rendered::Version;
use crate::fs::search::is_search_dir;
use crate::model::Component;
use crate::model::Folder;
use crate::model::NameError;
use crate::model::RelPath;
use crate::model::is_scratch;
use crate::store::FileType;
use crate::store::MESSAGES;
use crate::store::Stat;
use crate::store::Time;
use crate::store::is_bookkeeping;
use crate::view::Derived;
use crate::view::Reading;
use crate::view::View;
use crate::view::ViewDir;
use crate::view::readings;

/// How long a directory's name leads to it: its own mount sees every change at once, another
/// process's within this.
const DIR_TTL: Duration = Duration::from_secs(1);
/// How long the attributes of a file are believed. Its name is looked up each time, which brings
/// fresh ones; this only covers what follows at once, such as opening it.
const FILE_ATTR_TTL: Duration = Duration::from_millis(100);

impl ContextFs {
    /// Finds `name` in the directory `parent`. Computes nothing.
    pub fn lookup(&self, parent: Ino, name: &OsStr) -> Result<Entry> {
        let parent = self.0.nodes.get(parent)?;
        let node = self.0.find(&parent, name)?;
        self.0.entry(&node).inspect_err(|_| self.0.nodes.forget(node.ino, 1))
    }

    /// The kernel forgets `ino` `count` times.
    pub fn forget(&self, ino: Ino, count: u64) {
        self.0.nodes.forget(ino, count);
    }
}

impl Shared {
    /// The node that `name` leads to, counted as looked up.
    fn find(&self, parent: &Arc<Node>, name: &OsStr) -> Result<Arc<Node>> {
        match &parent.kind {
            NodeKind::Dir(dir) => self.find_in_dir(parent, dir, name),
            NodeKind::ViewDir { of, .. } if of.as_dir().is_ok() => self.search_node(of, name),
            NodeKind::ViewDir { of, base, dir } => {
                let reading = dir.child(name).ok_or(FsError::NotFound)?;
                self.view_node(of, reading.below(base.as_deref()).ok_or(FsError::NotFound)?)
            }
            NodeKind::Control => self.find_control(name),
            NodeKind::File(_) | NodeKind::Rendered(_) => Err(FsError::NotADirectory),
        }
    }

    /// `name` as it stands, or else the name that is printed so.
    fn find_in_dir(&self, parent: &Arc<Node>, dir: &DirNode, name: &OsStr) -> Result<Arc<Node>> {
        match self.find_name(parent, dir, name) {
            Err(FsError::NotFound) => {
                let meant = printed_as(name).ok_or_else(|| absent(name))?;
                self.find_name(parent, dir, meant.as_os_str())
            }
            found => found,
        }
    }

    fn find_name(&self, parent: &Arc<Node>, dir: &DirNode, name: &OsStr) -> Result<Arc<Node>> {
        if parent.is_top() && name == ".ctxfs" {
            return self.nodes.intern(Key::Control, |_| Ok(NodeKind::Control));
        }
        match self.find_real(parent, dir, name) {
            Err(FsError::NotFound) => {}
            found => return found,
        }
        if let Some(source) = computed_name(parent, name) {
            return self.computed_node(parent, dir, source);
        }
        if is_search_dir(parent, name) {
            return self.view_dir_node(parent, None, ViewDir::Grep);
        }
        for (stem, reading) in readings(name) {
            match self.find_real(parent, dir, stem).or_else(|_| self.find_call(parent, dir, stem)) {
                Ok(of) => {
                    let found = self.view_node(&of, reading);
                    self.nodes.forget(of.ino, 1);
                    return found;
                }
                Err(FsError::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        match self.find_call(parent, dir, name) {
            Err(FsError::NotFound) => self.find_removed(parent, dir, name),
            found => found,
        }
    }

    /// A file or directory on disk. Links and special files that somebody planted are not there.
    pub(crate) fn find_real(
        &self,
        parent: &Arc<Node>,
        dir: &DirNode,
        name: &OsStr,
    ) -> Result<Arc<Node>> {
        if is_stores(parent, name) {
            return Err(FsError::NotFound);
        }
        let stat = match dir.dir.stat(name) {
            Ok(stat) => stat,
            Err(error) if is_absent(&error) => return Err(FsError::NotFound),
            Err(error) => return Err(error.into()),
        };
        match stat.kind() {
            FileType::Directory => self.dir_node(parent, dir, name, &stat),
            FileType::File if !parent.is_root() => self.file_node(parent, name, &stat),
            FileType::File | FileType::Other => Err(FsError::NotFound),
        }
    }

    fn dir_node(
        &self,
        parent: &Arc<Node>,
        dir: &DirNode,
        name: &OsStr,
        stat: &Stat,
    ) -> Result<Arc<Node>> {
        let node = self.nodes.intern(Key::Disk(FileId::of(stat)), |_| {
            let dir = dir.dir.open_dir(name)?;
            Ok(NodeKind::Dir(DirNode { dir, link: Linked::new(Link::new(parent, name)) }))
        })?;
        relink(&node, parent, name);
        Ok(node)
    }

    pub(crate) fn file_node(
        &self,
        parent: &Arc<Node>,
        name: &OsStr,
        stat: &Stat,
    ) -> Result<Arc<Node>> {
        let node = self.nodes.intern(Key::Disk(FileId::of(stat)), |_| {
            Ok(NodeKind::File(Box::new(FileNode::new(Link::new(parent, name), stat))))
        })?;
        relink(&node, parent, name);
        Ok(node)
    }

    /// `call_1` for `call_1.json` or `call_1.txt`, where ctxfs gave the file that name: the newer one
    /// of the two, which are both there when an output is replaced by one of another kind.
    fn find_call(&self, parent: &Arc<Node>, dir: &DirNode, name: &OsStr) -> Result<Arc<Node>> {
        let in_tools =
            parent.place().is_some_and(|(_, path)| path.as_os_str() == Folder::Tool.path());
        if !in_tools || is_scratch(name) {
            return Err(FsError::NotFound);
        }
        let mut newest = None;
        for extension in [".json", ".txt"] {
            let mut named = OsString::from(name);
            named.push(extension);
            let made = self.output_made(parent, dir, &named, name)?.map(|made| (made, named));
            newest = newest.max(made);
        }
        let (_, named) = newest.ok_or(FsError::NotFound)?;
        self.find_real(parent, dir, &named)
    }

    /// When the file `name` was made, if it is an output of `call`.
    fn output_made(
        &self,
        parent: &Node,
        dir: &DirNode,
        name: &OsStr,
        call: &OsStr,
    ) -> Result<Option<(Time, Time)>> {
        let Ok(component) = Component::new(name) else { return Ok(None) };
        let stat = match dir.dir.stat(name) {
            Ok(stat) => stat,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let id = parent.conversation().ok_or(FsError::Stale)?;
        let path = RelPath::artifact(Folder::Tool, &component);
        let is_output =
            stat.kind() == FileType::File && self.conversation(&id)?.is_output_of(&path, call)?;
        Ok(is_output.then(|| (stat.created(), stat.mtime)))
    }

    /// The node of what is derived from the file `of`, as it is now.
    pub(crate) fn view_node(&self, of: &Arc<Node>, reading: Reading) -> Result<Arc<Node>> {
        let NodeKind::File(file) = &of.kind else { return Err(FsError::NotFound) };
        let Reading { base, derived } = reading;
        let view = match derived {
            Derived::File(view) => view,
            Derived::Dir(dir) => {
                return self.view_dir_node(of, base, dir);
            }
        };
        let (version, stat) = self.version(of, file)?;
        let key = |of: &Node, view, version| {
            let source = Source::View { of: of.ino, view: Box::new(view) };
            RenderedKey { source, version }
        };
        let Some(base) = base else {
            return self.rendered_node(key(of, view, version), Some(of), stat);
        };
        let base = self.rendered_node(key(of, base, version), Some(of), stat)?;
        let NodeKind::Rendered(text) = &base.kind else { return Err(FsError::Stale) };
        let node = self.rendered_node(key(&base, view, text.version_of_view()), Some(&base), stat);
        self.nodes.forget(base.ino, 1);
        node
    }

    fn view_dir_node(&self, of: &Arc<Node>, base: Option<View>, dir: ViewDir) -> Result<Arc<Node>> {
        let base = base.map(Box::new);
        let key = Key::ViewDir(of.ino, base.clone(), dir);
        self.nodes.intern(key, |_| Ok(NodeKind::ViewDir { of: Arc::clone(of), base, dir }))
    }

    /// The moment at which `file` is now. Looks at it while nothing is being written, so that it
    /// stands between two writes.
    fn version(&self, node: &Node, file: &FileNode) -> Result<(Version, Stat)> {
        let (changes, stat) = {
            let link = file.link.get();
            let writing = file.writing();
            let stat = link
                .ok_or(FsError::NotFound)
                .and_then(|link| Ok(link.dir()?.stat(&link.name)?))?;
            (writing.changes, stat)
        };
        Ok((self.version_at(node, &stat, changes)?, stat))
    }

    /// The moment at which a file is, whose disk says `stat` after so many `changes`.
    pub(crate) fn version_at(&self, node: &Node, stat: &Stat, changes: u64) -> Result<Version> {
        Ok(Version {
            changes,
            size: stat.size,
            modified: stat.mtime.as_nanos(),
            changed: stat.ctime.as_nanos(),
            facts: self.facts_version(node, stat)?,
        })
    }

    fn computed_node(
        &self,
        parent: &Arc<Node>,
        dir: &DirNode,
        source: Source,
    ) -> Result<Arc<Node>> {
        let stat = dir.dir.stat_self()?;
        let version = match &source {
            Source::Manifest { .. } => self.manifest_version(parent)?,
            Source::Messages { .. } => self.messages_version(parent)?,
            _ => Version::default(),
        };
        self.rendered_node(RenderedKey { source, version }, Some(parent), stat)
    }

    /// Changes with every record, and with every file that comes or goes.
    fn manifest_version(&self, node: &Node) -> Result<Version> {
        let id = node.conversation().ok_or(FsError::Stale)?;
        let conversation = self.conversation(&id)?;
        let mut version =
            Version { facts: conversation.manifest().version()?, ..Version::default() };
        for folder in [Folder::Tool, Folder::Terminal] {
            let path = RelPath::new(folder.path())?;
            if let Ok(stat) = conversation.dir().stat_at(&path) {
                version.changes = version.changes.rotate_left(7) ^ stat.mtime.as_nanos() as u64;
            }
        }
        Ok(version)
    }

    /// Changes with every message.
    fn messages_version(&self, history: &Arc<Node>) -> Result<Version> {
        let node = self.find_real(history, history.as_dir()?, MESSAGES.as_ref())?;
        let stat = node.as_file().and_then(FileNode::stat).and_then(|stat| self.shown(&node, stat));
        self.nodes.forget(node.ino, 1);
        let Stat { size, mtime, ino, .. } = stat?;
        Ok(Version { size, modified: mtime.as_nanos(), facts: ino, ..Version::default() })
    }

    fn find_control(&self, name: &OsStr) -> Result<Arc<Node>> {
        let now = self.started.elapsed().as_millis() as u64;
        let (source, moment) = if name == "status.json" {
            (Source::Status, now)
        } else if name == "metrics" {
            (Source::Metrics, now)
        } else if name == "version" {
            (Source::ProgramVersion, 0)
        } else {
            return Err(FsError::NotFound);
        };
        let version = Version { changes: moment, ..Version::default() };
        let stat = self.top_stat()?;
        self.rendered_node(RenderedKey { source, version }, None, stat)
    }

    fn top_stat(&self) -> Result<Stat> {
        Ok(self.nodes.get(Ino::ROOT)?.as_dir()?.dir.stat_self()?)
    }

    pub(crate) fn rendered_node(
        &self,
        key: RenderedKey,
        of: Option<&Arc<Node>>,
        origin: Stat,
    ) -> Result<Arc<Node>> {
        let make = |_| Ok(NodeKind::Rendered(Box::new(RenderedNode::new(of.cloned(), origin))));
        self.nodes.intern(Key::Rendered(key), make)
    }

    /// The node as a name leads to it.
    pub(crate) fn entry(&self, node: &Node) -> Result<Entry> {
        let timed = |attr, attr_ttl, entry_ttl| Entry { attr, attr_ttl, entry_ttl };
        Ok(match &node.kind {
            NodeKind::Rendered(rendered) => node.rendered_entry(rendered),
            NodeKind::File(file) => {
                let attr = Attr::of_disk(node.ino, &self.shown(node, file.stat()?)?);
                timed(attr, FILE_ATTR_TTL, Duration::ZERO)
            }
            NodeKind::Dir(_) | NodeKind::Control => timed(self.attr(node)?, DIR_TTL, DIR_TTL),
            NodeKind::ViewDir { .. } => timed(self.attr(node)?, DIR_TTL, Duration::ZERO),
        })
    }

    /// The attributes of anything but a computed file.
    pub(crate) fn attr(&self, node: &Node) -> Result<Attr> {
        Ok(match &node.kind {
            NodeKind::File(file) => Attr::of_disk(node.ino, &self.shown(node, file.stat()?)?),
            NodeKind::Dir(dir) => {
                let mut attr = Attr::of_disk(node.ino, &dir.dir.stat_self()?);
                if node.is_root() {
                    attr.perm = self.options.root_mode;
                }
                attr
            }
            NodeKind::ViewDir { of, .. } => {
                let stat = match &of.kind {
                    NodeKind::Dir(dir) => dir.dir.stat_self()?,
                    _ => of.as_file()?.stat()?,
                };
                Attr::of_computed(node.ino, FileKind::Directory, 0, &stat)
            }
            NodeKind::Control => {
                let stat = self.top_stat()?;
                Attr::of_computed(node.ino, FileKind::Directory, 0, &stat)
            }
            NodeKind::Rendered(rendered) => node.rendered_attr(rendered).attr,
        })
    }
}

/// Why nothing has this name; one that is too long for a file may still be a view's.
fn absent(name: &OsStr) -> FsError {
    match Component::check(name) {
        Err(error @ NameError::TooLong) => error.into(),
        _ => FsError::NotFound,
    }
}

/// The name that is printed as `text`, if that is another one: it is not UTF-8, or could be taken
/// for one that is not.
fn printed_as(text: &OsStr) -> Option<Component> {
    let text = text.to_str().filter(|text| text.contains('\\'))?;
    let name = Component::from_text(text).ok()?;
    (name.as_os_str() != text && name.to_text() == text).then_some(name)
}

/// The computed file of this name that a directory has beside those on disk.
pub(crate) fn computed_name(dir: &Node, name: &OsStr) -> Option<Source> {
    let of = dir.ino;
    if name == "README.md" && dir.is_top() {
        Some(Source::Readme)
    } else if name == ".ignore" && (dir.is_top() || dir.holds_artifacts()) {
        Some(Source::Ignore { of })
    } else if name == "manifest.json" && dir.is_conversation() {
        Some(Source::Manifest { of })
    } else if name == "messages.json" && is_history(dir) {
        Some(Source::Messages { of })
    } else {
        None
    }
}

/// Whether a name is the store's own: it has such files in a conversation's directory only.
pub(crate) fn is_stores(dir: &Node, name: &OsStr) -> bool {
    is_bookkeeping(name) && dir.is_conversation()
}

/// Whether there is no such name on the disk; also one longer than the disk takes is none, but a query or the view
/// of a long name may have it.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(libc::ENAMETOOLONG)
}

/// Notes where `node` was found: another process may have moved it. Not where it has left that name
/// since: then whoever renamed or removed it says where it stands.
fn relink(node: &Arc<Node>, parent: &Arc<Node>, name: &OsStr) {
    let Some(linked) = node.link() else { return };
    let mut link = linked.lock();
    let same = link.as_ref().is_some_and(|l| Arc::ptr_eq(&l.parent, parent) && l.name == name);
    let new = Link::new(parent, name);
    let is_it = |stat: &Stat| node.key == Key::Disk(FileId::of(stat));
    if !same && new.dir().is_ok_and(|dir| dir.stat(name).is_ok_and(|stat| is_it(&stat))) {
        *link = Some(new);
    }
}
