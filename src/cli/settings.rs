//! The settings: definitions, files, and the values in effect.
//!
//! | module | content |
//! |---|---|
//! | `table` | all settings: name, kind, default, variable, flag |
//! | `value` | values: kinds, parsing, printing |
//! | `origin` | the origin of a value |
//! | `file` | a settings file, checked key by key |
//! | `tools` | settings for some tools |
//! | `calls` | what tools of MCP servers may do |
//! | `models` | the language models that answer questions |
//! | `resolve` | the settings in effect |
//! | `extraction` | how questions are answered, as follows from them |
//! | `limits` | the limits that follow from them |
//! | `print` | printing, as a settings file or as JSON |
//! | `document` | `docs/SETTINGS.md` |

mod calls;
mod extraction;
mod file;
#[cfg(any(test, feature = "testing"))]
mod fuzz;
mod limits;
mod models;
mod origin;
mod print;
mod resolve;
mod row;
mod table;
mod tools;
mod value;

#[cfg(any(test, feature = "testing"))]
pub use fuzz::fuzz_settings;
pub(super) use print::{json, template, toml};
pub(super) use resolve::Settings;
pub(super) use row::Key;
pub(super) use table::ROWS;
pub(super) use value::Value;

#[cfg(test)]
mod document;
