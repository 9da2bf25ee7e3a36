//! Summaries that were made and may be read again. A walk over all outputs, as by `grep -r` or
//! `tar`, then reads them without making each again.

use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::{Source, Version, ViewText, keyed_hash};
use ctxfs_core::model::Content as _;
use ctxfs_view::View;

/// Maximum number of bytes of compressed summaries: about 10,000 of them.
const MOST: u64 = 16 << 20;
const ITEMS: usize = 10_000;
/// Memory in bytes of an entry beside its text.
const ENTRY: u64 = 128;
const LEVEL: i32 = 1;

/// A bounded number of summaries in memory, compressed. Each belongs to one version of its file,
/// and equal versions of a file give equal texts.
#[derive(Debug)]
pub(crate) struct Summaries(Cache<u64, Arc<KeptSummary>, ByLength>);

/// A summary, with the tool that made the output.
#[derive(Debug)]
pub(crate) struct KeptSummary {
    pub(crate) tool: Option<String>,
    packed: Vec<u8>,
    length: usize,
}

#[derive(Debug, Clone)]
struct ByLength;

impl Weighter<u64, Arc<KeptSummary>> for ByLength {
    fn weight(&self, _: &u64, kept: &Arc<KeptSummary>) -> u64 {
        kept.packed.len() as u64 + ENTRY
    }
}

impl Summaries {
    pub(crate) fn new() -> Self {
        Self(Cache::with_weighter(ITEMS, MOST, ByLength))
    }

    /// Returns the key of `view` of a file at `version`, or `None` if the text is not kept: if it is
    /// no summary, or if the file may change without a change of its version.
    pub(crate) fn key(source: &Source, view: &View, version: &Version) -> Option<u64> {
        let Source::File(file) = source else { return None };
        let is_kept = *view == View::Summary && version.bytes == 0 && version.changed != 0;
        is_kept.then(|| Some(keyed_hash((file.place()?, version)))).flatten()
    }

    pub(crate) fn get(&self, key: u64) -> Option<(String, Arc<KeptSummary>)> {
        let kept = self.0.get(&key)?;
        let text = zstd::bulk::decompress(&kept.packed, kept.length).ok()?;
        Some((String::from_utf8(text).ok()?, kept))
    }

    /// Keeps a complete summary. A text that cannot be kept is made again.
    pub(crate) fn keep(&self, key: u64, text: &ViewText, tool: Option<String>) {
        let length = text.len() as usize;
        let packed = text.read(0, length, |text| zstd::bulk::compress(text, LEVEL));
        if text.is_whole()
            && !text.has_notice()
            && let Ok(Ok(packed)) = packed
        {
            self.0.insert(key, Arc::new(KeptSummary { tool, packed, length }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Engine, EngineOptions};
    use ctxfs_store::Store;

    #[test]
    fn texts_come_back_and_memory_is_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let engine = Engine::new(Store::open(dir.path()).unwrap(), EngineOptions::default());
        let text = |number: u64| -> String {
            (0..200).map(|line| format!("{:x}\n", keyed_hash((number, line)))).collect()
        };
        let summaries = Summaries::new();
        for number in 0..10_000 {
            let held = engine.held_text(&text(number), None).unwrap();
            summaries.keep(number, &held, Some("exec".to_owned()));
        }
        assert!(summaries.0.weight() <= MOST && summaries.0.len() > 1000);
        let (last, kept) = (0..10_000).rev().find_map(|number| summaries.get(number)).unwrap();
        assert!(last.lines().count() == 200 && kept.tool.as_deref() == Some("exec"));
        let cut = engine.held_text("cut\n", None).unwrap().with_whole(false);
        summaries.keep(1 << 40, &cut, None);
        assert!(summaries.get(1 << 40).is_none());
    }
}
