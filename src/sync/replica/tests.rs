//! Tests of the rules with hosts in memory and random schedules.
#![expect(clippy::print_stdout, reason = "a schedule that fails shows its steps")]

mod checker;
mod host;
mod schedule;
mod world;
