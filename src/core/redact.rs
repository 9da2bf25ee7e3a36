//! Masking of secrets.
//!
//! A secret is replaced by a mask of the same length, such as `[redacted:jwt]*****`. Offsets,
//! sizes, lines and columns therefore do not change, and views work on masked content in the same
//! way as on any other content.
//!
//! | module | contents |
//! |---|---|
//! | `sets` | the patterns for keys and tokens in published formats |
//! | `known` | the compiled patterns of the sets, tried only at their beginnings |
//! | `rules` | the compiled rules, and the secrets that they find |
//! | `rendition` | the forms in which readers may see a text: unescaped or decoded |
//! | `search` | the search for secrets in all renditions |
//! | `mask` | the text of a mask, and counts of masks |
//! | `masked` | masking in blocks, for content and for a writer |

mod known;
mod mask;
mod masked;
mod rendition;
mod rules;
#[cfg(any(test, feature = "testing"))]
#[path = "redact/tests/samples.rs"]
pub mod samples;
mod search;
mod sets;

pub use crate::redact::mask::{MaskCounter, MaskCounts};
pub use crate::redact::masked::{BLOCK, Masked, MaskingWriter, masks, read_to_mask, settled};
pub use crate::redact::rules::{Rule, RuleError, SecretRules};
pub use crate::redact::sets::{PatternSet, SETS};
