//! The settings: definitions, files, and the effective values.
//!
//! | module | content |
//! |---|---|
//! | `table` | all settings: name, kind, default, variable, flag |
//! | `value` | values: kinds, parsing, printing, origins |
//! | `rules` | rules for tool calls, and language models |
//! | `file` | a settings file, checked key by key |
//! | `resolve` | the effective settings, and the limits derived from them |
//! | `print` | printing, as a settings file or as JSON |

mod file;
mod print;
mod resolve;
mod rules;
mod table;
mod value;

#[cfg(any(test, feature = "testing"))]
pub use crate::settings::print::fuzz_settings;
pub(crate) use crate::settings::print::{json, template, toml};
pub(crate) use crate::settings::resolve::Settings;
pub(crate) use crate::settings::table::{ROWS, SettingKey};
pub(crate) use crate::settings::value::SettingValue;

#[cfg(test)]
mod tests;
