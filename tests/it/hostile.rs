//! Inputs that have broken other programs of this kind, and the right answer to each.

mod crash;
mod input;
mod names;
mod quota;
mod together;
