//! The change of an output since the last run of its command.

use serde::{Deserialize, Serialize};

/// The comparison of an output with the output of the last run of the same command, as the record of
/// the later output states it. Describes the bytes of one generation.
///
/// `run` is the number of the earlier run among the runs of the command in the conversation. The
/// first is run 1. `path` is its output. `ago` is the time from the beginning of that run to the beginning of
/// this one, in milliseconds. `generation` is the generation of the later output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the contract of the type describes its fields")]
pub struct Since {
    pub run: u64,
    pub path: String,
    pub ago: u64,
    pub generation: u64,
    pub change: Change,
}

/// The difference between two outputs.
///
/// - `Same`: both have the same bytes.
/// - `Alike`: they differ only in times, durations, addresses, names of temporary files, and the like.
/// - `Errors`: the errors of the earlier run alone, of the later one alone, and of both. `fixed` is true if the
///   later run got as far as the earlier one, so that errors that are gone were fixed.
/// - `Lines`: neither has errors. The numbers of lines that were removed and added.
/// - `Other`: they differ, and it was not counted how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the contract of the type describes its variants")]
pub enum Change {
    Same,
    Alike,
    Errors { gone: u64, new: u64, same: u64, fixed: bool },
    Lines { removed: u64, added: u64 },
    Other,
}
