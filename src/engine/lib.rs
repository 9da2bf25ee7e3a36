//! The operations of ctxfs, each implemented once for every door: take in, show, search, list,
//! count and remove.
//!
//! A door is an interface to clients: the mount, the command line, the gateway or the web page.
//! Doors have names, handles and sockets; the engine has none of these. Caches, workers, deadlines,
//! redaction, quotas, retention and counts are in the engine, so that the same request gets the
//! same bytes or the same error through every door.
//!
//! The mount calls the methods of three types: [`Engine`], the state of the process; [`Source`], a
//! file that views are computed from; and [`Computed`], the text of a view. `tests/house.rs` counts
//! them. The mount passes its files as [`DoorFile`], its directories as [`SourceDir`], and its part
//! in sealing as [`SealedFile`]. Both sides also use plain data types, and the modules for threads
//! and shares: [`sync`], [`workers`], [`patience`] and [`Shares`]. The mount accesses no field of
//! the engine.

#![expect(missing_docs, reason = "names that say it all have no doc")]

mod analysis;
mod answers;
mod compute;
mod computed;
mod counting;
mod deadline;
mod engine;
mod error;
mod filters;
mod intake;
mod lines;
mod listing;
mod look;
mod manifest;
mod messages;
mod open_file;
mod options;
pub mod others;
pub mod patience;
pub mod quota;
mod redaction;
mod resolve;
mod retention;
mod seal;
mod search;
mod shares;
mod show;
mod since;
mod snapshot;
mod source;
mod space;
mod stand_in;
mod status;
mod stored;
pub mod sync;
mod text;
mod tracker;
mod tree;
mod watches;
pub mod workers;

pub use answers::many::Answers;
pub use answers::{Answer, Question};
pub use computed::{Base, Computed, OpenText, Reader, Recipe, User};
pub use counting::{Counters, DoorStatus};
pub use engine::Engine;
pub use error::{EngineError, Result, io_error_number, reason_of_loss};
pub use intake::{
    Intake, Loss, NewOutput, OutputName, Tail, cut_line_of, left_out, whole_lines_before,
};
pub use lines::{LineCount, LineRow, LineWindow};
pub use listing::{
    ConversationCounts, ListedArtifact, ListedConversation, Listing, about_of, add_about,
};
pub use look::{Look, LookFacts, LookText, search_conversation};
pub use messages::{LoggedMessage, MessagePage, MessageRange, MessageWriter, UnfinishedMessage};
pub use open_file::{FileId, RemoteFile};
pub use options::{Confinement, DescriptorBudget, EngineOptions};
pub use others::Others;
pub use quota::Reservation;
pub use redaction::{MaskedForm, Redaction};
pub use resolve::{DiskEntry, MeetName, RemovedContent, Resolved, SpecialName};
pub use seal::{RecordChange, SealStep, SealedFile};
pub use shares::{Client, Share, Shares};
pub use snapshot::{SharedLog, Source};
pub use source::{
    ByteHistory, DirPlace, DoorFile, FileLife, FilePlace, SourceDir, SourceState, Version,
};
pub use space::{Freed, Growth, PlannedWrite};
pub use stand_in::{
    OutputParts, Replace, ShownOutput, StandInRequest, StoredOutput, is_stand_in, pays,
};
pub use text::{Spool, ViewText};
pub use tracker::RewriteCount;
pub use tree::{OpenedFile, Tree};

pub(crate) use analysis::Analysed;
pub(crate) use computed::{BaseText, Callback, VERSION};
pub(crate) use counting::{Counting, proportion};
pub(crate) use deadline::{LateSlot, ReadLimit, Timed, extended_deadline};
pub(crate) use filters::FilterProcesses;
pub(crate) use lines::LineIndex;
pub(crate) use open_file::OpenFile;
pub(crate) use open_file::{FileContent, FileRef, Identity};
pub(crate) use others::{others_at, others_of};
pub(crate) use patience::{allow_slow, may_wait, to_the_end};
pub(crate) use quota::{Quotas, RoomRequest};
pub(crate) use redaction::{EarlierFile, FileFacts, Secrets, ShownFile};
pub(crate) use retention::Retention;
pub(crate) use show::view_sizes;
pub(crate) use since::EarlierOutput;
pub(crate) use snapshot::{Snapshot, basis_of_sizes};
pub(crate) use source::{LiveFiles, facts_number, is_message_log, keyed_hash};
pub(crate) use space::{
    Space, enough_on_disk, fitting_below_cap, fitting_on_disk, over_quota, reserve_file,
    reserve_line, reserve_part,
};
pub(crate) use stored::{StoredDir, StoredFile};
pub(crate) use text::{TextCache, recent_cache, text_cache};
pub(crate) use tracker::{
    Analyses, AnalysisGoal, AnalysisSoFar, ByteState, KeptAnalyses, STEP, Tracker, sniff,
};
pub(crate) use tree::stored_source;
pub(crate) use watches::Watches;
pub(crate) use workers::{BackgroundThread, QUICK_INPUT, WorkerPool};
