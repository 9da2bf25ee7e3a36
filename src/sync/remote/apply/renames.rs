
use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};

use crate::remote::error::RemoteError;
use crate::remote::mark::{mark_of, shared_path};
use crate::replica::{FileKey, Found, Step};
use ctxfs_core::model::{RelPath, with_digits};
use ctxfs_store::{Relocation, Rename, StoreError};

use super::Applying;

///+ Temporary names to try for a file in a cycle of renames.
const TRIES: usize = 8;
const DIGITS: usize = 8;

///+ Renames, ordered so that each new name is free.
#[derive(Default)]
pub(super) struct Renames<'s> {
    pending: Vec<Pending<'s>>,
}

struct Pending<'s> {
    step: &'s Step,
    found: &'s Found,
    ///+ Original, current and target path.
    from: RelPath,
    at: RelPath,
    to: RelPath,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Done,
    ///+ The rename is impossible now, and was reported.
    Left,
}

#[derive(Clone, Copy)]
enum Action {
    ///+ Renames to the final name.
    Move(usize),
    ///+ Renames to a temporary name: the file is part of a cycle.
    Aside(usize),
}

impl<'s> Renames<'s> {
    pub(super) fn push(&mut self, step: &'s Step, found: &'s Found, path: (RelPath, RelPath)) {
        let (from, to) = path;
        let (at, state) = (from.clone(), State::Waiting);
        self.pending.push(Pending { step, found, from, at, to, state });
    }

    ///+ Repeats as long as renames free names for others.
    pub(super) fn run(mut self, applying: &mut Applying<'_>) -> Result<(), RemoteError> {
        let waiting = |renames: &Self| {
            renames.pending.iter().filter(|each| each.state == State::Waiting).count()
        };
        let tried = loop {
            let before = waiting(&self);
            let tried = self.round(applying);
            if tried.is_err() || waiting(&self) == before || waiting(&self) == 0 {
                break tried;
            }
        };
        self.take_back(applying);
        for each in self.pending.iter().filter(|each| each.state == State::Waiting) {
            applying.leave(&each.to.to_text(), "something else has its name, or is in the way");
        }
        tried
    }

    fn round(&mut self, applying: &mut Applying<'_>) -> Result<(), RemoteError> {
        for action in self.order() {
            match action {
                Action::Move(which) => self.rename(which, applying)?,
                Action::Aside(which) => self.step_aside(which, applying)?,
            }
        }
        Ok(())
    }

    fn rename(&mut self, which: usize, applying: &mut Applying<'_>) -> Result<(), RemoteError> {
        let to = self.pending[which].to.clone();
        if self.relocate(which, &to, applying)? {
            self.pending[which].state = State::Done;
            applying.applied.done.push(self.pending[which].step.clone());
        }
        Ok(())
    }

    fn step_aside(&mut self, which: usize, applying: &mut Applying<'_>) -> Result<(), RemoteError> {
        for number in 0..TRIES {
            // If one path is below the other, only one of them has a free temporary name next to
            // it.
            let Pending { at, to, .. } = &self.pending[which];
            let beside = if number % 2 == 0 { to } else { at };
            let Some(aside) = aside(beside) else { continue };
            let is_moved = self.relocate(which, &aside, applying)?;
            if is_moved || self.pending[which].state != State::Waiting {
                return Ok(());
            }
        }
        Ok(())
    }

    ///+ Returns false if the name is taken or the file is skipped.
    fn relocate(
        &mut self,
        which: usize,
        to: &RelPath,
        applying: &mut Applying<'_>,
    ) -> Result<bool, RemoteError> {
        let pending = &mut self.pending[which];
        if pending.state != State::Waiting {
            return Ok(false);
        }
        let done = relocated(pending, to, applying);
        match applying.settled(&pending.at.to_text(), done)? {
            Some(Relocation::Done) => {
                let before = std::mem::replace(&mut pending.at, to.clone());
                applying.touch(&before);
                applying.touch(to);
                return Ok(true);
            }
            Some(Relocation::Taken) => {}
            Some(Relocation::Kept(why)) => {
                applying.leave(&pending.at.to_text(), why);
                pending.state = State::Left;
            }
            None => pending.state = State::Left,
        }
        Ok(false)
    }

    ///+ Restores the names of files that were renamed to a temporary name in vain, where these are
    ///+ free.
    fn take_back(&mut self, applying: &mut Applying<'_>) {
        let in_vain = |each: &&mut Pending<'_>| each.state != State::Done && each.at != each.from;
        for each in self.pending.iter_mut().filter(in_vain) {
            let from = each.from.clone();
            // The next comparison finds the file under any name.
            let _back = relocated(each, &from, applying);
            applying.touch(&from);
        }
    }

    ///+ Sorts the renames topologically, so that a file follows those that block its new name.
    ///+ Breaks each cycle with a temporary name.
    fn order(&self) -> Vec<Action> {
        let places = Places::of(&self.pending);
        let mut order = Vec::new();
        let mut mark = vec![Mark::New; self.pending.len()];
        for first in 0..self.pending.len() {
            let (mut way, mut next) = (Vec::new(), Some(first));
            while let Some(at) = next.filter(|at| mark[*at] == Mark::New) {
                mark[at] = Mark::OnTheWay;
                way.push(at);
                next = places.in_the_way_of(&self.pending[at]);
            }
            let circle = next.filter(|at| mark[*at] == Mark::OnTheWay);
            order.extend(circle.map(Action::Aside));
            for at in way.into_iter().rev() {
                mark[at] = Mark::Ordered;
                order.push(Action::Move(at));
            }
        }
        order
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    New,
    OnTheWay,
    Ordered,
}

struct Places(BTreeMap<String, usize>);

impl Places {
    fn of(pending: &[Pending<'_>]) -> Self {
        let waiting = pending.iter().enumerate().filter(|(_, each)| each.state == State::Waiting);
        Self(waiting.map(|(which, each)| (each.at.to_text(), which)).collect())
    }

    ///+ Returns a waiting file at the new name, at a directory above it, or below it.
    fn in_the_way_of(&self, pending: &Pending<'_>) -> Option<usize> {
        let to = pending.to.to_text();
        let above = to.match_indices('/').filter_map(|(end, _)| self.0.get(&to[..end]));
        let within = format!("{to}/");
        let below = self.0.range(within.clone()..).next();
        let below = below.filter(|(path, _)| path.starts_with(&within)).map(|(_, which)| which);
        self.0.get(&to).into_iter().chain(above).chain(below).next().copied()
    }
}

fn relocated(
    pending: &Pending<'_>,
    to: &RelPath,
    applying: &Applying<'_>,
) -> Result<Relocation, StoreError> {
    let rename = Rename { from: &pending.at, to, at: applying.now };
    let Found { key, version, .. } = *pending.found;
    match (key, mark_of(key, version)) {
        (_, Some(mark)) => applying.conversation.relocate(rename, &mark),
        (FileKey::Elsewhere(origin), None) => {
            applying.conversation.relocate_far(rename, &origin.to_string())
        }
        (FileKey::Here { .. }, None) => Ok(Relocation::Kept("it is no file")),
    }
}

///+ Returns a visible temporary name next to `path`: `x~<digits>` with the extension.
fn aside(path: &RelPath) -> Option<RelPath> {
    let text = path.to_text();
    let digits = format!("{:016x}", RandomState::new().hash_one(&text));
    shared_path(&with_digits(&text, &digits[..DIGITS]))
}
