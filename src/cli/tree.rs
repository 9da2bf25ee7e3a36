//! The tree without a mount: this process walks the filesystem itself.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Component;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use crate::cli::filter;
use crate::cli::outcome::Failure;
use crate::cli::outcome::FailureKind;
use crate::cli::settings::Key;
use crate::cli::settings::Settings;
use crate::engine::Engine;
use crate::engine::EngineOptions;
use crate::fs::Caller;
use crate::fs::ContextFs;
use crate::fs::Fh;
use crate::fs::FsError;
use crate::fs::FsOptions;
use crate::fs::Ino;
use crate::fs::OpenMode;
use crate::fs::Opened;
use crate::model::Component as ConversationId;
use crate::model::Root;
use crate::store::HISTORY;
use crate::store::MESSAGES;
use crate::store::Store;

/// Bytes that are read at once.
const BLOCK: usize = 256 * 1024;
/// The deadline of a view. Only the user waits for it, so it may take long.
const PATIENCE: Duration = Duration::from_hours(24);

/// The tree of a store.
#[derive(Debug)]
pub(super) struct Tree {
    fs: ContextFs,
    /// True if the root is the directory of one conversation.
    is_one: bool,
}

impl Tree {
    /// Opens the tree of `store`. `root` is the root in the texts of views; if it is that of a
    /// single conversation, `only` is the conversation.
    pub(super) fn new(
        store: Store,
        root: &Root,
        only: Option<ConversationId>,
        settings: Settings,
    ) -> anyhow::Result<Self> {
        let redaction = settings.redaction()?;
        let disk_cache_bytes = settings.number(Key::DiskCacheBytes);
        let (max_artifact, quota) =
            (settings.number(Key::MaxArtifact), settings.number(Key::Quota));
        let limits = Arc::new(settings);
        let defaults = EngineOptions::default();
        let options = EngineOptions {
            prefix: root.path().to_owned(),
            only: only.filter(|_| matches!(root, Root::One(_))),
            view_deadline: PATIENCE,
            limits,
            redaction,
            max_artifact,
            quota,
            filter_command: Some(filter::command()),
            disk_cache_bytes: disk_cache_bytes.unwrap_or(defaults.disk_cache_bytes),
            ..defaults
        };
        let is_one = options.only.is_some();
        let engine = Engine::new(store, options);
        Ok(Self { fs: ContextFs::new(engine, FsOptions::default())?, is_one })
    }

    /// Passes the bytes of a file or view to `take`, piece by piece. `path` is relative to the root
    /// of the tree: `c7/artifacts/tool/9f3k.txt.summary`.
    pub(super) fn read(
        &self,
        path: &Path,
        mut take: impl FnMut(&[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let fh = self.open(path).map_err(|error| self.not_readable(path, &error))?;
        let mut buffer = vec![0; BLOCK];
        let mut offset = 0;
        loop {
            let (count, taken) =
                self.fs.read(fh, offset, &mut buffer, |bytes| (bytes.len(), take(bytes)))?;
            taken?;
            offset += count as u64;
            if count == 0 {
                break;
            }
        }
        Ok(self.fs.release(fh)?)
    }

    /// Opens the message log of an existing conversation for appending.
    pub(super) fn log(
        &self,
        conversation: &crate::model::Component,
    ) -> anyhow::Result<LogFile<'_>> {
        let root = if self.is_one {
            Ino::ROOT
        } else {
            self.fs.lookup(Ino::ROOT, conversation.as_os_str())?.attr.ino
        };
        let history = self.fs.lookup(root, OsStr::new(HISTORY))?.attr.ino;
        let mode = OpenMode { flags: libc::O_WRONLY | libc::O_APPEND };
        let user = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let caller = Caller { uid: user.0, gid: user.1, pid: 0 };
        let (_, opened) = self.fs.create(history, OsStr::new(MESSAGES), 0o600, mode, caller)?;
        Ok(LogFile { fs: &self.fs, fh: opened.fh, mode, caller })
    }

    fn not_readable(&self, path: &Path, error: &io::Error) -> anyhow::Error {
        let text = format!("cannot read `{}`: {error}", path.display());
        if error.kind() != io::ErrorKind::NotFound {
            return anyhow::Error::msg(text);
        }
        let mut summary = path.to_owned().into_os_string();
        summary.push(".summary");
        // A removed file leaves its summary.
        let hint = match self.open(Path::new(&summary)) {
            Ok(_) => format!(
                "it was removed: `ctxfs view '{}'` says when and why",
                summary.to_string_lossy()
            ),
            Err(_) => {
                "`ctxfs ls` lists conversations, `ctxfs ls CONVERSATION` its outputs".to_owned()
            }
        };
        Failure::new(FailureKind::Failed, text, hint).into()
    }

    fn open(&self, path: &Path) -> Result<Fh, io::Error> {
        let mut at = Ino::ROOT;
        for name in names(path)? {
            let entry = self.fs.lookup(at, name).map_err(|error| system(&error))?;
            at = entry.attr.ino;
        }
        let (send, opened) = mpsc::channel();
        self.fs.open(at, OpenMode { flags: libc::O_RDONLY }, move |opened| drop(send.send(opened)));
        let opened: Opened =
            opened.recv().map_err(io::Error::other)?.map_err(|error| system(&error))?;
        Ok(opened.fh)
    }
}

/// An open message log.
pub(super) struct LogFile<'a> {
    fs: &'a ContextFs,
    fh: Fh,
    mode: OpenMode,
    caller: Caller,
}

impl LogFile<'_> {
    /// Appends bytes. Each complete line is a message.
    pub(super) fn write(&self, bytes: &[u8]) -> Result<(), FsError> {
        bytes
            .chunks(BLOCK)
            .try_for_each(|block| self.fs.write(self.fh, 0, block, self.mode, None).map(drop))
    }

    /// Ends the last line, and syncs the log.
    pub(super) fn close(self) -> Result<(), FsError> {
        self.fs.flush(self.fh, self.caller, None)?;
        self.fs.fsync(self.fh, true)?;
        self.fs.release(self.fh)
    }
}

impl Drop for Tree {
    /// Stores the counts of what was read.
    fn drop(&mut self) {
        self.fs.shut_down();
    }
}

/// Splits a path at `/` into names. `Path::components` would not do: a query may contain anything
/// but `/`.
fn names(path: &Path) -> io::Result<Vec<&OsStr>> {
    if path.components().any(|part| matches!(part, Component::ParentDir | Component::RootDir)) {
        return Err(io::ErrorKind::NotFound.into());
    }
    let parts = path.as_os_str().as_bytes().split(|byte| *byte == b'/');
    Ok(parts.filter(|part| !matches!(*part, b"" | b".")).map(OsStr::from_bytes).collect())
}

fn system(error: &FsError) -> io::Error {
    io::Error::from_raw_os_error(error.errno().0)
}
