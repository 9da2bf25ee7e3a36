//! The filesystem without a kernel.

mod facts;
mod fixture;
mod life;
mod names;
mod others;
mod races;
mod redaction;
mod views;
