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
pub mod identity;
mod intake;
mod lines;
mod listing;
mod look;
mod manifest;
pub mod messages;
pub mod names;
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
mod source;
mod space;
mod spool;
mod stand_in;
mod status;
mod stored;
pub mod sync;
mod text;
mod tracker;
mod tree;
mod verbs;
pub mod view_sizes;
mod watches;
pub mod workers;

pub use analysis::analyse;
pub use answers::many::Answers;
pub use answers::{Answer, Question};
pub use computed::{Base, Computed, OpenText, Recipe};
pub use counting::Counters;
pub use engine::Engine;
pub use error::{EngineError, Result, io_error_number, reason_of_loss};
pub use identity::{FileId, Identity};
pub use intake::{Intake, NewOutput, OutputName};
pub use lines::{LineCount, LineRow, LineWindow};
pub use listing::{ConversationCounts, ListedArtifact, ListedConversation, Listing};
pub use look::{Look, LookFacts, LookText, search_conversation};
pub use messages::{
    LoggedMessage, MessagePage, MessageRange, MessageWriter, UnfinishedMessage, messages_version,
};
pub use names::version_page;
pub use open_file::{FileRef, OpenFile, RemoteFile};
pub use options::{Confinement, EngineOptions};
pub use others::Others;
pub use overflow::{Loss, Tail, cut_line_of, left_out, whole_lines_before};
pub use quota::Reservation;
pub use redaction::{MaskedForm, Redaction};
pub use resolve::{DiskEntry, RemovedContent, Resolved};
pub use shares::{Client, Share, Shares};
pub use source::{
    DirPlace, FileChange, Reader, Snapshot, SourceDir, SourceFile, User, Version, facts_number,
    unsettled_number,
};
pub use spool::Spool;
pub use stand_in::{
    OutputParts, Replace, ShownOutput, StandInRequest, StoredOutput, is_stand_in, pays,
};
pub use stored::SharedLog;
pub use text::ViewText;
pub use tracker::{RewriteCount, STEP, Tracker};
pub use tree::{OpenedFile, Tree};
