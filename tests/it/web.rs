//! The page for people, asked over HTTP.

mod access;
mod confined;
mod connections;
mod export;
mod hostile;
mod hosts;
mod links;
mod live;
mod only;
mod pages;
mod scale;
mod searching;
mod served;

use served::{Answer, Served};
