//! ctxfs turns the output of tools into a filesystem.
//!
//! A tool call can return 400 KB of log or a 2 MB JSON line. Pasted into a conversation it drowns
//! the model, cut off it loses the answer. ctxfs keeps every byte as a plain file and shows, beside
//! each file, small computed files ("views") through which the part that matters can be found.
//!
//! The modules are layers, lowest first; `tests/layering.rs` holds the table that they keep to.
//!
//! | module | what it is |
//! |---|---|
//! | [`model`] | the words: names, references, records, what a view may ask of an artifact |
//! | [`materialize`] | one pass over the bytes of an output, and what it finds |
//! | [`redact`] | secrets: what they look like, and what is shown in their place |
//! | [`view`] | the computed files: bytes in, text out |
//! | [`store`] | the disk: layout, manifest, artifacts, recovery |
//! | [`keep`] | which outputs go when there are too many |
//! | [`message`] | the log of a conversation's messages: checked, appended, read |
//! | [`engine`] | what every door does alike: take in, show, search, list, count, remove |
//! | [`fs`] | what only a kernel needs: inodes, handles, directories, sealing |
//! | [`fuse`] | the adaptor to the kernel, and mounting |
//! | [`cli`] | the program: arguments, environment, printing |

pub mod cli;
pub mod engine;
pub mod fs;
pub mod fuse;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod keep;
pub mod materialize;
pub mod message;
pub mod model;
pub mod redact;
pub mod store;
pub mod view;
