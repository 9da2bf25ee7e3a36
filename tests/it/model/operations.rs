//! The operations on the tree, and the generation of random runs.
//!
//! The alphabets are tiny, so that names meet: a file and its view, a scratch name and what it is
//! renamed to. Handles are counted from the oldest that is open, modulo their number, so that a
//! shrunk run stays a valid one.

use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::sample::select;

/// A path in the tree, without a leading `/`.
pub(crate) type Path = &'static str;

/// An action of a program, or of the kernel by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Open(Path, How),
    Write {
        handle: usize,
        at: u16,
        text: Text,
    },
    Read {
        handle: usize,
        at: u16,
        length: u16,
    },
    Truncate {
        handle: usize,
        length: u16,
    },
    TruncatePath(Path, u16),
    /// The kernel reports it only `late` operations later.
    Close {
        handle: usize,
        late: u8,
    },
    Rename(Path, Path, Mode),
    Unlink(Path),
    Mkdir(Path),
    Rmdir(Path),
    Chmod(Path, u16),
    Utimes(Path, u32),
    /// `user.ctx.exit_code`.
    Exit(Path, u8),
    List(Path),
    View(Path, Ask),
    /// As `View`, but the view is read again and again from then on.
    Hold(Path, Ask),
    /// The kernel forgets all numbers that it does not need.
    Forget,
    /// Everything that is closed gets sealed.
    Settle,
    /// The whole tree is compared.
    Compare,
}

/// The modes of opening a file.
#[expect(clippy::struct_excessive_bools, reason = "they are the flags of open(2)")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct How {
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) append: bool,
    pub(crate) create: bool,
    pub(crate) excl: bool,
    pub(crate) truncate: bool,
}

impl How {
    pub(crate) const READ: Self = Self::of(true, false, false);
    /// As `fs::write` opens.
    pub(crate) const REPLACE: Self =
        Self { create: true, truncate: true, ..Self::of(false, true, false) };
    pub(crate) const APPEND: Self = Self { create: true, ..Self::of(false, true, true) };
    pub(crate) const BOTH: Self = Self { create: true, ..Self::of(true, true, false) };
    pub(crate) const NEW: Self = Self { create: true, excl: true, ..Self::of(false, true, false) };
    pub(crate) const WRITE: Self = Self::of(false, true, false);

    const fn of(read: bool, write: bool, append: bool) -> Self {
        Self { read, write, append, create: false, excl: false, truncate: false }
    }
}

/// The bytes of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Text {
    /// No newline, which leaves the last line unfinished.
    Word,
    /// So many short lines, every fifth with the word that searches look for.
    Lines(u16),
}

impl Text {
    pub(crate) fn bytes(self) -> Vec<u8> {
        match self {
            Self::Word => b"beta".to_vec(),
            Self::Lines(count) => (1..=count)
                .flat_map(|n| {
                    let word = if n % 5 == 0 { "beta" } else { "alpha" };
                    format!("line {n} {word}\n").into_bytes()
                })
                .collect(),
        }
    }
}

/// The modes of renaming onto a name that is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Replace,
    KeepExisting,
    Exchange,
}

/// A view of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    Tail,
    Head,
    Lines,
    Grep,
    Summary,
    Meta,
}

impl Ask {
    pub(crate) const ALL: [Self; 6] =
        [Self::Tail, Self::Head, Self::Lines, Self::Grep, Self::Summary, Self::Meta];

    /// Returns the suffix that follows the file's path.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::Tail => ".tail",
            Self::Head => ".head",
            Self::Lines => ".lines/2-3",
            Self::Grep => ".grep/beta",
            Self::Summary => ".summary",
            Self::Meta => ".meta.json",
        }
    }
}

const CONVERSATIONS: [Path; 2] = ["c1", "c2"];
const DIRECTORIES: [Path; 3] = ["artifacts/tool", "artifacts/tool/sub", "history"];
const NAMES: [Path; 7] = ["a", "a.txt", "b.txt", "a.txt.summary", "x.tmp", "a.tail", "a.txt.grep"];

/// All paths of files.
static FILES: LazyLock<Vec<Path>> = LazyLock::new(|| {
    let join = |c, d, n| &*format!("{c}/{d}/{n}").leak();
    let names = |c, d| NAMES.iter().map(move |n| join(c, d, n));
    CONVERSATIONS.iter().flat_map(|c| DIRECTORIES.iter().flat_map(move |d| names(c, d))).collect()
});

/// All paths that begin as those of directories, including conversations.
static DIRS: LazyLock<Vec<Path>> = LazyLock::new(|| {
    let join = |c: &Path, d| &*format!("{c}/{d}").leak();
    let below = CONVERSATIONS.iter().flat_map(|c| DIRECTORIES.iter().map(move |d| join(c, d)));
    CONVERSATIONS.iter().copied().chain(below).collect()
});

fn file() -> impl Strategy<Value = Path> + Clone {
    // Most of it happens in one directory.
    prop_oneof![3 => select(&FILES[..5]), 1 => select(&FILES[..])]
}

fn dir() -> impl Strategy<Value = Path> + Clone {
    select(&DIRS[..])
}

fn any_path() -> impl Strategy<Value = Path> + Clone {
    prop_oneof![5 => file(), 1 => dir()]
}

fn how() -> impl Strategy<Value = How> {
    let replace_or_not = prop_oneof![
        4 => Just(How::REPLACE),
        3 => Just(How::APPEND),
        2 => Just(How::READ),
        2 => Just(How::WRITE),
        1 => Just(How::NEW),
        1 => Just(How::BOTH),
    ];
    let any = any::<[bool; 6]>().prop_map(|[read, write, append, create, excl, truncate]| How {
        read: read || !write,
        append: append && write,
        truncate: truncate && write,
        excl: excl && create,
        write,
        create,
    });
    prop_oneof![5 => replace_or_not, 1 => any]
}

fn text() -> impl Strategy<Value = Text> {
    prop_oneof![
        2 => Just(Text::Word),
        4 => (1..8u16).prop_map(Text::Lines),
        1 => (150..300u16).prop_map(Text::Lines),
    ]
}

fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![4 => Just(Mode::Replace), 1 => Just(Mode::KeepExisting), 2 => Just(Mode::Exchange)]
}

fn content() -> impl Strategy<Value = Op> {
    let handle = || 0..6usize;
    let at = || prop_oneof![2 => 0..40u16, 1 => 0..6000u16];
    prop_oneof![
        8 => (file(), how()).prop_map(|(path, how)| Op::Open(path, how)),
        8 => (handle(), at(), text()).prop_map(|(handle, at, text)| Op::Write { handle, at, text }),
        2 => (handle(), at(), 0..6000u16)
            .prop_map(|(handle, at, length)| Op::Read { handle, at, length }),
        1 => (handle(), at()).prop_map(|(handle, length)| Op::Truncate { handle, length }),
        1 => (any_path(), at()).prop_map(|(path, length)| Op::TruncatePath(path, length)),
        6 => (handle(), 0..5u8).prop_map(|(handle, late)| Op::Close { handle, late }),
    ]
}

fn names() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (any_path(), any_path(), mode()).prop_map(|(from, to, mode)| Op::Rename(from, to, mode)),
        3 => any_path().prop_map(Op::Unlink),
        2 => prop_oneof![file(), dir(), dir()].prop_map(Op::Mkdir),
        2 => prop_oneof![file(), dir(), dir()].prop_map(Op::Rmdir),
    ]
}

fn looks() -> impl Strategy<Value = Op> {
    let ask = || select(&Ask::ALL[..]);
    prop_oneof![
        1 => dir().prop_map(Op::List),
        5 => (file(), ask()).prop_map(|(path, ask)| Op::View(path, ask)),
        3 => (file(), ask()).prop_map(|(path, ask)| Op::Hold(path, ask)),
        1 => Just(Op::Compare),
    ]
}

fn attributes() -> impl Strategy<Value = Op> {
    prop_oneof![
        (any_path(), select(&[0o600, 0o640, 0o444][..])).prop_map(|(path, to)| Op::Chmod(path, to)),
        (any_path(), 1..2_000_000_000u32).prop_map(|(path, to)| Op::Utimes(path, to)),
        (any_path(), 0..4u8).prop_map(|(path, code)| Op::Exit(path, code)),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => content(),
        5 => names(),
        4 => looks(),
        2 => attributes(),
        1 => prop_oneof![Just(Op::Forget), Just(Op::Settle)],
    ]
}

/// Returns a strategy for runs of at most `length` operations.
pub(crate) fn run(length: usize) -> impl Strategy<Value = Vec<Op>> {
    proptest::collection::vec(op(), 1..length)
}
