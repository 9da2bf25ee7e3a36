//! The filesystem without a kernel.

mod doors;
mod facts;
mod fixture;
#[cfg(feature = "shuttle")]
mod interleaved;
mod life;
mod names;
mod of_views;
mod others;
mod races;
mod redaction;
mod search;
mod views;
