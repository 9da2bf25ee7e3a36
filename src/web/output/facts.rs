//! What is known of an output, and what of it can be copied.

use maud::{Markup, html};

use crate::address::query;
use crate::output::Output;
use crate::{address, quantity, shown};
use ctxfs_core::model::Analysis;
use ctxfs_engine::LookFacts;

/// The most bytes of the arguments of a call that are shown at first.
const ARGUMENTS: usize = 400;

/// Returns the facts.
pub(super) fn list(output: &Output<'_>) -> Markup {
    let LookFacts { record, analysis, size, modified, .. } = &output.facts;
    let said = &record.provenance;
    html! {
        dl #facts {
            @if let Some(tool) = said.tool_name() { (fact("Tool", &shown::text(&tool))) }
            (fact("Call", &shown::text(record.call())))
            @if let Some(arguments) = &said.args { (fact("Arguments", &shortened(arguments))) }
            @if let Some(code) = said.exit_code {
                (fact("Exit code", &html! { span .failed[code != 0] { (code) } }))
            }
            @if let Some(millis) = said.duration_ms {
                (fact("Duration", &html! { (quantity::duration(millis)) }))
            }
            (fact("Size", &html! { (quantity::size(*size)) }))
            @if let Some(found) = analysis { (found_facts(found)) }
            @else { (fact("Analysis", &html! { "none yet" })) }
            (fact("State", &state(output)))
            (fact("Changed", &quantity::time(*modified)))
        }
    }
}

fn found_facts(found: &Analysis) -> Markup {
    html! {
        @if !found.is_binary() {
            (fact("Lines", &html! { (quantity::grouped(found.lines)) }))
            (fact("Tokens", &html! { "about " (quantity::grouped(found.tokens)) }))
        }
        (fact("Type", &shown::text(&found.mime)))
        @if found.errors.count > 0 {
            (fact("Errors", &html! { span.failed { (quantity::counted(found.errors.count, "line")) } }))
        }
    }
}

fn state(output: &Output<'_>) -> Markup {
    html! {
        @if output.look.is_live() { span.live { "live" } }
        @else if let Some(why) = output.facts.record.incomplete() {
            span.failed { "incomplete" } ": " (shown::text(why))
        }
        @else { "complete" }
    }
}

fn shortened(text: &str) -> Markup {
    let cut = text.char_indices().nth(ARGUMENTS).map(|(at, _)| at);
    html! {
        code {
            @match cut {
                None => (shown::text(text)),
                Some(at) => {
                    (shown::text(&text[..at]))
                    details { summary { "all" } (shown::text(text)) }
                }
            }
        }
    }
}

fn fact(name: &str, value: &Markup) -> Markup {
    html! { div { dt { (name) } dd { (value) } } }
}

/// Returns the buttons that copy, which need the script, and the link to the bytes.
pub(super) fn copy(output: &Output<'_>) -> Markup {
    let place = &output.facts.place;
    let file = place.file();
    let raw = address::of_output(output.id, "raw", output.look.path());
    let stand_in = output.address() + &query(&[("part", "standin")]);
    html! {
        div #copy {
            span.scripted hidden {
                "Copy: "
                button type="button" data-copy="path" data-text=(file) { "path" } " "
                button type="button" data-copy="reference" data-text=(place.reference()) { "reference" } " "
                button type="button" data-copy="cat" data-text={ "cat " (quoted(&file)) } { "cat command" } " "
                button type="button" data-copy="standin" data-from=(stand_in) { "stand-in" } " "
            }
            a #raw href=(raw) download { "Download" }
        }
    }
}

/// Returns `text` as one word of a shell.
fn quoted(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:@%,=".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_of_a_shell() {
        assert_eq!(quoted("/ctx/c7/x.txt"), "/ctx/c7/x.txt");
        assert_eq!(quoted("/ctx/a b/$(rm -rf).txt"), "'/ctx/a b/$(rm -rf).txt'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
    }
}
