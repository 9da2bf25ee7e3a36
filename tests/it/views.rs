//! Views on a real mount: found cheaply, exact in size, fixed for those who hold them, and
//! nothing that can be written.

mod found;
mod generations;
mod guard;
mod jq;
mod of_views;
mod pages;
mod scratch;
mod search;
mod true_to;
