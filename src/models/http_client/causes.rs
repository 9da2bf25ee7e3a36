//! Errors in words.

use std::error::Error;

/// Returns an error with its causes.
pub fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.ends_with(&more) {
            text += ": ";
            text += &more;
        }
        cause = error.source();
    }
    text
}
