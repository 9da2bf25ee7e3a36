//! `ctxfs put`: what is kept, and what is printed in its place.

mod handle;
mod layout;
mod limits;
mod stand_in;
