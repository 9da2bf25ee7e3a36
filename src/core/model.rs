//! Data types that all crates share. This module accesses neither the disk nor the clock.

mod analysis;
mod content;
mod counts;
mod hosts;
mod limits;
mod name;
mod place;
mod reading;
mod record;
mod since;
pub mod text;
pub mod visible;

pub use crate::model::analysis::{
    Analysis, Encoding, ErrorLine, ErrorRank, Errors, Json, LinePosition, LooseJson, Repeated,
    Section, Sections, Shortcuts, TriedView, Trouble, TroubleRecord, Unlike,
};
pub use crate::model::content::{
    Content, Earlier, Feed, FilterOutcome, Filters, LinesBefore, NoFilters, REDACTION_BYTES,
    RedactingWriter, Redactor, Subject, place_before_line, read_pieces, view_bytes,
};
pub use crate::model::counts::{
    Amount, CallCounts, Counts, DailyCounts, IndexCounts, MOST_TOOLS, OTHER_TOOLS, QuestionCounts,
    Sums, counted_tool,
};
pub use crate::model::hosts::{
    EvictionResult, Evictor, FarFile, FarStore, HostsReport, OtherHosts, RequestReport,
};
pub use crate::model::limits::{Direction, Limits, LimitsByTool, ShortList};
pub use crate::model::name::{
    Component, Folder, LEAST_DIGITS, MAX_DEPTH, NAME_MAX, NameError, RelPath, is_scratch,
    with_digits, without_digits,
};
pub use crate::model::place::{ContextRef, Place, Root, handle, readings, shell_word};
pub use crate::model::reading::{Charset, LineEnd, Reading};
pub use crate::model::record::{
    ArtifactState, Far, LocalFile, Owner, Provenance, Record, Removal, Stage, ViewSizes,
};
pub use crate::model::since::{Change, Since};
