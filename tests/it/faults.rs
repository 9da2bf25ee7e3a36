//! Faults, and what they leave: below the store, around its clients, and in the daemon itself.
//!
//! docs/FAULTS.md has a row for each.

mod clients;
mod daemon;
mod disk;
mod random;
mod records;
mod table;
