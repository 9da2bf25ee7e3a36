//! The limits that follow from the settings, for each tool.

use std::path::PathBuf;

use crate::settings::resolve::Settings;
use crate::settings::row::Key;
use crate::settings::value::Value;
use ctxfs_core::model::{Direction, Limits, LimitsByTool};

/// The word that lets outputs through unchanged, and stores them too.
const MIRROR: Value = Value::Word("mirror");

/// The limits of each stand-in. If one of them is `mirror`, none of them triggers.
const FORMS: [&[Key]; 4] = [
    &[Key::MaxInlineChars, Key::MaxInlineBytes],
    &[Key::MaxLines, Key::MaxBytes],
    &[Key::MessageThreshold],
    &[Key::ToolResponseMaxBytes, Key::TokenBudget],
];

impl LimitsByTool for Settings {
    fn limits(&self, tool: Option<&str>) -> Limits {
        let value = |key| self.setting_for(tool, key).map(|setting| &setting.value);
        let is_mirror = |key: &Key| value(*key) == Some(&MIRROR);
        let mirrored = |key| FORMS.iter().any(|f| f.contains(&key) && f.iter().any(is_mirror));
        let number = |key| match value(key) {
            Some(Value::Number(number)) if !mirrored(key) => Some(*number),
            _ => None,
        };
        let limit = |key| number(key).unwrap_or(Limits::NEVER);
        let size = |key| usize::try_from(limit(key)).unwrap_or(usize::MAX);
        let text = |key| match value(key) {
            Some(Value::Text(text)) => text.as_str(),
            _ => "",
        };
        Limits {
            max_inline_chars: limit(Key::MaxInlineChars),
            max_inline_bytes: limit(Key::MaxInlineBytes),
            snippet_lines: size(Key::SnippetLines),
            snippet_bytes: size(Key::SnippetBytes),
            max_lines: limit(Key::MaxLines),
            max_bytes: limit(Key::MaxBytes),
            direction: direction(text(Key::Direction)),
            dir: PathBuf::from(text(Key::Dir)),
            retention_days: u32::try_from(limit(Key::RetentionDays)).unwrap_or(u32::MAX),
            message_threshold: limit(Key::MessageThreshold),
            message_preview: size(Key::MessagePreview),
            tool_response_max_bytes: limit(Key::ToolResponseMaxBytes),
            token_budget: number(Key::TokenBudget),
            mirror: FORMS.concat().iter().any(is_mirror),
        }
    }
}

fn direction(word: &str) -> Direction {
    match word {
        "tail" => Direction::Tail,
        "head_tail" => Direction::HeadTail,
        _ => Direction::Head,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_those_of_the_model() {
        assert_eq!(Settings::defaults().limits(None), Limits::default());
        assert_eq!(Settings::defaults().limits(Some("shell/exec")), Limits::default());
    }
}
