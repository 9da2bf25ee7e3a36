//! The support for tests: a store, a mount, programs with deadlines.

mod client;
mod command;
mod crowd;
mod faulty;
mod fuse;
mod mount;
mod patience;
mod random;
mod refusal;
mod sample;
mod store;
mod terminal;

pub(crate) use client::Client;
pub(crate) use command::{Command, Output, need, while_none_starts};
pub(crate) use crowd::{CROWD, answered_crowd, crowd, is_open};
pub(crate) use faulty::{Call, Fault, FaultyDisk};
pub(crate) use fuse::{is_mounted, processes_of, server_of, signal};
pub(crate) use mount::{Mode, TestMount};
pub(crate) use patience::{comes_true, disk_clock_moves_on, eventually, within};
pub(crate) use random::{holds, is_trying};
pub(crate) use refusal::{errno, truncate_errno};
pub(crate) use sample::{lines_of, log};
pub(crate) use store::{TestStore, listing, sealed_paths};
pub(crate) use terminal::Terminal;
