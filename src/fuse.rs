//! The adaptor to the kernel.

pub mod mount;
