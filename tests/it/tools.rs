//! The tools that people and agents read files with, on a real mount and on a plain copy.

mod copies;
mod copy;
mod follow;
mod languages;
mod matrix;
mod read;
mod screen;
mod search;
mod tree;
