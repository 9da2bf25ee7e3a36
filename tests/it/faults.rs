//! Faults below the store, around its clients, and in the daemon itself, and the state after them.
//!
//! docs/FAULTS.md has a row for each.

mod clients;
mod daemon;
mod disk;
mod file_limit;
mod moves;
mod random;
mod records;
mod signals;
mod table;
mod times;
