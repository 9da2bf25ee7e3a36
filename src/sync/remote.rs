//! More than one machine: what this host sends to a bucket, and what it gets from there.
//!
//! The rules are in `replica`, the formats and requests in `bucket`. Here they meet the store: what
//! was done on this disk is found out by comparing it with what host and bucket last agreed upon,
//! and published; what others did is got, and done here too. Whatever is cut off, the next time
//! goes on where this one ended.
//!
//! | module | content |
//! |---|---|
//! | `objects` | the requests that this layer makes, as a trait; `Bucket` has it |
//! | `process` | the same, made by another process |
//! | `home` | what this host keeps about a bucket: its writer, the lock, the conversations |
//! | `notes` | what it keeps about one conversation: agreement, intent, segments |
//! | `pieces` | the kept segments as the rules of `replica` take them |
//! | `files` | the files of a conversation as they are |
//! | `source` | the same, opened to be sent |
//! | `own_log` | the message log of this host, and how far it was published |
//! | `apply` | changes of these files that others made |
//! | `sync` | one conversation: what was done here goes out, what others did comes in |
//! | `here` | what is on this host, beside what was agreed upon |
//! | `status` | what is still to be sent |
//! | `check` | what records name, and what the bucket has |
//! | `tidy` | merges, and the end of what is of no use |
//! | `purge` | bytes that leave the bucket now |
//! | `resend` | what the bucket has lost |
//! | `blocks` | blocks of objects that were fetched, and contents that fetch what is read |
//! | `far` | the bytes of artifacts that are elsewhere, for those who read them |
//! | `evict` | the end of local copies of what the bucket has |
//! | `fetch` | the bytes of artifacts that are elsewhere |
//! | `look` | what is new in the bucket, and what is gone |
//! | `looker` | who looks: this process, or another one |
//! | `push` | publishing what was done here |
//! | `messages` | the messages of all hosts in their order, made for readers |
//! | `published` | the same, as readers find them |
//! | `tier` | the sharing that goes on by itself while a server runs |
//! | `merge` | one segment in place of many, and the end of those that it covers |
//! | `collect` | the end of objects that nobody names |
//! | `ended` | conversations of which nothing lives |
//! | `mark` | files of this disk as `replica` names them |
//! | `moment` | moments, by two clocks of this host |
//! | `whole_file` | small files, read and written as a whole |
//! | `error` | the errors |

mod apply;
mod blocks;
mod check;
mod collect;
mod ended;
mod error;
mod evict;
mod far;
mod fetch;
mod files;
mod here;
mod home;
mod limits;
mod look;
mod looker;
mod mark;
mod merge;
mod messages;
mod moment;
mod notes;
mod objects;
mod own_log;
mod pieces;
mod process;
mod published;
mod purge;
mod push;
mod resend;
mod said;
mod source;
mod status;
mod sync;
#[cfg(test)]
mod tests;
mod tidy;
mod tier;
mod whole_file;

pub use apply::{Applied, Fetch, Known, Left, Parcel, apply};
pub use check::{Check, Checked, Flaw};
pub use collect::{Collected, collect, store_now};
pub use error::RemoteError;
pub use far::{FarArtifacts, PATIENCE};
pub use fetch::Fetcher;
pub use files::{Files, files};
pub use home::{Home, KnownBucket, PushLock, known_bucket, known_buckets};
pub use limits::Limits;
pub use look::{Looked, look};
pub use looker::{Heard, Looker};
pub use merge::Swept;
pub use moment::Moment;
pub use notes::{Agreement, Intent, MessagesAt, Notes, Purging, StoredSegment};
pub use objects::Objects;
pub use pieces::{Piece, Pieces, Stored, Told, pieces};
pub use process::{
    Line, ProcessLooks, ProcessObjects, answer_look, answer_read_request, answer_request,
};
pub use published::PublishedMessages;
pub use purge::Purged;
pub use push::{LeftOut, NoSource, Opened, OwnLine, Push, Pushed, Session, Source};
pub use resend::Resent;
pub use source::LocalSource;
pub use status::{Standing, standing};
pub use sync::{Came, Sent, Sync};
pub use tidy::{Tidied, Tidying};
pub use tier::{Tier, TierOptions};
