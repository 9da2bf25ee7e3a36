//! The content blocks of an MCP result: texts, images and others.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::hooks::event_text::Text;
use ctxfs_core::model::ShortList;

/// The most blocks of a result, which has one for each text or image.
pub(super) const MOST_BLOCKS: usize = 10_000;

/// The blocks of a result, in order.
pub(super) struct ContentBlocks<'a>(Vec<ContentBlock<'a>>);

struct ContentBlock<'a> {
    raw: &'a RawValue,
    /// The text, if it is a block of text.
    text: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct BlockFields<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<Text<'a>>,
    #[serde(borrow)]
    text: Option<Text<'a>>,
}

impl<'a> ContentBlocks<'a> {
    /// Reads the blocks of a list.
    pub(super) fn of(list: &'a RawValue) -> Result<Self, serde_json::Error> {
        let ShortList::<_, MOST_BLOCKS>(raws) = serde_json::from_str(list.get())?;
        let blocks: Result<_, _> = raws.into_iter().map(ContentBlock::of).collect();
        blocks.map(Self)
    }

    /// Returns the texts, each on a line of its own.
    pub(super) fn text(&self) -> Cow<'_, str> {
        let mut texts = self.0.iter().filter_map(|block| block.text.as_deref());
        match (texts.next(), texts.next()) {
            (None, _) => Cow::Borrowed(""),
            (Some(only), None) => Cow::Borrowed(only),
            (Some(first), Some(second)) => {
                let all: Vec<&str> = [first, second].into_iter().chain(texts).collect();
                Cow::Owned(all.join("\n"))
            }
        }
    }

    /// Returns true if there is nothing but text.
    pub(super) fn are_text(&self) -> bool {
        self.0.iter().all(|block| block.text.is_some())
    }

    /// Returns the list with `text` in the place of all texts, and everything else after it.
    pub(super) fn with_text(&self, text: &str) -> Result<Value, serde_json::Error> {
        let others = self.0.iter().filter(|block| block.text.is_none());
        let others = others.map(|block| serde_json::from_str(block.raw.get()));
        std::iter::once(Ok(json!({ "type": "text", "text": text }))).chain(others).collect()
    }
}

impl<'a> ContentBlock<'a> {
    fn of(raw: &'a RawValue) -> Result<Self, serde_json::Error> {
        let fields: BlockFields<'a> = serde_json::from_str(raw.get())?;
        let is_text = fields.kind.is_some_and(|kind| kind.0 == "text");
        Ok(Self { raw, text: fields.text.filter(|_| is_text).map(|text| text.0) })
    }
}
