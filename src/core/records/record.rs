//! A record: a part of some content.

/// Maximum number of bytes of a record that are held in memory. Longer records are cut.
pub const RECORD_BYTES: usize = 64 << 10;

/// A record of some content.
///
/// - `number`: its number from 1, in the order in which the records end
/// - `line`: the line in which it begins, from 1
/// - `start`, `end`: its offsets, without the newline at its end
/// - `text`: its bytes, at most [`RECORD_BYTES`]. A longer element or item has none.
/// - `depth`: the number of records around it. Only elements can be inside each other.
/// - `inner`: the offsets of the records directly inside it
/// - `header`: the offsets of the header row of its table, for a row of an HTML table
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "described above")]
pub struct Record<'t> {
    pub number: u64,
    pub line: u64,
    pub start: u64,
    pub end: u64,
    pub text: &'t [u8],
    pub depth: usize,
    pub inner: &'t [(u64, u64)],
    pub header: Option<(u64, u64)>,
}
