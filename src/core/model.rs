//! The vocabulary that every layer shares: plain values, no disk and no clock.

mod analysis;
mod by_tool;
mod call_counts;
mod content;
mod counts;
mod digits;
mod far_store;
mod filters;
mod handle;
mod limits;
mod local_file;
mod name;
mod other_hosts;
mod place;
mod record;
mod redactor;
mod reference;
mod short_list;
mod shortcuts;
pub mod text;
mod view_sizes;
pub mod visible;

pub use analysis::{
    Analysis, Encoding, ErrorLine, ErrorRank, Errors, Json, LinePosition, Repeated, Section,
    Sections, Trouble, TroubleRecord, Unlike,
};
pub use by_tool::LimitsByTool;
pub use call_counts::{CallCounts, IndexCounts, QuestionCounts};
pub use content::{
    Content, LinesBefore, REDACTION_BYTES, Subject, place_before_line, read_pieces, view_bytes,
};
pub use counts::{Amount, Counts, DailyCounts, MOST_TOOLS, OTHER_TOOLS, Sums, counted_tool};
pub use digits::{LEAST_DIGITS, with_digits, without_digits};
pub use far_store::{FarFile, FarStore};
pub use filters::{Feed, FilterOutcome, Filters, NoFilters};
pub use handle::{handle, readings};
pub use limits::{Direction, Limits};
pub use local_file::LocalFile;
pub use name::{Component, Folder, MAX_DEPTH, NAME_MAX, NameError, RelPath, is_scratch};
pub use other_hosts::{HostsReport, LetGo, LettingGo, OtherHosts, RequestReport};
pub use place::{Place, Root};
pub use record::{ArtifactState, Far, Owner, Provenance, Record, Removal, Stage};
pub use redactor::{RedactingWriter, Redactor};
pub use reference::ContextRef;
pub use short_list::ShortList;
pub use shortcuts::{Shortcuts, TriedView};
pub use view_sizes::ViewSizes;
