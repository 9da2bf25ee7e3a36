//! Secrets: what they look like, and what is shown in their place.
//!
//! A secret is replaced by a mask of as many bytes, `[redacted:jwt]*****`, so that offsets, sizes,
//! lines and columns stay as they are, and every view works on masked content as on any other.
//!
//! | module | has |
//! |---|---|
//! | `sets` | the patterns of well-known keys and tokens |
//! | `rules` | patterns compiled, and where they match |
//! | `mask` | the text of a mask |
//! | `block` | masking a content piece by piece, each the same whoever asks for it |
//! | `masked` | a content whose reader sees masks |
//! | `masking_writer` | the same for bytes on their way to the disk |
//! | `mask_counts` | counting the masks in a text |

mod block;
mod mask;
mod mask_counts;
mod masked;
mod masking_writer;
mod rules;
mod sets;

pub use block::BLOCK;
pub use block::masks;
pub use block::settled;
pub use mask_counts::MaskCounter;
pub use mask_counts::MaskCounts;
pub use masked::Masked;
pub use masking_writer::MaskingWriter;
pub use rules::Rule;
pub use rules::RuleError;
pub use rules::SecretRules;
pub use sets::PatternSet;
pub use sets::SETS;
