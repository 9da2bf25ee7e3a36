//! The filesystem without a kernel.

mod fixture;
mod life;
mod names;
mod races;
mod views;
