//! Inputs that have broken other programs of this kind, and what is right for each.

mod crash;
mod input;
mod names;
mod together;
