//! `.grep/` of a directory: a search of all artifacts below it.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::hash::DefaultHasher;
use std::hash::Hash as _;
use std::hash::Hasher as _;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use crate::fs::Counters;
use crate::fs::FsError;
use crate::fs::Result;
use crate::fs::Shared;
use crate::fs::body::Body;
use crate::fs::body::Spool;
use crate::fs::node::Node;
use crate::fs::rendered::RenderedKey;
use crate::fs::rendered::Source;
use crate::fs::rendered::Version;
use crate::fs::views::refused;
use crate::materialize::Checkpoints;
use crate::materialize::PlainText;
use crate::materialize::strip_escapes;
use crate::model::Component;
use crate::model::RelPath;
use crate::model::Root;
use crate::store::Artifact;
use crate::store::Artifacts;
use crate::store::Stat;
use crate::store::read_full_at;
use crate::store::stat_file;
use crate::view;
use crate::view::Corpus;
use crate::view::Directory;
use crate::view::Loaded;
use crate::view::Query;

/// The name of the directory of searches, in every directory that has one.
const SEARCHES: &str = ".grep";

/// Whether `name` in `dir` is the directory of searches. Conversations have one, and the
/// directories in which artifacts stand.
pub(crate) fn is_search_dir(dir: &Node, name: &OsStr) -> bool {
    name == SEARCHES && (dir.is_conversation() || dir.holds_artifacts())
}

/// The directory that is searched.
struct Site {
    conversation: Component,
    /// None, where it is the conversation itself.
    path: Option<RelPath>,
}

impl Site {
    fn of(dir: &Node) -> Result<Self> {
        let conversation = dir.conversation().ok_or(FsError::Stale)?;
        let path =
            if dir.is_conversation() { None } else { Some(dir.place().ok_or(FsError::Stale)?.1) };
        Ok(Self { conversation, path })
    }

    /// As a reader of the tree names it.
    fn text(&self, root: &Root) -> String {
        let path = self.path.as_ref().map_or_else(String::new, |path| format!("/{path}"));
        format!("{}{path}", root.of(&self.conversation.to_text()))
    }
}

impl Shared {
    /// The search that `name` means, of the directory `of`.
    pub(crate) fn search_node(&self, of: &Arc<Node>, name: &OsStr) -> Result<Arc<Node>> {
        let query = Box::new(Query::of_many(name).ok_or(FsError::NotFound)?);
        let stat = of.as_dir()?.dir.stat_self()?;
        let source = Source::Search { of: of.ino, query };
        let version = self.search_version(of, &stat)?;
        self.rendered_node(RenderedKey { source, version }, Some(of), stat)
    }

    /// Changes with every artifact below the directory `of`, and with the record of any.
    fn search_version(&self, of: &Node, stat: &Stat) -> Result<Version> {
        let site = Site::of(of)?;
        let mut hasher = DefaultHasher::new();
        self.conversation(&site.conversation)?.version()?.hash(&mut hasher);
        (&site.conversation, &site.path).hash(&mut hasher);
        Ok(Version {
            changes: self.watched.number(of.ino),
            modified: stat.mtime.as_nanos(),
            facts: hasher.finish(),
            ..Version::default()
        })
    }

    /// Searches all artifacts below the directory `of`.
    pub(crate) fn render_search(
        &self,
        of: &Arc<Node>,
        query: &Query,
        version: &Version,
        again: bool,
    ) -> Result<Body> {
        let stat = of.as_dir()?.dir.stat_self()?;
        if again && *version != self.search_version(of, &stat)? {
            return Err(FsError::Stale);
        }
        let started = Instant::now();
        let expired = || started.elapsed() >= self.options.view_deadline;
        let site = Site::of(of)?;
        let outputs = self.outputs(of, &site)?;
        let directory = Directory {
            path: &site.text(&self.options.root()),
            corpus: &outputs,
            redacts: self.options.redaction.as_ref().map(|redaction| &*redaction.rules),
        };
        let room = |length| self.room_for_result(length);
        let mut spool = Spool::new(&self.cache, &room);
        let rendered =
            view::render_many(query, &directory, &expired, &mut spool).map_err(refused)?;
        if !rendered.whole {
            // Whoever looks it up again gets another try.
            Counters::add(&self.counters.views_out_of_time, 1);
            self.watched.renew(of.ino);
        }
        Ok(spool.finish(rendered, None)?)
    }

    fn outputs(&self, of: &Arc<Node>, site: &Site) -> Result<Outputs> {
        let conversation = self.conversation(&site.conversation)?;
        let mut arming = self.watched.arm(of.ino);
        let artifacts =
            Artifacts::below(&conversation, site.path.as_ref(), |dir| arming.enter(dir))?;
        arming.done();
        Ok(Outputs { artifacts, live: self.live(site), base: site.path.clone() })
    }

    /// The files below the directory that are open for writing, by their paths from it on.
    fn live(&self, site: &Site) -> HashMap<RelPath, Arc<Node>> {
        let place = |node: Arc<Node>| {
            let (conversation, path) = node.place()?;
            let base = site.path.as_ref().map_or(Path::new(""), |path| Path::new(path.as_os_str()));
            let below = Path::new(path.as_os_str()).strip_prefix(base).ok()?;
            let below = RelPath::new(below).ok().filter(|_| conversation == site.conversation)?;
            Some((below, node))
        };
        self.handles.written().into_iter().filter_map(place).collect()
    }
}

/// The artifacts to be searched.
struct Outputs {
    artifacts: Artifacts,
    /// Those that somebody writes now.
    live: HashMap<RelPath, Arc<Node>>,
    /// The directory that their paths begin in; none, where that is the conversation.
    base: Option<RelPath>,
}

impl Outputs {
    /// Whether it is the log of a terminal: its text is searched.
    fn is_log(&self, number: usize) -> bool {
        let path = self.artifacts.path(number);
        let Some(base) = &self.base else { return path.is_terminal() };
        let whole = Path::new(base.as_os_str()).join(path.as_os_str());
        RelPath::new(whole).is_ok_and(|path| path.is_terminal())
    }

    /// The length of a live artifact, taken between two writes.
    fn settled_length(&self, number: usize, file: &File) -> io::Result<Option<u64>> {
        if self.live.is_empty() {
            return Ok(None);
        }
        let live = self.live.get(self.artifacts.path(number)).map(|node| node.as_file());
        let Some(Ok(live)) = live else { return Ok(None) };
        let _writing = live.writing();
        Ok(Some(stat_file(file)?.size))
    }
}

/// As [`read_full_at`], from the start. A small file takes one call: reading fails and is interrupted
/// between pages of memory, so one that stops inside a page has met the end.
fn read_start(file: &File, buffer: &mut [u8]) -> io::Result<usize> {
    const PAGE: usize = 4096;
    match file.read_at(buffer, 0) {
        Ok(count) if !count.is_multiple_of(PAGE) => Ok(count),
        _ => read_full_at(file, 0, buffer),
    }
}

impl Corpus for Outputs {
    fn len(&self) -> usize {
        self.artifacts.len()
    }

    fn path(&self, number: usize) -> &RelPath {
        self.artifacts.path(number)
    }

    fn load(&self, number: usize, buffer: &mut [u8]) -> io::Result<Loaded> {
        let file = match self.artifacts.open(number) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Loaded::Gone),
            Err(error) => return Err(error),
        };
        let settled = self.settled_length(number, &file)?;
        let most = settled.map_or(buffer.len(), |length| buffer.len().min(length as usize));
        let count = read_start(&file, &mut buffer[..most])?;
        let is_log = self.is_log(number);
        if count < buffer.len() {
            let text =
                if is_log { strip_escapes(&buffer[..count]) } else { return Ok(Loaded::Whole(count)) };
            buffer[..text.len()].copy_from_slice(&text);
            return Ok(Loaded::Whole(text.len()));
        }
        let length = settled.map_or_else(|| stat_file(&file).map(|stat| stat.size), Ok)?;
        let artifact = Artifact::new(Arc::new(file), length);
        if !is_log {
            return Ok(Loaded::Opened(Box::new(artifact)));
        }
        let (checkpoints, _) = Checkpoints::of(&artifact, &|| false)?;
        Ok(Loaded::Opened(Box::new(PlainText::new(artifact, checkpoints)?)))
    }
}
