//! The vocabulary that every layer shares: plain values, no disk and no clock.

mod analysis;
mod content;
mod filters;
mod limits;
mod name;
mod place;
mod record;
mod reference;

pub use analysis::Analysis;
pub use analysis::Encoding;
pub use analysis::ErrorLine;
pub use analysis::Errors;
pub use analysis::Json;
pub use content::Content;
pub use content::Subject;
pub use filters::Ended;
pub use filters::Feed;
pub use filters::Filters;
pub use limits::Limits;
pub use name::Component;
pub use name::Folder;
pub use name::NameError;
pub use name::RelPath;
pub use name::is_scratch;
pub use place::Place;
pub use record::Owner;
pub use record::Record;
pub use record::Said;
pub use record::State;
pub use reference::ContextRef;
