//! The daemon: how it starts, ends, dies, and shares its store.

mod ending;
mod modes;
mod sharing;
mod starting;
mod write_once;
