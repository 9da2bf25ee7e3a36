//! The daemon: how it starts, ends, dies, and shares its store.

mod ending;
mod modes;
mod only;
mod sharing;
mod starting;
mod users;
mod write_once;
