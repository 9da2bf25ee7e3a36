//! ctxfs turns the output of tools into a filesystem.
//!
//! A tool call can return 400 KB of log or a 2 MB JSON line. Pasted into a conversation, it drowns
//! the model; cut off, it loses the answer. ctxfs keeps every byte as a plain file and shows small
//! computed files, called views, beside each file, through which a reader finds the part that
//! matters.
//!
//! The modules are layers, lowest first. `tests/layering.rs` checks which layers each may name.
//!
//! | module | content |
//! |---|---|
//! | [`model`] | the vocabulary: names, references, records, and what views read |
//! | [`materialize`] | one pass over the bytes of an output, and its findings |
//! | [`redact`] | secrets: patterns that find them, and masks that replace them |
//! | [`view`] | the computed files: bytes in, text out |
//! | [`store`] | the disk: layout, manifest, artifacts, recovery |
//! | [`keep`] | retention: which outputs to remove when there are too many |
//! | [`message`] | the message log of a conversation: validated, appended, read |
//! | [`replica`] | what hosts that share a bucket make of a conversation: rules without requests |
//! | `bucket` | the object store that hosts share: its formats, and requests |
//! | [`extract`] | a language model that reads an output: chunks, prompts, the reading agent |
//! | `remote` | what this host sends to a bucket, and what it gets from there |
//! | [`engine`] | what every door does alike: take in, show, search, answer, list, count, remove |
//! | [`fs`] | what only a kernel needs: inodes, handles, directories, sealing |
//! | [`fuse`] | the adaptor to the kernel; mounting |
//! | [`hook`] | the hooks of agent hosts: their JSON in, their JSON out |
//! | [`mcp`] | the MCP gateway: between a client and its servers |
//! | [`web`] | the page for people: conversations and outputs in a browser |
//! | `http_client` | what all clients over HTTP share |
//! | `http_server` | what all servers over HTTP share |
//! | [`llm`] | language models behind HTTP endpoints |
//! | [`cli`] | the program: arguments, environment, printing |

#[cfg(feature = "remote")]
pub mod bucket;
pub mod cli;
pub mod engine;
pub mod extract;
pub mod fs;
pub mod fuse;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod hook;
mod http_client;
mod http_server;
pub mod keep;
pub mod llm;
pub mod materialize;
pub mod mcp;
pub mod message;
pub mod model;
pub mod redact;
#[cfg(feature = "remote")]
pub mod remote;
pub mod replica;
pub mod store;
pub mod view;
pub mod web;
