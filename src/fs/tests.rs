//! The filesystem without a kernel.

mod facts;
mod fixture;
mod life;
mod names;
mod races;
mod views;
