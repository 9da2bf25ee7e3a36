//! The disk.
