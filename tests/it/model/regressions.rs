//! Runs that went wrong once, shrunk, on the core and on both kinds of mount.
