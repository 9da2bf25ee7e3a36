//! A plain filesystem first: the calls of programs on files work, or fail with the right error.

mod append;
mod attributes;
mod copy;
mod directory;
mod memory;
mod processes;
mod refused;
mod remove;
mod rename;
mod write;
