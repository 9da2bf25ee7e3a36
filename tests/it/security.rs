//! What the server cannot do, whoever gets hold of it, and who may do what with a mount.

mod bounds;
mod confined;
mod mounted;
mod planted;
mod secrets;
mod user;
