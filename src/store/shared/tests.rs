use super::*;

mod eviction;
mod recognition;
