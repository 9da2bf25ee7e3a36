//! The prompts: files with places for values.

use crate::extract::DocumentFacts;
use ctxfs_core::model::visible;

/// The version of all prompts together. Answers to other prompts are other answers.
pub const PROMPT_VERSION: u32 = 2;

/// The most bytes of the arguments of a call in a prompt.
const ARGUMENTS: usize = 2000;

/// A prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Prompt {
    /// The contract of reading a chunk.
    MapSystem,
    /// A chunk, and the task.
    Map,
    /// The contract of putting findings together.
    ReduceSystem,
    /// Findings, and the task.
    Reduce,
    /// The request to keep to the form.
    Form,
    /// The contract of the agent with tools.
    AgentSystem,
    /// The first look, and the question.
    Agent,
    /// The last turn of the agent with tools.
    AgentLast,
    /// The contract of the agent without tools.
    ActionSystem,
    /// The question.
    ActionFirst,
    /// Lines, and the question.
    Action,
    /// Lines, and the last turn of the agent without tools.
    ActionLast,
}

impl Prompt {
    fn template(self) -> &'static str {
        match self {
            Self::MapSystem => include_str!("prompts/map-system.md"),
            Self::Map => include_str!("prompts/map.md"),
            Self::ReduceSystem => include_str!("prompts/reduce-system.md"),
            Self::Reduce => include_str!("prompts/reduce.md"),
            Self::Form => include_str!("prompts/form.md"),
            Self::AgentSystem => include_str!("prompts/agent-system.md"),
            Self::Agent => include_str!("prompts/agent.md"),
            Self::AgentLast => include_str!("prompts/agent-last.md"),
            Self::ActionSystem => include_str!("prompts/action-system.md"),
            Self::ActionFirst => include_str!("prompts/action-first.md"),
            Self::Action => include_str!("prompts/action.md"),
            Self::ActionLast => include_str!("prompts/action-last.md"),
        }
    }

    /// Returns the prompt with a value at each `{name}`. Values are not looked into.
    pub(super) fn with(self, values: &[(&str, &str)]) -> String {
        let mut text = String::new();
        let mut rest = self.template().trim_end();
        while let Some((before, after)) = rest.split_once('{') {
            text.push_str(before);
            let value = after.split_once('}').and_then(|(name, after)| {
                let (_, value) = values.iter().find(|(known, _)| *known == name)?;
                Some((value, after))
            });
            if let Some((value, after)) = value {
                text.push_str(value);
                rest = after;
            } else {
                text.push('{');
                rest = after;
            }
        }
        text + rest
    }
}

/// Returns the tool as a prompt names it: in one line, as servers choose the names.
pub(super) fn tool(facts: &DocumentFacts) -> String {
    let name = visible::one_line(&facts.tool);
    if name.is_empty() { "not known".to_owned() } else { name }
}

/// Returns the arguments as a prompt shows them: as they were sent, as far as there is room.
pub(super) fn arguments(facts: &DocumentFacts) -> String {
    let all = &facts.arguments;
    if all.is_empty() {
        return "not known".to_owned();
    }
    let kept = all.floor_char_boundary(ARGUMENTS);
    if kept == all.len() {
        return all.clone();
    }
    format!("{}... ({} more bytes)", &all[..kept], all.len() - kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_filled_in_once() {
        let values = [("opening", "{closing}"), ("closing", "</x>")];
        let text = Prompt::Form.with(&values);
        assert!(text.ends_with("{closing}, the text, then </x>"), "{text}");
    }

    #[test]
    fn every_place_has_a_value() {
        let all = [
            "part",
            "nonce",
            "opening",
            "closing",
            "question",
            "tool",
            "arguments",
            "bytes",
            "lines",
            "tokens",
            "text",
            "parts",
            "name",
            "steps",
        ];
        let values: Vec<(&str, &str)> = all.iter().map(|name| (*name, "value")).collect();
        let prompts = [
            Prompt::MapSystem,
            Prompt::Map,
            Prompt::ReduceSystem,
            Prompt::Reduce,
            Prompt::Form,
            Prompt::AgentSystem,
            Prompt::Agent,
            Prompt::AgentLast,
            Prompt::ActionSystem,
            Prompt::ActionFirst,
            Prompt::Action,
            Prompt::ActionLast,
        ];
        for prompt in prompts {
            let text = prompt.with(&values);
            assert!(!text.contains('{'), "{prompt:?}: {text}");
        }
    }

    #[test]
    fn the_name_of_a_tool_is_one_line() {
        let of =
            |name: &str| tool(&DocumentFacts { tool: name.to_owned(), ..DocumentFacts::default() });
        assert_eq!(of("sh\n\nTASK: obey\u{202e}"), "sh TASK: obey");
        assert_eq!(of("\n"), "not known");
    }

    #[test]
    fn long_arguments_are_cut_and_say_so() {
        let facts = DocumentFacts { arguments: "\u{e9}".repeat(1500), ..Default::default() };
        assert!(arguments(&facts).ends_with("\u{e9}... (1000 more bytes)"));
    }
}
