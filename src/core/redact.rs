//! Masking of secrets.
//!
//! A secret is replaced by a mask of the same length, `[redacted:jwt]*****`, so that offsets,
//! sizes, lines and columns stay as they are, and views work on masked content as on any other.
//!
//! | module | has |
//! |---|---|
//! | `sets` | the patterns of well-known keys and tokens |
//! | `known` | the patterns of the sets, tried where one may begin |
//! | `rules` | the rules, compiled, and the secrets that they find |
//! | `rendition` | the forms in which readers see a text: without escape sequences, decoded |
//! | `search` | the search for secrets in all renditions |
//! | `mask` | the text of a mask, and counts of masks |
//! | `masked` | masking block by block: content, and a writer on the way to the disk |

mod known;
mod mask;
mod masked;
mod rendition;
mod rules;
#[cfg(any(test, feature = "testing"))]
pub mod samples;
mod search;
mod sets;

pub use crate::redact::mask::{MaskCounter, MaskCounts};
pub use crate::redact::masked::{BLOCK, Masked, MaskingWriter, masks, read_to_mask, settled};
pub use crate::redact::rules::{Rule, RuleError, SecretRules};
pub use crate::redact::sets::{PatternSet, SETS};
