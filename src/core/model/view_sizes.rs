//! The sizes of the views that directories list.

use serde::{Deserialize, Serialize};

/// The sizes of the views that directories list beside an artifact, so that listing them computes
/// nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewSizes {
    /// A number of everything that the views depend on. For another number, these sizes are those
    /// of other views.
    pub basis: String,
    /// Bytes of `.summary`.
    pub summary: u64,
    /// Bytes of `.tail`.
    pub tail: u64,
}
