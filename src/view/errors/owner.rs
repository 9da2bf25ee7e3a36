mod names;
mod places;
mod rule;

use std::sync::LazyLock;

use crate::errors::json_line;
use crate::errors::owner::names::{NAMES, STEPS};
use crate::errors::owner::places::PLACES;
use crate::errors::owner::rule::OwnerRule;
use crate::errors::surroundings::Surroundings;
use ctxfs_core::materialize::Pattern;

const OWNER_CHARS: usize = 160;

/// Returns the owner of an error: the name of a test or step, a place in a file, or both. Returns
/// `None` if no other line names one.
pub(crate) fn owner(lines: &Surroundings) -> Option<String> {
    let owner = json_line::owner(lines.whole()).or_else(|| told_by_others(lines))?;
    let text: String = owner.chars().take(OWNER_CHARS).collect();
    (!text.is_empty() && !lines.own().contains(&text)).then_some(text)
}

pub(super) fn has_place(text: &str) -> bool {
    PLACE.is_match(text)
}

fn told_by_others(lines: &Surroundings) -> Option<String> {
    let place = if has_place(lines.own()) { None } else { first(&PLACES, lines) };
    let name = first(&NAMES, lines).or_else(|| first(&STEPS, lines));
    let parts: Vec<&str> = name.into_iter().chain(place).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn first<'l>(rules: &LazyLock<Vec<OwnerRule>>, lines: &'l Surroundings) -> Option<&'l str> {
    rules.iter().find_map(|rule| rule.apply(lines))
}

// `src/main.rs:3:9`, `Cart.java:[3,9]`, `File "a.py", line 3`
static PLACE: Pattern = Pattern::new(
    r#"[\w\])]\.[A-Za-z]\w*(:\d+\b|[:(]\[?\d+[,)])|File ".+", line \d+|\b(at|in|on) \S+ line \d+"#,
);

#[cfg(test)]
mod tests;
