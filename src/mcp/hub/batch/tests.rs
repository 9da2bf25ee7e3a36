use proptest::prelude::*;

use super::*;

const READ: PlannedCall = PlannedCall { reads: true, gate: CallGate::Open };

const WRITE: PlannedCall = PlannedCall { reads: false, gate: CallGate::Open };

const ASKED: PlannedCall = PlannedCall { reads: false, gate: CallGate::Asked };

const REFUSED: PlannedCall = PlannedCall { reads: false, gate: CallGate::Refused };

const INVALID: PlannedCall = PlannedCall { reads: true, gate: CallGate::Invalid };

#[test]
fn reads_run_side_by_side_up_to_the_limit() {
    let mut plan = BatchPlan::new(&[READ, READ, READ], 2, false);
    assert_eq!(plan.start_next(), [0, 1]);
    assert!(plan.start_next().is_empty());
    plan.finished(1, CallOutcome::Ok);
    assert_eq!(plan.start_next(), [2]);
    plan.finished(0, CallOutcome::Error);
    plan.finished(2, CallOutcome::Ok);
    assert!(plan.is_done());
}

#[test]
fn any_other_call_runs_alone() {
    let mut plan = BatchPlan::new(&[READ, WRITE, READ, READ, WRITE], 16, false);
    assert_eq!(plan.start_next(), [0]);
    plan.finished(0, CallOutcome::Ok);
    assert_eq!(plan.start_next(), [1]);
    assert!(plan.start_next().is_empty());
    plan.finished(1, CallOutcome::Ok);
    assert_eq!(plan.start_next(), [2, 3]);
    plan.finished(3, CallOutcome::Ok);
    assert!(plan.start_next().is_empty());
    plan.finished(2, CallOutcome::Ok);
    assert_eq!(plan.start_next(), [4]);
}

#[test]
fn what_comes_before_the_first_unanswered_barrier_goes_on() {
    let mut plan = BatchPlan::new(&[READ, WRITE, ASKED, READ, ASKED], 4, false);
    assert_eq!(plan.asked(), [2, 4]);
    assert_eq!(plan.start_next(), [0]);
    plan.finished(0, CallOutcome::Ok);
    assert_eq!(plan.start_next(), [1]);
    plan.finished(1, CallOutcome::Ok);
    assert!(plan.start_next().is_empty() && !plan.is_done());
    plan.answered(2, true);
    assert_eq!(plan.start_next(), [2]);
    plan.finished(2, CallOutcome::Ok);
    assert_eq!(plan.start_next(), [3]);
    plan.finished(3, CallOutcome::Ok);
    plan.answered(4, false);
    assert!(plan.is_done());
    assert_eq!(plan.skipped(4), Some(SkippedCall::Refused));
}

#[test]
fn a_read_that_waits_for_an_answer_holds_up_no_other_read() {
    let asked_read = PlannedCall { reads: true, gate: CallGate::Asked };
    let mut plan = BatchPlan::new(&[asked_read, READ, WRITE], 4, false);
    assert_eq!(plan.start_next(), [1]);
    plan.finished(1, CallOutcome::Ok);
    assert!(plan.start_next().is_empty());
    plan.answered(0, false);
    assert_eq!(plan.skipped(2), Some(SkippedCall::AfterRefusal(0)));
    assert!(plan.is_done());
}

#[test]
fn after_a_refusal_only_reads_are_made() {
    let mut plan = BatchPlan::new(&[WRITE, REFUSED, READ, WRITE, ASKED], 4, false);
    assert_eq!(plan.start_next(), [0]);
    plan.finished(0, CallOutcome::Ok);
    assert_eq!(plan.start_next(), [2]);
    plan.finished(2, CallOutcome::Ok);
    assert!(plan.is_done() && plan.asked().is_empty());
    assert_eq!(plan.skipped(1), Some(SkippedCall::Refused));
    assert_eq!(plan.skipped(3), Some(SkippedCall::AfterRefusal(1)));
    assert_eq!(plan.skipped(4), Some(SkippedCall::AfterRefusal(1)));
}

#[test]
fn an_error_stops_later_calls_where_it_is_to() {
    let mut plan = BatchPlan::new(&[READ, INVALID, READ, WRITE], 1, true);
    assert_eq!(plan.start_next(), [0]);
    plan.finished(0, CallOutcome::Ok);
    assert!(plan.is_done());
    assert_eq!(plan.skipped(3), Some(SkippedCall::AfterError(1)));

    let mut plan = BatchPlan::new(&[READ, READ, READ], 2, true);
    assert_eq!(plan.start_next(), [0, 1]);
    plan.finished(0, CallOutcome::Error);
    assert!(plan.start_next().is_empty() && !plan.is_done());
    plan.finished(1, CallOutcome::Ok);
    assert!(plan.is_done());
    assert_eq!(plan.skipped(2), Some(SkippedCall::AfterError(0)));
}

#[test]
fn an_error_stops_nothing_otherwise() {
    let mut plan = BatchPlan::new(&[INVALID, WRITE, READ], 4, false);
    assert_eq!(plan.start_next(), [1]);
    plan.finished(1, CallOutcome::Error);
    assert_eq!(plan.start_next(), [2]);
}

#[test]
fn a_cancelled_batch_waits_for_what_runs_alone() {
    let mut plan = BatchPlan::new(&[READ, WRITE, ASKED], 4, false);
    assert_eq!(plan.start_next(), [0]);
    plan.cancel();
    assert!(plan.start_next().is_empty() && plan.asked().is_empty() && !plan.is_done());
    plan.finished(0, CallOutcome::Error);
    assert!(plan.is_done());
    assert_eq!(plan.skipped(2), Some(SkippedCall::Cancelled));
}

#[test]
fn what_does_not_fit_the_state_changes_nothing() {
    let mut plan = BatchPlan::new(&[READ, READ], 1, true);
    plan.finished(0, CallOutcome::Error);
    plan.finished(9, CallOutcome::Error);
    plan.answered(0, false);
    plan.answered(9, false);
    assert_eq!(plan.start_next(), [0]);
    plan.answered(0, false);
    assert_eq!(plan.running(), 1);
    assert!(BatchPlan::new(&[], 0, false).is_done());
}

/// The reference model: the outcomes if the calls run one by one, in order.
fn one_by_one(calls: &[Case], stop_on_error: bool) -> Vec<Result<CallOutcome, SkippedCall>> {
    let (mut refused, mut failed) = (None, None);
    let mut ends = Vec::new();
    for (place, case) in calls.iter().enumerate() {
        let allowed = match case.call.gate {
            CallGate::Open => true,
            CallGate::Asked => case.allowed,
            CallGate::Refused | CallGate::Invalid => false,
        };
        // The reason is the first earlier call that prevents this one.
        let stopped: Vec<(usize, SkippedCall)> = [
            refused.filter(|_| !case.call.reads).map(|at| (at, SkippedCall::AfterRefusal(at))),
            failed.filter(|_| stop_on_error).map(|at| (at, SkippedCall::AfterError(at))),
        ]
        .into_iter()
        .flatten()
        .collect();
        let end = if case.call.gate == CallGate::Invalid {
            Err(SkippedCall::Invalid)
        } else if let Some((_, why)) = stopped.into_iter().min_by_key(|(at, _)| *at) {
            Err(why)
        } else if allowed {
            Ok(if case.fails { CallOutcome::Error } else { CallOutcome::Ok })
        } else {
            Err(SkippedCall::Refused)
        };
        let is_refusal = end == Err(SkippedCall::Refused);
        let is_failure =
            matches!(end, Ok(CallOutcome::Error) | Err(SkippedCall::Invalid)) || is_refusal;
        refused = refused.or(is_refusal.then_some(place));
        failed = failed.or(is_failure.then_some(place));
        ends.push(end);
    }
    ends
}

#[derive(Debug, Clone, Copy)]
struct Case {
    call: PlannedCall,
    allowed: bool,
    fails: bool,
}

fn any_case() -> impl Strategy<Value = Case> {
    let gates = prop::sample::select(vec![
        CallGate::Open,
        CallGate::Open,
        CallGate::Open,
        CallGate::Asked,
        CallGate::Refused,
        CallGate::Invalid,
    ]);
    (any::<bool>(), gates, any::<bool>(), prop::bool::weighted(0.2)).prop_map(
        |(reads, gate, allowed, fails)| Case { call: PlannedCall { reads, gate }, allowed, fails },
    )
}

fn run(
    cases: &[Case],
    limit: usize,
    stop: bool,
    turns: &[usize],
) -> Vec<Result<CallOutcome, SkippedCall>> {
    let calls: Vec<PlannedCall> = cases.iter().map(|case| case.call).collect();
    let mut plan = BatchPlan::new(&calls, limit, stop);
    let mut running: Vec<usize> = Vec::new();
    let mut ended: Vec<Option<CallOutcome>> = vec![None; cases.len()];
    let mut turns = turns.iter().cycle();
    loop {
        for place in plan.start_next() {
            let others_before = |other: &usize| *other < place && ended[*other].is_none();
            let settled = |other: &usize| plan.skipped(*other).is_some();
            if !cases[place].call.reads {
                let open = (0..place).filter(others_before).filter(|other| !settled(other));
                assert_eq!(open.count(), 0, "{place} did not wait");
            }
            assert!(ended[place].is_none() && !running.contains(&place));
            running.push(place);
        }
        assert!(running.len() <= limit.max(1));
        let alone = running.iter().any(|place| !cases[*place].call.reads);
        assert!(!alone || running.len() == 1, "{running:?}");
        if plan.is_done() {
            break;
        }
        let asked = plan.asked();
        assert!(!running.is_empty() || !asked.is_empty(), "nothing goes on: {plan:?}");
        let turn = turns.next().unwrap() % (running.len() + asked.len());
        if turn < running.len() {
            let place = running.swap_remove(turn);
            let outcome = if cases[place].fails { CallOutcome::Error } else { CallOutcome::Ok };
            ended[place] = Some(outcome);
            plan.finished(place, outcome);
        } else {
            let place = asked[turn - running.len()];
            plan.answered(place, cases[place].allowed);
        }
    }
    (0..cases.len())
        .map(|place| plan.skipped(place).map_or_else(|| Ok(ended[place].unwrap()), Err))
        .collect()
}

/// Removes the position of the refusal, because it depends on the order of the answers.
fn without_place(end: Result<CallOutcome, SkippedCall>) -> Result<CallOutcome, SkippedCall> {
    match end {
        Err(SkippedCall::AfterRefusal(_)) => Err(SkippedCall::Refused),
        other => other,
    }
}

/// Returns true if both executions make the call or neither does. A call that reads may also be
/// made although the model skips it, because it ran in parallel with the call that failed.
fn agree(
    case: Case,
    end: Result<CallOutcome, SkippedCall>,
    model: Result<CallOutcome, SkippedCall>,
) -> bool {
    match (end, model) {
        (Ok(_), Err(SkippedCall::AfterError(_))) => case.call.reads,
        (Ok(end), Ok(model)) => end == model,
        (Err(_), Err(_)) => true,
        _ => false,
    }
}

proptest! {
    /// Without stopping on errors, each call ends as if all calls were made one by one. This holds
    /// for every limit and every order of ends and answers.
    #[test]
    fn it_ends_as_if_made_one_by_one(
        cases in prop::collection::vec(any_case(), 0..12),
        limit in 0..5_usize,
        turns in prop::collection::vec(0..100_usize, 1..30),
    ) {
        let ends = run(&cases, limit, false, &turns).into_iter().map(without_place);
        let model = one_by_one(&cases, false).into_iter().map(without_place);
        prop_assert_eq!(ends.collect::<Vec<_>>(), model.collect::<Vec<_>>());
    }

    /// With `stop_on_error`, only reads may run after an earlier call failed.
    #[test]
    fn stopping_stops_all_but_reads_that_already_run(
        cases in prop::collection::vec(any_case(), 0..12),
        limit in 0..5_usize,
        turns in prop::collection::vec(0..100_usize, 1..30),
    ) {
        let model = one_by_one(&cases, true);
        for (place, end) in run(&cases, limit, true, &turns).into_iter().enumerate() {
            prop_assert!(agree(cases[place], end, model[place]), "{place}: {end:?} {:?}", model[place]);
        }
    }
}
