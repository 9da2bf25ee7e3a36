//! The computed files beside an artifact.
//!
//! Each view is a pure function of its [`Subject`](ctxfs_core::model::Subject): bytes in, text out.
//! [`readings`] returns the views that a name may refer to, and [`render`] writes the text of a
//! view.

mod catalog;
mod clean;
mod envelope;
mod errors;
mod filter;
mod find;
mod grep;
mod jq;
mod json_tree;
mod kind;
mod lines;
mod meta;
mod name;
mod number;
mod pages;
mod pretty;
mod query;
mod range;
mod reads;
mod record;
mod reference;
mod removed;
mod rendered;
mod scan;
mod shape;
mod short_stand_ins;
mod since;
mod stand_in;
mod summary;
mod terms;
mod title;
mod values;
mod view_copy;
mod wrap;

pub use catalog::{
    CorpusQuery, Derived, IgnoredIn, RenderCost, View, ViewDir, ignore, is_like_listed, listed,
    readme, render,
};
pub use clean::cleaned;
pub use errors::dropped_errors;
pub use filter::Filter;
pub use find::Words;
pub use grep::corpus::{ClosedCounts, Corpus, Directory, Loaded};
pub use jq::{FILTER_MEMORY, run_filter};
pub use json_tree::{
    JSON_WINDOW, JsonMember, JsonMembers, JsonNode, JsonStep, JsonType, json_members,
};
pub use name::{Reading, readings};
pub use number::age;
pub use pages::PageNumber;
pub use query::Query;
pub use range::LineRange;
pub use reads::{StandInReads, shortcuts};
pub use record::RecordNumber;
pub use reference::{context_ref, manifest, outcome, ref_to_closed, ref_to_unread};
pub use removed::{away, removed};
pub use rendered::{RenderError, Rendered, beginning_notice};
pub use since::{COMPARED_BYTES, EarlierName, change};
pub use stand_in::{Audience, Form, StandIn, is_stand_in, stand_in, stand_in_always};
pub use title::{Title, run_key};
pub use view_copy::ViewCopy;

#[cfg(any(test, feature = "testing"))]
#[path = "tests/fixture.rs"]
pub mod fixture;
#[cfg(test)]
mod tests;
