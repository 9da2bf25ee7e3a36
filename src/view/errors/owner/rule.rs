//! One form in which a line tells the owner of an error near it.

use std::ops::ControlFlow;
use std::sync::LazyLock;

use crate::errors::surroundings::Surroundings;
use ctxfs_core::materialize::Pattern;

/// A form in which a line tells the owner of an error near it.
#[derive(Debug)]
pub(super) struct OwnerRule {
    /// Matches the error lines that it is for. None for all.
    of: Option<Pattern>,
    side: Side,
    /// Most lines between the two.
    within: usize,
    /// Matches the line. Its first group is the owner.
    form: Pattern,
    /// Matches lines of this form that are passed over.
    not: Option<Pattern>,
    /// Matches lines behind which the owner of this error cannot be.
    until: Option<Pattern>,
}

/// The side of an error on which its owner is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Above,
    Below,
}

/// Rules, built when the first error is looked at.
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

    /// Returns the owner that the nearest line of this form tells.
    pub(super) fn apply<'l>(&self, lines: &'l Surroundings) -> Option<&'l str> {
        match self.side {
            Side::Above => self.find(lines.own(), || lines.above()),
            Side::Below => self.find(lines.own(), || lines.below()),
        }
    }

    /// Looks for the form in `lines`, if one of them may have it: no other pattern is needed then.
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
