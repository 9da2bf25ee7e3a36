//! A message in an export.

use maud::{Markup, html};

use crate::conversation::time_of;
use crate::export::output::ExportedOutput;
use crate::{quantity, shown};
use ctxfs_engine::LoggedMessage;

/// Returns a message, with its output if that is stored.
pub(super) fn article(logged: &LoggedMessage, output: Option<&ExportedOutput<'_>>) -> Markup {
    let message = match &logged.message {
        Ok(message) => message,
        Err(line) => {
            return html! {
                article.message data-role="none" {
                    header { span.role { "not a message" } } pre { (shown::text(line)) }
                }
            };
        }
    };
    let said = shown::text(&message.said());
    html! {
        article.message id={ "m-" (logged.offset) } data-role=(message.role()) {
            header {
                span.role { (shown::text(&message.role())) } " "
                @if let Some(time) = time_of(logged) { (quantity::time(time)) }
            }
            @match output {
                Some(output) => (output.section(&said)),
                None => div.said { (said) },
            }
            @for call in message.calls() {
                p.asked data-call=(call.id) {
                    code { (shown::text(&call.name)) } " " code.faint { (shown::text(&call.arguments)) }
                }
            }
        }
    }
}
