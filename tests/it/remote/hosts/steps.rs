//! The steps of the hosts, and the generation of random runs.

use proptest::prelude::*;

/// Names of artifacts: few, so that hosts meet.
pub(super) const NAMES: [&str; 7] =
    ["a.txt", "b.txt", "c.txt", "d/a.txt", "d/b.txt", "e/f/a.txt", "g/a.txt"];
/// Directories that are moved, none of them into another.
pub(super) const DIRECTORIES: [&str; 3] = ["d", "e/f", "g"];
/// The milliseconds by which the clocks of the hosts are off.
pub(super) const SKEWS: [i64; 3] = [0, 3_600_000, -3_600_000];

/// The next action of a host. Names are places in [`NAMES`], directories in [`DIRECTORIES`].
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    /// Writes a file in place.
    Write(usize),
    /// Appends to a file, if there is one.
    Append(usize),
    /// Leaves half of a file, if there is one, and another end.
    Cut(usize),
    /// Gives the name to a new file.
    Replace(usize),
    /// Opens a file, which may be new, appends to it, and keeps it open.
    Begin(usize),
    /// Appends to the file that was opened last.
    GoOn,
    /// Closes that.
    End,
    Rename(usize, usize),
    /// Two files change places, if both are there.
    Exchange(usize, usize),
    /// Moves a directory, unless something is in the way.
    MoveDirectory(usize, usize),
    Remove(usize),
    MakeDirectory,
    Say,
    Push,
    /// Bytes come with what others did.
    Pull,
    /// Bytes stay where they are.
    Hear,
    Evict(usize),
    /// A command is killed after so many milliseconds.
    KilledPush(u64),
    KilledPull(u64),
}

/// Returns a strategy for a step of one of the hosts.
pub(super) fn step() -> impl Strategy<Value = (usize, Step)> {
    (0..SKEWS.len(), prop_oneof![16 => change(), 13 => exchange()])
}

/// A change of files or messages.
fn change() -> impl Strategy<Value = Step> {
    let (name, other) = (0..NAMES.len(), 0..NAMES.len());
    let (from, to) = (0..DIRECTORIES.len(), 0..DIRECTORIES.len());
    let two = (name.clone(), other);
    prop_oneof![
        4 => name.clone().prop_map(Step::Write),
        2 => name.clone().prop_map(Step::Append),
        1 => name.clone().prop_map(Step::Cut),
        2 => name.clone().prop_map(Step::Replace),
        2 => name.clone().prop_map(Step::Begin),
        1 => Just(Step::GoOn),
        2 => Just(Step::End),
        3 => two.clone().prop_map(|(from, to)| Step::Rename(from, to)),
        1 => two.prop_map(|(one, other)| Step::Exchange(one, other)),
        1 => (from, to).prop_map(|(from, to)| Step::MoveDirectory(from, to)),
        2 => name.prop_map(Step::Remove),
        1 => Just(Step::MakeDirectory),
        2 => Just(Step::Say),
    ]
}

/// Something between a host and the bucket.
fn exchange() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Push),
        3 => Just(Step::Pull),
        2 => Just(Step::Hear),
        2 => (0..NAMES.len()).prop_map(Step::Evict),
        1 => (1..60_u64).prop_map(Step::KilledPush),
        1 => (1..60_u64).prop_map(Step::KilledPull),
    ]
}
