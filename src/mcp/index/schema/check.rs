//! The state of a comparison: steps, place, problems.

use std::collections::HashMap;
use std::fmt::Write as _;

use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};

use crate::index::schema::facts::SchemaFacts;
use ctxfs_core::model::visible;

/// The most steps. A step is a keyword, a value that is compared, or some bytes that are searched.
const MOST_STEPS: u32 = 100_000;
/// The deepest that schemas may be applied in each other.
const DEEPEST: u32 = 100;
/// The most bytes of a compiled expression, and the most expressions.
const REGEX_BYTES: usize = 256 << 10;
const MOST_REGEXES: usize = 50;
/// Bytes that a step searches.
const SEARCHED_BYTES: usize = 64;
/// The most problems that are named, and the bytes of a value or name in one.
const MOST_PROBLEMS: usize = 5;
pub(super) const SHOWN_BYTES: usize = 80;

/// The fit of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    Yes,
    No,
    /// There is something that is not understood, or no steps are left.
    Unsure,
}

impl Fit {
    pub(super) fn of(fits: bool) -> Self {
        if fits { Self::Yes } else { Self::No }
    }

    /// Returns what holds if both must.
    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::No, _) | (_, Self::No) => Self::No,
            (Self::Unsure, _) | (_, Self::Unsure) => Self::Unsure,
            (Self::Yes, Self::Yes) => Self::Yes,
        }
    }

    pub(super) fn negated(self) -> Self {
        match self {
            Self::Yes => Self::No,
            Self::No => Self::Yes,
            Self::Unsure => Self::Unsure,
        }
    }
}

/// A comparison that goes on.
#[derive(Debug)]
pub(super) struct Check<'s> {
    root: &'s Value,
    facts: SchemaFacts,
    steps: u32,
    depth: u32,
    /// Its place in the arguments: keys, and indexes in brackets.
    place: Vec<String>,
    problems: Vec<String>,
    /// Above 0 while alternatives are tried, whose problems are none of the arguments.
    quiet: u32,
    regexes: HashMap<&'s str, Option<Regex>>,
}

impl<'s> Check<'s> {
    pub(super) fn new(root: &'s Value, facts: SchemaFacts) -> Self {
        let (place, problems, regexes) = (Vec::new(), Vec::new(), HashMap::new());
        Self { root, facts, steps: MOST_STEPS, depth: 0, place, problems, quiet: 0, regexes }
    }

    pub(super) fn into_problems(self) -> Vec<String> {
        self.problems
    }

    /// Compares `value` with all of `schema`.
    pub(super) fn all(&mut self, schema: &'s Value, value: &Value) -> Fit {
        let keywords = match schema {
            Value::Bool(true) => return Fit::Yes,
            Value::Bool(false) => return self.problem("is not allowed here"),
            Value::Object(keywords) => keywords,
            _ => return Fit::Unsure,
        };
        if self.depth == DEEPEST {
            return Fit::Unsure;
        }
        self.depth += 1;
        let fit = self.keywords(keywords, value);
        self.depth -= 1;
        fit
    }

    fn keywords(&mut self, keywords: &'s Map<String, Value>, value: &Value) -> Fit {
        let mut fit = Fit::Yes;
        for (keyword, argument) in keywords {
            if !self.step(1) {
                return fit.and(Fit::Unsure);
            }
            let asserted = self.asserted(keyword, argument, value);
            let one = asserted.or_else(|| self.applied(keywords, keyword, argument, value));
            fit = fit.and(one.unwrap_or(Fit::Yes));
        }
        fit
    }

    /// Takes so many steps. Returns false if there are not so many left.
    pub(super) fn step(&mut self, count: usize) -> bool {
        let left = u32::try_from(count).ok().and_then(|count| self.steps.checked_sub(count));
        self.steps = left.unwrap_or(0);
        left.is_some()
    }

    /// Compares as `compare` does, without problems.
    pub(super) fn quietly(&mut self, compare: impl FnOnce(&mut Self) -> Fit) -> Fit {
        self.quiet += 1;
        let fit = compare(self);
        self.quiet -= 1;
        fit
    }

    /// Compares a member or an element of the value.
    pub(super) fn below(&mut self, part: String, schema: &'s Value, value: &Value) -> Fit {
        self.place.push(part);
        let fit = self.all(schema, value);
        self.place.pop();
        fit
    }

    /// Collects a problem of the place where it is.
    pub(super) fn problem(&mut self, what: &str) -> Fit {
        if self.quiet == 0 && self.problems.len() < MOST_PROBLEMS {
            let problem = format!("{} {what}", self.shown_place());
            self.problems.push(problem);
        }
        Fit::No
    }

    fn shown_place(&self) -> String {
        let mut shown = String::new();
        for part in &self.place {
            if !shown.is_empty() && !part.starts_with('[') {
                shown.push('.');
            }
            let _infallible = write!(shown, "{}", visible::escaped(part, SHOWN_BYTES));
        }
        if shown.is_empty() { "the call".to_owned() } else { format!("`{shown}`") }
    }

    /// Returns the schema that a reference within this schema leads to.
    pub(super) fn referenced(&self, reference: &str) -> Option<&'s Value> {
        let pointer = reference.strip_prefix('#').filter(|_| !self.facts.has_parts_with_ids)?;
        if pointer.contains('%') { None } else { self.root.pointer(pointer) }
    }

    /// Searches `text` for an expression.
    pub(super) fn matches(&mut self, expression: &'s str, text: &str) -> Fit {
        if !self.step(1 + text.len() / SEARCHED_BYTES) {
            return Fit::Unsure;
        }
        if !self.regexes.contains_key(expression) {
            let compiled = (self.regexes.len() < MOST_REGEXES).then(|| compile(expression));
            self.regexes.insert(expression, compiled.flatten());
        }
        let regex = self.regexes.get(expression).and_then(Option::as_ref);
        regex.map_or(Fit::Unsure, |regex| Fit::of(regex.is_match(text)))
    }
}

fn compile(expression: &str) -> Option<Regex> {
    RegexBuilder::new(expression).size_limit(REGEX_BYTES).dfa_size_limit(REGEX_BYTES).build().ok()
}
