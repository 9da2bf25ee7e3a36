//! The operations of ctxfs, each implemented once for every door: take in, show, search, list,
//! count and remove.
//!
//! A door is an interface to clients: the mount, the command line, the gateway or the web page.
//! Doors have names, handles and sockets; the engine has none of these. A door passes the engine a
//! [`SourceFile`] or a [`SourceDir`], and the engine takes snapshots of it. Caches, workers,
//! deadlines, redaction, quotas, retention and counts are in the engine, so that the same request
//! gets the same bytes or the same error through every door.

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
pub mod messages;
mod open_file;
mod options;
pub mod others;
mod overflow;
pub mod patience;
pub mod quota;
mod redaction;
pub mod resolve;
mod retention;
mod search;
mod shares;
mod show;
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
pub use counting::Counters;
pub use engine::Engine;
pub use error::{EngineError, Result, io_error_number, reason_of_loss};
pub use intake::{Intake, NewOutput, OutputName};
pub use lines::{LineCount, LineRow, LineWindow};
pub use listing::{ConversationCounts, ListedArtifact, ListedConversation, Listing};
pub use look::{Look, LookFacts, LookText, search_conversation};
pub use messages::{
    LoggedMessage, MessagePage, MessageRange, MessageWriter, UnfinishedMessage, messages_version,
};
pub use open_file::{FileId, RemoteFile};
pub use options::{Confinement, DescriptorBudget, EngineOptions};
pub use others::Others;
pub use overflow::{Loss, Tail, cut_line_of, left_out, whole_lines_before};
pub use quota::Reservation;
pub use redaction::{MaskedForm, Redaction};
pub use resolve::{DiskEntry, RemovedContent, Resolved, SpecialName};
pub use shares::{Client, Share, Shares};
pub use snapshot::{SharedLog, Source};
pub use source::{
    ByteHistory, DirPlace, DoorFile, FileLife, FilePlace, SourceDir, SourceState, Version,
    present_record,
};
pub use space::PlannedWrite;
pub use stand_in::{
    OutputParts, Replace, ShownOutput, StandInRequest, StoredOutput, is_stand_in, pays,
};
pub use text::{Spool, ViewText};
pub use tracker::RewriteCount;
pub use tree::{OpenedFile, Tree};

pub(crate) use open_file::OpenFile;
