//! `ctxfs put`: the stored output, and the stand-in that is printed.

mod handle;
mod layout;
mod stand_in;
