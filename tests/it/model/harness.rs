//! One run: every operation is done on the model and on the tree, and must give equal answers.

use std::collections::{BTreeMap, BTreeSet};

use super::operations::{Ask, How, Mode, Op, Text};
use super::reference::{Answer, FileId, Found, Handle, Node, Tree, name_of};

/// A tree that can be changed by system calls, or by a substitute for them.
pub(crate) trait Subject {
    type Handle;
    /// A view that is kept: its number stays known.
    type Held;

    fn open(&mut self, path: &str, how: How) -> Answer<Self::Handle>;
    fn write(&mut self, handle: &Self::Handle, at: u64, bytes: &[u8]) -> Answer<()>;
    fn read(&mut self, handle: &Self::Handle, at: u64, length: usize) -> Answer<Vec<u8>>;
    fn truncate(&mut self, handle: &Self::Handle, length: u64) -> Answer<()>;
    fn truncate_path(&mut self, path: &str, length: u64) -> Answer<()>;
    fn close(&mut self, handle: Self::Handle, late: u8);
    fn rename(&mut self, from: &str, to: &str, mode: Mode) -> Answer<()>;
    fn unlink(&mut self, path: &str) -> Answer<()>;
    fn mkdir(&mut self, path: &str) -> Answer<()>;
    fn rmdir(&mut self, path: &str) -> Answer<()>;
    fn chmod(&mut self, path: &str, mode: u32) -> Answer<()>;
    fn utimes(&mut self, path: &str, seconds: u32) -> Answer<()>;
    fn exit(&mut self, path: &str, code: u8) -> Answer<()>;
    /// Returns the names in a directory, in its order, without `.` and `..`.
    fn list(&mut self, path: &str) -> Answer<Vec<String>>;
    fn stat(&mut self, path: &str) -> Answer<Stat>;
    /// Returns all bytes of a file or view. Fails if its size was not exact.
    fn bytes(&mut self, path: &str) -> Answer<Vec<u8>>;
    /// As `bytes`, and keeps it.
    fn hold(&mut self, path: &str) -> Answer<(Self::Held, Vec<u8>)>;
    fn number(&self, held: &Self::Held) -> u64;
    /// Reads a kept view again, through its descriptor and, if that is still possible, by opening
    /// it once more.
    fn again(&mut self, held: &Self::Held) -> Vec<Vec<u8>>;
    fn forget(&mut self);
    fn settle(&mut self);
    /// Called after each operation.
    fn tick(&mut self);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) number: u64,
    pub(crate) is_dir: bool,
    pub(crate) size: u64,
    pub(crate) mode: u32,
    pub(crate) modified: i64,
}

/// A kept view, with the state of its file at that time.
pub(super) struct Held<H> {
    pub(super) path: String,
    pub(super) of: FileId,
    /// The number of the file. A file that was forgotten gets another, and so do its views.
    pub(super) of_number: u64,
    pub(super) edits: u64,
    pub(super) touches: u64,
    pub(super) mapped: bool,
    pub(super) bytes: Vec<u8>,
    pub(super) kept: H,
}

/// The last generation of a file that a view reported.
pub(super) struct Generation {
    pub(super) path: String,
    pub(super) reopened: u64,
    pub(super) number: u64,
}

pub(crate) struct Run<S: Subject> {
    pub(crate) tree: Tree,
    pub(crate) subject: S,
    handles: Vec<S::Handle>,
    pub(super) held: Vec<Held<S::Held>>,
    pub(super) generations: BTreeMap<FileId, Generation>,
}

/// Does `ops` on `subject`. The first conversation exists from the start.
pub(crate) fn run<S: Subject>(subject: S, ops: &[Op]) -> Run<S> {
    let mut run = Run {
        tree: Tree::default(),
        subject,
        handles: Vec::new(),
        held: Vec::new(),
        generations: BTreeMap::new(),
    };
    for op in [Op::Mkdir("c1"), Op::Mkdir("c1/artifacts/tool/sub")].iter().chain(ops) {
        run.step(*op);
        run.subject.tick();
    }
    run.compare();
    run.close_all();
    run.settle();
    run.compare();
    run
}

impl<S: Subject> Run<S> {
    fn step(&mut self, op: Op) {
        match op {
            Op::Open(path, how) => self.open(path, how),
            Op::Write { handle, at, text } => self.write(handle, at, text),
            Op::Read { handle, at, length } => self.read(handle, at, length),
            Op::Truncate { handle, length } => self.truncate(handle, length),
            Op::Close { handle, late } => self.close(handle, late),
            Op::List(path) => self.list(path),
            Op::View(path, ask) => self.view(path, ask),
            Op::Hold(path, ask) => self.hold(path, ask),
            Op::Forget => self.subject.forget(),
            Op::Settle => self.settle(),
            Op::Compare => self.compare(),
            _ => self.by_name(op),
        }
    }

    fn by_name(&mut self, op: Op) {
        let Self { tree, subject, .. } = self;
        let (wanted, got) = match op {
            Op::TruncatePath(path, length) => (
                tree.truncate_path(path, length.into()),
                subject.truncate_path(path, length.into()),
            ),
            Op::Rename(from, to, mode) => {
                (tree.rename(from, to, mode), subject.rename(from, to, mode))
            }
            Op::Unlink(path) => (tree.unlink(path), subject.unlink(path)),
            // What happens to a standard directory that no client has made depends on what the kernel
            // has in its cache.
            Op::Mkdir(path) | Op::Rmdir(path) if Tree::is_standard(path) => return,
            Op::Mkdir(path) => (tree.mkdir(path), subject.mkdir(path)),
            Op::Rmdir(path) => (tree.rmdir(path), subject.rmdir(path)),
            Op::Chmod(path, mode) => {
                (tree.chmod(path, mode.into()), subject.chmod(path, mode.into()))
            }
            Op::Utimes(path, seconds) => {
                (tree.utimes(path, seconds), subject.utimes(path, seconds))
            }
            Op::Exit(path, code) => (tree.exit(path, code), subject.exit(path, code)),
            _ => return,
        };
        assert_eq!(got, wanted, "{op:?}");
    }

    fn open(&mut self, path: &str, how: How) {
        let is_view = self.tree.find(path) == Ok(Some(Found::View));
        if is_view && !how.write && !how.excl {
            // Reading one is `Hold`'s.
            return;
        }
        let wanted = self.tree.open(path, how);
        match (self.subject.open(path, how), wanted) {
            (Ok(handle), Ok(())) => self.handles.push(handle),
            (got, wanted) => assert_eq!(got.map(|_| ()), wanted, "open {path} {how:?}"),
        }
    }

    /// Returns the handle that a number stands for.
    fn nth(&self, handle: usize) -> Option<usize> {
        handle.checked_rem(self.handles.len())
    }

    fn write(&mut self, handle: usize, at: u16, text: Text) {
        let Some(nth) = self.nth(handle) else { return };
        let bytes = text.bytes();
        let got = self.subject.write(&self.handles[nth], at.into(), &bytes);
        assert_eq!(got, self.tree.write(nth, at.into(), &bytes), "write at {at}");
    }

    fn read(&mut self, handle: usize, at: u16, length: u16) {
        let Some(nth) = self.nth(handle) else { return };
        let got = self.subject.read(&self.handles[nth], at.into(), length.into());
        same("read", &got, &self.tree.read(nth, at.into(), length.into()));
    }

    fn truncate(&mut self, handle: usize, length: u16) {
        let Some(nth) = self.nth(handle) else { return };
        let got = self.subject.truncate(&self.handles[nth], length.into());
        assert_eq!(got, self.tree.truncate(nth, length.into()), "truncate to {length}");
    }

    fn close(&mut self, handle: usize, late: u8) {
        let Some(nth) = self.nth(handle) else { return };
        self.tree.close(nth);
        self.subject.close(self.handles.remove(nth), late);
    }

    pub(crate) fn close_all(&mut self) {
        while !self.handles.is_empty() {
            self.close(0, 0);
        }
    }

    fn list(&mut self, path: &str) {
        let got = self.subject.list(path);
        if let Ok(names) = &got {
            self.views_come_first(path, names);
            let once: BTreeSet<&String> = names.iter().collect();
            assert_eq!(once.len(), names.len(), "{path} lists a name twice: {names:?}");
        }
        let got = got.map(|names| names.into_iter().collect::<BTreeSet<_>>());
        assert_eq!(got, self.tree.list(path), "names in {path}");
    }

    /// Checks that views are listed before their file, so that `rm -r` and the like meet no view
    /// whose file is gone.
    fn views_come_first(&self, dir: &str, names: &[String]) {
        let place = |name: &str| names.iter().position(|other| other == name);
        for child in self.tree.children(dir) {
            for end in [".summary", ".tail", ".grep"] {
                let view = format!("{}{end}", name_of(child));
                let hidden = self.tree.nodes.contains_key(&format!("{dir}/{view}"));
                if let Some(view) = place(&view).filter(|_| !hidden) {
                    assert!(Some(view) < place(name_of(child)), "{child} is listed before {view}");
                }
            }
        }
    }

    fn compare(&mut self) {
        self.compare_dir("");
        for held in &self.held {
            for bytes in self.subject.again(&held.kept) {
                same(&held.path, &Ok(bytes), &Ok(held.bytes.clone()));
            }
        }
        for (nth, handle) in self.handles.iter().enumerate() {
            let Handle { file, how } = self.tree.handles[nth];
            if how.read {
                let wanted = self.tree.files[file].bytes.clone();
                let got = self.subject.read(handle, 0, wanted.len() + 1);
                same("an open file", &got, &Ok(wanted));
            }
        }
    }

    fn compare_dir(&mut self, dir: &str) {
        if dir.is_empty() {
            let names: BTreeSet<String> = self.subject.list("").unwrap().into_iter().collect();
            let mut wanted: BTreeSet<String> = self.tree.children("").map(str::to_owned).collect();
            wanted.insert("README.md".to_owned());
            assert_eq!(names, wanted, "names in the root");
        } else {
            self.list(dir);
        }
        let children: Vec<String> = self.tree.children(dir).map(str::to_owned).collect();
        for path in children {
            match self.tree.nodes[&path] {
                Node::Dir => self.compare_dir(&path),
                Node::File(file) => self.compare_file(&path, file),
            }
        }
    }

    fn compare_file(&mut self, path: &str, file: FileId) {
        let known = &self.tree.files[file];
        let stat = self.subject.stat(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert!(!stat.is_dir, "{path}");
        assert_eq!((stat.size, stat.mode), (known.bytes.len() as u64, known.mode), "{path}");
        if let Some(modified) = known.modified {
            assert_eq!(stat.modified, i64::from(modified), "{path}: its time");
        }
        same(path, &self.subject.bytes(path), &Ok(known.bytes.clone()));
        for ask in Ask::ALL {
            self.view(path, ask);
        }
    }

    fn settle(&mut self) {
        self.subject.settle();
        self.tree.settle();
    }

    /// Returns all kept views.
    pub(crate) fn let_go(&mut self) -> Vec<S::Held> {
        self.held.drain(..).map(|held| held.kept).collect()
    }
}

/// As `assert_eq`, for bytes. Reports the first difference rather than all bytes.
pub(super) fn same(what: &str, got: &Answer<Vec<u8>>, wanted: &Answer<Vec<u8>>) {
    if got == wanted {
        return;
    }
    let (Ok(got), Ok(wanted)) = (got, wanted) else {
        let brief = |answer: &Answer<Vec<u8>>| answer.as_ref().map(Vec::len).map_err(|e| *e);
        panic!("{what}: {:?}, not {:?} bytes", brief(got), brief(wanted));
    };
    let at = got.iter().zip(wanted).take_while(|(a, b)| a == b).count();
    let part = |bytes: &[u8]| {
        let end = bytes.len().min(at + 60);
        String::from_utf8_lossy(&bytes[at.min(end)..end]).into_owned()
    };
    let (lengths, parts) = ((got.len(), wanted.len()), (part(got), part(wanted)));
    panic!("{what}: {lengths:?} bytes, and from {at} on {:?}, not {:?}", parts.0, parts.1);
}
