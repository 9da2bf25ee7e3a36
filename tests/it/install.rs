//! `ctxfs install`: the settings of hosts, in a home of the test's own.

mod doctor;
mod door;
mod files;
mod home;
mod hosts;
mod marketplace;
mod mcp;
mod refused;
mod rights;
mod store;

pub(crate) use home::Home;
