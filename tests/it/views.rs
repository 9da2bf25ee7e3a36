//! Views on a real mount: found cheaply, exact in size, unchanged while open, and never written.

mod found;
mod generations;
mod guard;
mod jq;
mod of_views;
mod pages;
mod readings;
mod scratch;
mod search;
mod true_to;
