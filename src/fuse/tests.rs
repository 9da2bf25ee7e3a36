//! Tests of the filesystem without a kernel.

mod analyses;
mod dirs;
mod doors;
mod facts;
mod far;
mod fixture;
#[cfg(feature = "shuttle")]
mod interleaved;
mod life;
mod local_copy;
mod names;
mod of_views;
mod others;
mod quota;
mod races;
mod redaction;
mod same_name;
mod sealing;
mod search;
mod shared_log;
mod views;
