use std::ops::ControlFlow;
use std::sync::LazyLock;

use crate::errors::surroundings::Surroundings;
use ctxfs_core::materialize::Pattern;

/// One form in which a line names the owner of an error near it.
///
/// The first group of `form` is the owner. The rule is for error lines that match `of` (or for
/// all), and looks at `within` lines on one side. It skips lines that match `not`, and gives up at
/// a line that matches `until`.
#[derive(Debug)]
pub(super) struct OwnerRule {
    of: Option<Pattern>,
    side: Side,
    within: usize,
    form: Pattern,
    not: Option<Pattern>,
    until: Option<Pattern>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Above,
    Below,
}

// Built when the first error is judged.
pub(super) type OwnerRules = LazyLock<Vec<OwnerRule>>;

/// Returns a rule for lines of `form`, all of which contain `literal`.
pub(super) fn rule(
    side: Side,
    within: usize,
    literal: &'static str,
    form: &'static str,
) -> OwnerRule {
    let form = Pattern::with(literal, form);
    OwnerRule { of: None, side, within, form, not: None, until: None }
}

impl OwnerRule {
    pub(super) fn of(self, of: &'static str) -> Self {
        Self { of: Some(Pattern::new(of)), ..self }
    }

    pub(super) fn not(self, not: &'static str) -> Self {
        Self { not: Some(Pattern::new(not)), ..self }
    }

    pub(super) fn until(self, until: &'static str) -> Self {
        Self { until: Some(Pattern::new(until)), ..self }
    }

    pub(super) fn apply<'l>(&self, lines: &'l Surroundings) -> Option<&'l str> {
        match self.side {
            Side::Above => self.find(lines.own(), || lines.above()),
            Side::Below => self.find(lines.own(), || lines.below()),
        }
    }

    // Checks the literal first: for most errors no other pattern has to be built.
    fn find<'l, L>(&self, own: &str, lines: impl Fn() -> L) -> Option<&'l str>
    where
        L: Iterator<Item = &'l str>,
    {
        let may_match = lines().take(self.within).any(|line| self.form.may_match(line));
        let is_for = || self.of.as_ref().is_none_or(|of| of.is_match(own));
        if may_match && is_for() { self.nearest(lines()) } else { None }
    }

    fn nearest<'l>(&self, lines: impl Iterator<Item = &'l str>) -> Option<&'l str> {
        let matches = |pattern: &Option<Pattern>, line: &str| {
            pattern.as_ref().is_some_and(|pattern| pattern.is_match(line))
        };
        let found = lines.take(self.within).try_for_each(|line| {
            if let Some(found) = self.form.group(line, 1).filter(|_| !matches(&self.not, line)) {
                return ControlFlow::Break(Some(found.trim()));
            }
            let ends = matches(&self.until, line);
            if ends { ControlFlow::Break(None) } else { ControlFlow::Continue(()) }
        });
        found.break_value().flatten()
    }
}
