//! The manifest on a real disk.
