//! How questions about outputs are answered, from the settings.

use std::time::Duration;

use crate::outcome::Failure;
use crate::settings::resolve::Settings;
use crate::settings::row::Key;
use ctxfs_core::model::LimitsByTool as _;
use ctxfs_models::extract::ExtractSettings;

/// The most bytes that are shown without a model, whatever the limit of the `tool_output` tool.
const MOST_SHOWN: u64 = 51_200;

impl Settings {
    /// Returns how questions about outputs are answered. Fails for a target that is not defined.
    pub(crate) fn extraction(&self) -> Result<ExtractSettings, Failure> {
        let number = |key| self.number(key).unwrap_or_default();
        let size = |key| usize::try_from(number(key)).unwrap_or(usize::MAX);
        let shown = self.limits(None).tool_response_max_bytes.min(MOST_SHOWN);
        Ok(ExtractSettings {
            targets: self.models.resolved()?,
            max_chunks_full: number(Key::ExtractMaxChunksFull),
            long_line_bytes: number(Key::ExtractLongLineBytes),
            overlap_percent: number(Key::ExtractOverlapPercent),
            concurrency: size(Key::ExtractConcurrency),
            max_steps: u32::try_from(number(Key::ExtractMaxSteps)).unwrap_or(u32::MAX),
            max_tokens_per_question: number(Key::ExtractMaxTokens),
            inline_bytes: shown as usize,
            timeout: Duration::from_secs(number(Key::ExtractTimeout)),
            view: self.is_on(Key::ExtractView),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_the_layer() {
        assert_eq!(Settings::defaults().extraction().unwrap(), ExtractSettings::default());
    }
}
