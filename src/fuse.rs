//! The adaptor to the kernel.
