//! The reference by which a model remembers an artifact.

use serde::{Deserialize, Serialize};

/// A reference to a file of a conversation, small enough to keep in it (`formats.md`, section 5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContextRef {
    /// `ctx://<conversation>/<path>`.
    pub id: String,
    /// `artifact`, `history` or `catalog`; in a manifest also `closed`, for what its reader may not
    /// read, and `unread`, for a place that could not be listed.
    pub kind: String,
    /// MIME type, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Bytes, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub byte_size: Option<u64>,
    /// Time of creation, in milliseconds since the epoch.
    pub created_at: i64,
    /// Tool, call, size and type in a few words.
    pub hint: String,
}
