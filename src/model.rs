//! The vocabulary that every layer shares: plain values, no disk and no clock.

mod analysis;
mod by_tool;
mod content;
mod handle;
mod limits;
mod name;
mod place;
mod record;
mod reference;
mod text;

pub use analysis::Analysis;
pub use analysis::Encoding;
pub use analysis::ErrorLine;
pub use analysis::Errors;
pub use analysis::Json;
pub use analysis::Repeated;
pub use analysis::Section;
pub use analysis::Sections;
pub use by_tool::LimitsByTool;
pub use content::Content;
pub use content::Subject;
pub use handle::handle;
pub use handle::readings;
pub use limits::Direction;
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
