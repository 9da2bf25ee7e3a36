//! A plain filesystem first: what programs do with files works, and what is refused is refused
//! with the error that says so.

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
