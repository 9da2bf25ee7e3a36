//! The daemon: its start, its end, its death, and stores shared by several.

mod ending;
mod modes;
mod only;
mod sharing;
mod starting;
mod users;
mod write_once;
