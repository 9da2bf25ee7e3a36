//! The daemon: its start, its end, its death, and stores shared by several.

mod ending;
mod held_up;
mod killed;
mod modes;
mod only;
mod rights;
mod sharing;
mod starting;
mod users;
mod waiting;
mod write_once;
