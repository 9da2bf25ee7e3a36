//! The hooks of agent hosts: how many calls of each did what.

use crate::doctor::check::{Check, Level};
use crate::env::Environment;
use crate::hook::call_log;
use crate::hook::call_log::HostCalls;

/// Returns a check for each host that has called its hook.
pub(super) fn checks(environment: &Environment) -> Vec<Check> {
    let Some(log) = call_log::path(environment) else { return Vec::new() };
    call_log::count(&log).iter().map(|(host, calls)| check(host, calls)).collect()
}

fn check(host: &str, calls: &HostCalls) -> Check {
    const NAME: &str = "hook";
    let HostCalls { first, last, outcomes, failure } = calls;
    let total: u64 = outcomes.values().sum();
    let outcomes: Vec<_> = outcomes.iter().map(|(name, count)| format!("{count} {name}")).collect();
    let outcomes = outcomes.join(", ");
    let found = format!("{host}: {total} calls from {first} to {last}: {outcomes}");
    match failure {
        None => Check::ok(NAME, found),
        Some(failure) => {
            Check::bad(NAME, Level::Warning, found, format!("the last failure, {failure}"))
        }
    }
}
