//! The limits of a server in the hands of an attacker, and the permissions of users of a mount.

mod bounds;
mod confined;
mod depth;
mod descriptors;
mod memory;
mod mounted;
mod planted;
mod secrets;
mod user;
