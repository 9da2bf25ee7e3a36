//! The limits that follow from the settings, tool by tool.

use std::path::PathBuf;

use crate::cli::config::Key;
use crate::cli::config::Settings;
use crate::cli::config::table::Group;
use crate::cli::config::table::ROWS;
use crate::cli::config::value::Value;
use crate::model::Direction;
use crate::model::Limits;
use crate::model::LimitsByTool;

/// What lets an output through, and has it stored all the same.
const MIRROR: Value = Value::Word("mirror");

impl LimitsByTool for Settings {
    fn limits(&self, tool: Option<&str>) -> Limits {
        let value = |key| self.held_for(tool, key).map(|held| &held.value);
        let number = |key| match value(key) {
            Some(Value::Number(number)) => Some(*number),
            _ => None,
        };
        let limit = |key| number(key).unwrap_or(Limits::NEVER);
        let size = |key| usize::try_from(limit(key)).unwrap_or(usize::MAX);
        let text = |key| match value(key) {
            Some(Value::Text(text)) => text.as_str(),
            _ => "",
        };
        let limits = ROWS.iter().filter(|row| row.group == Group::Limits);
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
            mirror: limits.into_iter().any(|row| value(row.key) == Some(&MIRROR)),
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
