//! Settings, and `ctxfs config`, which prints them.
//!
//! | module | has |
//! |---|---|
//! | `table` | every setting: name, kind, default, variable, flag |
//! | `value` | what a value can be, read and written |
//! | `file` | a file of settings, checked key by key |
//! | `tools` | what differs from tool to tool |
//! | `settings` | what holds, and where it comes from |
//! | `limits` | the limits that follow |
//! | `print` | what holds, as a file of settings or as JSON |
//! | `document` | `docs/SETTINGS.md` |

mod file;
#[cfg(any(test, fuzzing))]
mod fuzz;
mod limits;
mod origin;
mod print;
mod resolve;
mod table;
mod tools;
mod value;

#[cfg(any(test, fuzzing))]
pub use fuzz::fuzz_settings;
pub(super) use print::json;
pub(super) use print::template;
pub(super) use print::toml;
pub(super) use resolve::Settings;
pub(super) use table::Key;
pub(super) use table::ROWS;
pub(super) use value::Value;

#[cfg(test)]
mod document;
