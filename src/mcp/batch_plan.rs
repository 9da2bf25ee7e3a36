//! The order in which the calls of a batch are made.
//!
//! Calls that only read are made side by side, as many as the limit lets. Any other call is made
//! alone: after all before it, and before all after it. After a refusal no later call is made but
//! those that only read; after an error, where the batch is to stop at one, no later call at all.
//! "Later" is by place in the batch, so the outcome is that of calls made one by one.

/// A call, as it is known before the batch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedCall {
    /// True if it only reads.
    pub reads: bool,
    /// The permission to make it.
    pub gate: Gate,
}

/// The permission to make a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// Yes.
    Open,
    /// A person is asked; see [`BatchPlan::answered`].
    Asked,
    /// No: it is denied, or nobody can be asked.
    Refused,
    /// No: it names no tool, or its arguments do not fit. This is an error of the call.
    Invalid,
}

/// The end of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It has a result.
    Ok,
    /// It failed.
    Error,
}

/// Why a call is not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotMade {
    /// It was refused itself.
    Refused,
    /// It was invalid itself.
    Invalid,
    /// An earlier call, whose place this is, was refused.
    AfterRefusal(usize),
    /// An earlier call, whose place this is, failed, and the batch stops at an error.
    AfterError(usize),
    /// The batch was cancelled.
    Cancelled,
}

/// The state of a batch. It says which calls to start, and is told how they end.
#[derive(Debug, Clone)]
pub struct BatchPlan {
    calls: Vec<(PlannedCall, State)>,
    parallel_limit: usize,
    stop_on_error: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Running,
    Ended(Outcome),
    NotMade(NotMade),
}

impl State {
    fn is_settled(self) -> bool {
        matches!(self, Self::Ended(_) | Self::NotMade(_))
    }
}

impl BatchPlan {
    /// Plans `calls`, of which at most `parallel_limit`, and at least one, run at a time.
    pub fn new(calls: &[PlannedCall], parallel_limit: usize, stop_on_error: bool) -> Self {
        let calls = calls.iter().map(|call| (*call, State::Waiting)).collect();
        let mut plan = Self { calls, parallel_limit: parallel_limit.max(1), stop_on_error };
        for (call, state) in &mut plan.calls {
            match call.gate {
                Gate::Open | Gate::Asked => {}
                Gate::Refused => *state = State::NotMade(NotMade::Refused),
                Gate::Invalid => *state = State::NotMade(NotMade::Invalid),
            }
        }
        (0..plan.calls.len()).for_each(|place| plan.stop_later(place));
        plan
    }

    /// Returns the calls to start now, in their order. They run from here on.
    pub fn start_next(&mut self) -> Vec<usize> {
        let mut started = Vec::new();
        let mut running = self.running();
        let mut all_before_settled = true;
        for place in 0..self.calls.len() {
            let (call, state) = self.calls[place];
            if state.is_settled() {
                continue;
            }
            let in_turn =
                if call.reads { running < self.parallel_limit } else { all_before_settled };
            if state == State::Waiting && call.gate == Gate::Open && in_turn {
                self.calls[place].1 = State::Running;
                started.push(place);
                running += 1;
            }
            if !call.reads {
                break;
            }
            all_before_settled = false;
        }
        started
    }

    /// Takes the end of the running call at `place`.
    pub fn finished(&mut self, place: usize, outcome: Outcome) {
        if self.calls.get(place).is_some_and(|(_, state)| *state == State::Running) {
            self.settle(place, State::Ended(outcome));
        }
    }

    /// Takes the answer about the call at `place`, which waits for one.
    pub fn answered(&mut self, place: usize, allowed: bool) {
        let waits = |(call, state): &(PlannedCall, State)| {
            call.gate == Gate::Asked && *state == State::Waiting
        };
        if !self.calls.get(place).is_some_and(waits) {
        } else if allowed {
            self.calls[place].0.gate = Gate::Open;
        } else {
            self.settle(place, State::NotMade(NotMade::Refused));
        }
    }

    /// Gives up all calls that have not been started.
    pub fn cancel(&mut self) {
        for (_, state) in &mut self.calls {
            if *state == State::Waiting {
                *state = State::NotMade(NotMade::Cancelled);
            }
        }
    }

    /// Returns the calls that wait for an answer and are still to be made.
    pub fn asked(&self) -> Vec<usize> {
        let asked = |(place, (call, state)): (usize, &(PlannedCall, State))| {
            (call.gate == Gate::Asked && *state == State::Waiting).then_some(place)
        };
        self.calls.iter().enumerate().filter_map(asked).collect()
    }

    /// Returns the number of calls that run.
    pub fn running(&self) -> usize {
        self.calls.iter().filter(|(_, state)| *state == State::Running).count()
    }

    /// Returns true if every call has ended or will not be made.
    pub fn is_done(&self) -> bool {
        self.calls.iter().all(|(_, state)| state.is_settled())
    }

    /// Returns why the call at `place` is not made, if it is not.
    pub fn not_made(&self, place: usize) -> Option<NotMade> {
        match self.calls.get(place)?.1 {
            State::NotMade(why) => Some(why),
            _ => None,
        }
    }

    fn settle(&mut self, place: usize, state: State) {
        self.calls[place].1 = state;
        self.stop_later(place);
    }

    /// Gives up the later calls that are not to be made after what became of the one at `place`.
    fn stop_later(&mut self, place: usize) {
        let state = self.calls[place].1;
        let refused = state == State::NotMade(NotMade::Refused);
        let failed = state == State::Ended(Outcome::Error)
            || state == State::NotMade(NotMade::Invalid)
            || refused;
        for (call, later) in &mut self.calls[place + 1..] {
            if *later != State::Waiting {
            } else if refused && !call.reads {
                *later = State::NotMade(NotMade::AfterRefusal(place));
            } else if failed && self.stop_on_error {
                *later = State::NotMade(NotMade::AfterError(place));
            }
        }
    }
}

#[cfg(test)]
mod tests;
