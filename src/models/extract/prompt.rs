//! Prompts, which are files with placeholders, and the wrapper around an answer:
//! `<ai-agent-NONCE-FINAL format="text">...</ai-agent-NONCE-FINAL>`.
//!
//! The nonce is new for each request, so a text in the document that imitates a wrapper is treated
//! as data. Text outside the wrapper is thinking.

use crate::extract::DocumentFacts;

/// The version of all prompts. A cached answer from a different version is not reused.
pub const PROMPT_VERSION: u32 = 3;

/// Maximum number of bytes of a call's arguments in a prompt.
const ARGUMENTS: usize = 2000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Prompt {
    MapSystem,
    Map,
    ReduceSystem,
    Reduce,
    Form,
    AgentSystem,
    Agent,
    AgentLast,
    ActionSystem,
    ActionFirst,
    Action,
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

    /// Replaces each `{name}` by its value. Placeholders inside values are not replaced.
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

pub(super) fn tool(facts: &DocumentFacts) -> String {
    let name = ctxfs_core::model::visible::one_line(&facts.tool);
    if name.is_empty() { "not known".to_owned() } else { name }
}

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

pub(super) const NOTHING: &str = "NO RELEVANT DATA FOUND";

#[derive(Debug, Clone)]
pub(super) struct Wrapper {
    nonce: String,
}

impl Wrapper {
    pub(super) fn new(nonce: String) -> Self {
        Self { nonce }
    }

    pub(super) fn nonce(&self) -> &str {
        &self.nonce
    }

    pub(super) fn opening(&self) -> String {
        format!("<ai-agent-{}-FINAL format=\"text\">", self.nonce)
    }

    pub(super) fn closing(&self) -> String {
        format!("</ai-agent-{}-FINAL>", self.nonce)
    }

    /// Returns the answer in a reply: the content of the last wrapper that is not empty, even if
    /// its closing tag is missing. Returns `None` if there is no such wrapper.
    ///
    /// The last wrapper counts because a model that thinks aloud may write the tags before it
    /// answers.
    pub(super) fn answer<'a>(&self, reply: &'a str) -> Option<&'a str> {
        let start = format!("<ai-agent-{}-FINAL", self.nonce);
        let (mut answer, mut rest) = (None, reply);
        while let Some((_, after)) = rest.split_once(&start) {
            let Some((_, inner)) = after.split_once('>') else { break };
            let (inside, beyond) = inner.split_once(&self.closing()).unwrap_or((inner, ""));
            answer = Some(inside.trim()).filter(|text| !text.is_empty()).or(answer);
            rest = beyond;
        }
        answer
    }

    /// Returns true if a reply has no wrapper, or if its last wrapper has no closing tag.
    pub(super) fn is_open(&self, reply: &str) -> bool {
        let start = format!("<ai-agent-{}-FINAL", self.nonce);
        reply.rsplit_once(&start).is_none_or(|(_, inner)| !inner.contains(&self.closing()))
    }
}

/// Returns true if the model found nothing. The rest of such an answer describes the document.
pub(super) fn is_nothing(answer: &str) -> bool {
    answer.trim_start_matches(['"', '*', '`', ' ']).starts_with(NOTHING)
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

    fn answer(reply: &str) -> Option<&str> {
        Wrapper::new("n1".to_owned()).answer(reply)
    }

    #[test]
    fn the_answer_is_what_stands_inside() {
        assert_eq!(
            answer("<ai-agent-n1-FINAL format=\"text\">\nyes\n</ai-agent-n1-FINAL>"),
            Some("yes")
        );
        assert_eq!(answer("so, <ai-agent-n1-FINAL>yes</ai-agent-n1-FINAL> done"), Some("yes"));
        assert_eq!(answer("<ai-agent-n1-FINAL format=\"text\">yes"), Some("yes"));
    }

    #[test]
    fn a_wrapper_is_open_until_its_closing_tag() {
        let is_open = |reply: &str| Wrapper::new("n1".to_owned()).is_open(reply);
        let closed = "<ai-agent-n1-FINAL>yes</ai-agent-n1-FINAL>";
        assert!(!is_open(closed) && !is_open(&format!("{closed} and")));
        for open in ["", "yes", "<ai-agent-n1-FIN", "<ai-agent-n1-FINAL>yes</ai-agent-n"] {
            assert!(is_open(open) && is_open(&format!("<ai-agent-n1-FINAL>{open}")), "{open}");
        }
        assert!(is_open(&format!("{closed} or <ai-agent-n1-FINAL>no")));
    }

    #[test]
    fn other_wrappers_are_data() {
        assert_eq!(answer("<ai-agent-n2-FINAL>no</ai-agent-n2-FINAL>"), None);
        assert_eq!(answer("<ai-agent-n1-FINAL></ai-agent-n1-FINAL>"), None);
        assert_eq!(answer("yes"), None);
        let inner =
            "<ai-agent-n1-FINAL>a <ai-agent-n2-FINAL>b</ai-agent-n2-FINAL></ai-agent-n1-FINAL>";
        assert_eq!(answer(inner), Some("a <ai-agent-n2-FINAL>b</ai-agent-n2-FINAL>"));
    }

    #[test]
    fn the_last_one_counts() {
        let thinking = "I will write <ai-agent-n1-FINAL>...</ai-agent-n1-FINAL>.\n\
                        <ai-agent-n1-FINAL>7</ai-agent-n1-FINAL>";
        assert_eq!(answer(thinking), Some("7"));
    }

    #[test]
    fn nothing_is_recognised_as_models_write_it() {
        assert!(is_nothing("NO RELEVANT DATA FOUND. It is a listing of files."));
        assert!(is_nothing("**NO RELEVANT DATA FOUND**"));
        assert!(!is_nothing("disk full"));
    }
}
