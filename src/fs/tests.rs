//! The filesystem without a kernel.

mod fixture;
mod life;
mod names;
mod of_views;
mod races;
mod views;
