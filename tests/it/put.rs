//! `ctxfs put`: the stored output, and the stand-in that is printed.

mod handle;
mod layout;
mod limits;
mod meanwhile;
mod stand_in;
