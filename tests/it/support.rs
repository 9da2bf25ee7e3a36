//! The support for tests: a store, a mount, programs with deadlines.

mod command;
mod faulty;
mod fuse;
mod mount;
mod patience;
mod random;
mod refusal;
mod sample;
mod store;
mod terminal;

pub(crate) use command::Command;
pub(crate) use command::Output;
pub(crate) use command::need;
pub(crate) use faulty::Call;
pub(crate) use faulty::Fault;
pub(crate) use faulty::FaultyDisk;
pub(crate) use fuse::is_mounted;
pub(crate) use fuse::processes_of;
pub(crate) use fuse::server_of;
pub(crate) use fuse::signal;
pub(crate) use mount::Mode;
pub(crate) use mount::TestMount;
pub(crate) use patience::comes_true;
pub(crate) use patience::eventually;
pub(crate) use patience::within;
pub(crate) use random::holds;
pub(crate) use refusal::errno;
pub(crate) use refusal::truncate_errno;
pub(crate) use sample::lines_of;
pub(crate) use sample::log;
pub(crate) use store::TestStore;
pub(crate) use store::listing;
pub(crate) use terminal::Terminal;
