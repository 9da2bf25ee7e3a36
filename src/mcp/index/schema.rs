//! Checks arguments against the JSON Schema of a tool, so that a model learns of mistakes before
//! the call is made.
//!
//! The server checks its arguments itself, so arguments pass if the check cannot decide. Schemas
//! come from untrusted servers. The check therefore takes a limited number of steps to a limited
//! depth, runs regular expressions in linear time, and fetches nothing. General-purpose validators
//! have no such limits: a few references in a schema can multiply their work.

use std::collections::HashMap;
use std::fmt::Write as _;

use regex::{Regex, RegexBuilder};
use serde_json::{Map, Number, Value};

use crate::index::nearest;
use ctxfs_core::model::visible;

// A step is a keyword, a compared value, or 64 bytes of searched text.
const MAX_STEPS: u32 = 100_000;
// Maximum nesting of schema applications.
const MAX_DEPTH: u32 = 100;
const REGEX_BYTES: usize = 256 << 10;
const MAX_REGEXES: usize = 50;
const SEARCHED_BYTES: usize = 64;
const MAX_PROBLEMS: usize = 5;
const SHOWN_BYTES: usize = 80;
const ENUM_BYTES: usize = 300;
// Limits of a schema: number of values, and nesting depth.
const MAX_VALUES: usize = 20_000;
const MAX_SCHEMA_DEPTH: usize = 64;

/// The result of a check. `Unfit` contains the first few problems. `Unknown` means that the schema
/// is too large, too deep, or not fully supported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fitness {
    Fits,
    Unfit(Vec<String>),
    Unknown,
}

pub(crate) fn fitness(schema: &Value, arguments: &Value) -> Fitness {
    let Some(facts) = SchemaFacts::of(schema) else { return Fitness::Unknown };
    let mut check = SchemaCheck::new(schema, facts);
    match check.all(schema, arguments) {
        SchemaFit::Yes => Fitness::Fits,
        SchemaFit::No => Fitness::Unfit(check.into_problems()),
        SchemaFit::Unsure => Fitness::Unknown,
    }
}

/// The result for one value. `Unsure` means that a keyword is not supported, or that no steps are
/// left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SchemaFit {
    Yes,
    No,
    Unsure,
}

impl SchemaFit {
    pub(crate) fn of(fits: bool) -> Self {
        if fits { Self::Yes } else { Self::No }
    }

    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::No, _) | (_, Self::No) => Self::No,
            (Self::Unsure, _) | (_, Self::Unsure) => Self::Unsure,
            (Self::Yes, Self::Yes) => Self::Yes,
        }
    }

    fn negated(self) -> Self {
        match self {
            Self::Yes => Self::No,
            Self::No => Self::Yes,
            Self::Unsure => Self::Unsure,
        }
    }
}

/// A check in progress. While alternatives are tried, `quiet` is above 0 and problems are not
/// collected.
#[derive(Debug)]
struct SchemaCheck<'s> {
    root: &'s Value,
    facts: SchemaFacts,
    steps: u32,
    depth: u32,
    place: Vec<String>,
    problems: Vec<String>,
    quiet: u32,
    regexes: HashMap<&'s str, Option<Regex>>,
}

impl<'s> SchemaCheck<'s> {
    pub(crate) fn new(root: &'s Value, facts: SchemaFacts) -> Self {
        let (place, problems, regexes) = (Vec::new(), Vec::new(), HashMap::new());
        Self { root, facts, steps: MAX_STEPS, depth: 0, place, problems, quiet: 0, regexes }
    }

    fn into_problems(self) -> Vec<String> {
        self.problems
    }

    pub(crate) fn all(&mut self, schema: &'s Value, value: &Value) -> SchemaFit {
        let keywords = match schema {
            Value::Bool(true) => return SchemaFit::Yes,
            Value::Bool(false) => return self.problem("is not allowed here"),
            Value::Object(keywords) => keywords,
            _ => return SchemaFit::Unsure,
        };
        if self.depth == MAX_DEPTH {
            return SchemaFit::Unsure;
        }
        self.depth += 1;
        let fit = self.keywords(keywords, value);
        self.depth -= 1;
        fit
    }

    fn keywords(&mut self, keywords: &'s Map<String, Value>, value: &Value) -> SchemaFit {
        let mut fit = SchemaFit::Yes;
        for (keyword, argument) in keywords {
            if !self.step(1) {
                return fit.and(SchemaFit::Unsure);
            }
            let asserted = self.asserted(keyword, argument, value);
            let one = asserted.or_else(|| self.applied(keywords, keyword, argument, value));
            fit = fit.and(one.unwrap_or(SchemaFit::Yes));
        }
        fit
    }

    /// Takes `count` steps. Returns false if fewer steps are left.
    pub(crate) fn step(&mut self, count: usize) -> bool {
        let left = u32::try_from(count).ok().and_then(|count| self.steps.checked_sub(count));
        self.steps = left.unwrap_or(0);
        left.is_some()
    }

    fn quietly(&mut self, compare: impl FnOnce(&mut Self) -> SchemaFit) -> SchemaFit {
        self.quiet += 1;
        let fit = compare(self);
        self.quiet -= 1;
        fit
    }

    pub(crate) fn below(&mut self, part: String, schema: &'s Value, value: &Value) -> SchemaFit {
        self.place.push(part);
        let fit = self.all(schema, value);
        self.place.pop();
        fit
    }

    fn problem(&mut self, what: &str) -> SchemaFit {
        if self.quiet == 0 && self.problems.len() < MAX_PROBLEMS {
            let problem = format!("{} {what}", self.shown_place());
            self.problems.push(problem);
        }
        SchemaFit::No
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

    fn referenced(&self, reference: &str) -> Option<&'s Value> {
        let pointer = reference.strip_prefix('#').filter(|_| !self.facts.has_parts_with_ids)?;
        if pointer.contains('%') { None } else { self.root.pointer(pointer) }
    }

    pub(crate) fn matches(&mut self, expression: &'s str, text: &str) -> SchemaFit {
        if !self.step(1 + text.len() / SEARCHED_BYTES) {
            return SchemaFit::Unsure;
        }
        if !self.regexes.contains_key(expression) {
            let compiled = (self.regexes.len() < MAX_REGEXES).then(|| compile(expression));
            self.regexes.insert(expression, compiled.flatten());
        }
        let regex = self.regexes.get(expression).and_then(Option::as_ref);
        regex.map_or(SchemaFit::Unsure, |regex| SchemaFit::of(regex.is_match(text)))
    }
}

fn compile(expression: &str) -> Option<Regex> {
    RegexBuilder::new(expression).size_limit(REGEX_BYTES).dfa_size_limit(REGEX_BYTES).build().ok()
}

impl<'s> SchemaCheck<'s> {
    /// Checks `value` against a keyword that constrains the value itself. Returns `None` for any
    /// other keyword.
    fn asserted(&mut self, keyword: &str, argument: &'s Value, value: &Value) -> Option<SchemaFit> {
        Some(match keyword {
            "type" => self.is_of_type(argument, value),
            "enum" => self.is_one_of(argument, value),
            "const" => {
                let what = format!("must be {}", shown(argument));
                self.demand(equal(argument, value), &what)
            }
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => {
                self.is_within(keyword, argument, value)
            }
            "multipleOf" => self.is_multiple(argument, value),
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties"
            | "maxProperties" => self.has_length(keyword, argument, value),
            "pattern" => self.has_pattern(argument, value),
            "uniqueItems" => self.is_unique(argument, value),
            "required" => self.has_required(argument, value),
            _ => return None,
        })
    }

    fn demand(&mut self, holds: bool, what: &str) -> SchemaFit {
        if holds { SchemaFit::Yes } else { self.problem(what) }
    }

    fn is_of_type(&mut self, argument: &Value, value: &Value) -> SchemaFit {
        let types: Vec<&str> = match argument {
            Value::String(name) => vec![name],
            Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
            _ => return SchemaFit::Unsure,
        };
        if types.iter().any(|name| is_of_type(name, value)) {
            return SchemaFit::Yes;
        }
        let wanted = visible::escaped(&types.join(" or "), SHOWN_BYTES);
        self.problem(&format!("must be {wanted}, not {}", shown(value)))
    }

    fn is_one_of(&mut self, argument: &Value, value: &Value) -> SchemaFit {
        let Some(allowed) = argument.as_array() else { return SchemaFit::Unsure };
        if !self.step(allowed.len()) {
            return SchemaFit::Unsure;
        }
        if allowed.iter().any(|allowed| equal(allowed, value)) {
            return SchemaFit::Yes;
        }
        let names: Vec<String> = allowed.iter().take(50).map(shown).collect();
        let names = visible::escaped(&names.join(", "), ENUM_BYTES);
        self.problem(&format!("must be one of {names}, not {}", shown(value)))
    }

    fn is_within(&mut self, keyword: &str, argument: &Value, value: &Value) -> SchemaFit {
        let Value::Number(_) = value else { return SchemaFit::Yes };
        let (Some(bound), Some(number)) = (argument.as_f64(), value.as_f64()) else {
            return SchemaFit::Unsure;
        };
        let (holds, words) = match keyword {
            "minimum" => (number >= bound, "at least"),
            "maximum" => (number <= bound, "at most"),
            "exclusiveMinimum" => (number > bound, "more than"),
            _ => (number < bound, "less than"),
        };
        self.demand(holds, &format!("must be {words} {argument}, not {}", shown(value)))
    }

    fn is_multiple(&mut self, argument: &Value, value: &Value) -> SchemaFit {
        let Value::Number(_) = value else { return SchemaFit::Yes };
        if let (Some(factor), Some(number)) = (argument.as_u64(), value.as_i64()) {
            let what = format!("must be a multiple of {argument}, not {}", shown(value));
            let is_multiple = factor != 0 && number.unsigned_abs() % factor == 0;
            return self.demand(is_multiple, &what);
        }
        SchemaFit::Unsure
    }

    fn has_length(&mut self, keyword: &str, argument: &Value, value: &Value) -> SchemaFit {
        let (length, what) = match (value, &keyword[3..]) {
            (Value::String(text), "Length") => (text.chars().count(), "characters"),
            (Value::Array(items), "Items") => (items.len(), "elements"),
            (Value::Object(members), "Properties") => (members.len(), "members"),
            _ => return SchemaFit::Yes,
        };
        let Some(bound) = argument.as_f64() else { return SchemaFit::Unsure };
        let (holds, words) = if keyword.starts_with("min") {
            (length as f64 >= bound, "at least")
        } else {
            (length as f64 <= bound, "at most")
        };
        self.demand(holds, &format!("must have {words} {argument} {what}, and has {length}"))
    }

    fn has_pattern(&mut self, argument: &'s Value, value: &Value) -> SchemaFit {
        let Some(text) = value.as_str() else { return SchemaFit::Yes };
        let Some(expression) = argument.as_str() else { return SchemaFit::Unsure };
        match self.matches(expression, text) {
            SchemaFit::No => {
                let expression = visible::escaped(expression, SHOWN_BYTES);
                self.problem(&format!("must match `{expression}`, not be {}", shown(value)))
            }
            fit => fit,
        }
    }

    fn is_unique(&mut self, argument: &Value, value: &Value) -> SchemaFit {
        let Some(items) = value.as_array().filter(|_| argument == &Value::Bool(true)) else {
            return SchemaFit::Yes;
        };
        if !self.step(items.len().saturating_mul(items.len())) {
            return SchemaFit::Unsure;
        }
        let twice =
            |(at, item): (usize, &Value)| items[..at].iter().any(|other| equal(other, item));
        let repeated = items.iter().enumerate().any(twice);
        self.demand(!repeated, "must not hold an element twice")
    }

    fn has_required(&mut self, argument: &Value, value: &Value) -> SchemaFit {
        let Some(members) = value.as_object() else { return SchemaFit::Yes };
        let Some(required) = argument.as_array() else { return SchemaFit::Unsure };
        let mut fit = SchemaFit::Yes;
        for name in required.iter().filter_map(Value::as_str) {
            if !self.step(1) {
                return fit.and(SchemaFit::Unsure);
            }
            if !members.contains_key(name) {
                let name = visible::escaped(name, SHOWN_BYTES);
                fit = fit.and(self.problem(&format!("lacks `{name}`")));
            }
        }
        fit
    }
}

fn is_of_type(name: &str, value: &Value) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.as_number().is_some_and(is_integer),
        // The specification does not define this type, so the check cannot reject the value.
        _ => true,
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Array(items) if items.len() > 9 => format!("an array of {}", items.len()),
        Value::Object(members) if members.len() > 9 => "an object".to_owned(),
        Value::String(text) if text.len() > SHOWN_BYTES => {
            format!("\"{}\"", visible::escaped(text, SHOWN_BYTES))
        }
        value => visible::escaped(&value.to_string(), SHOWN_BYTES),
    }
}

type Keywords = Map<String, Value>;

impl<'s> SchemaCheck<'s> {
    /// Checks `value` against a keyword that applies schemas to the value, its members or its
    /// elements. Returns `None` for any other keyword.
    pub(crate) fn applied(
        &mut self,
        keywords: &'s Keywords,
        keyword: &str,
        argument: &'s Value,
        value: &Value,
    ) -> Option<SchemaFit> {
        Some(match keyword {
            "$ref" => self.reference(argument, value),
            "allOf" => self.each(argument, |check, schema| check.all(schema, value)),
            "anyOf" => self.alternatives(argument, value, false),
            "oneOf" => self.alternatives(argument, value, true),
            "not" => match self.quietly(|check| check.all(argument, value)).negated() {
                SchemaFit::No => self.problem("fits what it must not be"),
                fit => fit,
            },
            "if" => self.conditional(keywords, argument, value),
            "properties" => self.members(argument, value),
            "patternProperties" => self.matching_members(argument, value),
            "additionalProperties" => self.additional(keywords, argument, value),
            "propertyNames" => self.names(argument, value),
            "dependentRequired" | "dependentSchemas" => self.dependent(keyword, argument, value),
            "prefixItems" => self.first_elements(argument, value),
            "items" => self.elements(keywords, argument, value),
            "contains" => self.contains(keywords, argument, value),
            // Keywords that constrain the value, but are not supported here.
            "$dynamicRef"
            | "$recursiveRef"
            | "unevaluatedProperties"
            | "unevaluatedItems"
            | "dependencies"
            | "additionalItems" => SchemaFit::Unsure,
            _ => return None,
        })
    }

    fn reference(&mut self, argument: &Value, value: &Value) -> SchemaFit {
        let target = argument.as_str().and_then(|reference| self.referenced(reference));
        target.map_or(SchemaFit::Unsure, |schema| self.all(schema, value))
    }

    fn each(
        &mut self,
        argument: &'s Value,
        one: impl Fn(&mut Self, &'s Value) -> SchemaFit,
    ) -> SchemaFit {
        let Some(schemas) = argument.as_array() else { return SchemaFit::Unsure };
        schemas.iter().fold(SchemaFit::Yes, |fit, schema| fit.and(one(self, schema)))
    }

    fn alternatives(&mut self, argument: &'s Value, value: &Value, only_one: bool) -> SchemaFit {
        let schemas = argument.as_array().filter(|schemas| !schemas.is_empty());
        let Some(schemas) = schemas else { return SchemaFit::Unsure };
        let (mut fitting, mut unsure) = (0_u32, false);
        for schema in schemas {
            match self.quietly(|check| check.all(schema, value)) {
                SchemaFit::Yes => fitting += 1,
                SchemaFit::No => {}
                SchemaFit::Unsure => unsure = true,
            }
            if fitting > 0 && !only_one {
                return SchemaFit::Yes;
            }
        }
        match (fitting, unsure) {
            (2.., _) => self.problem("fits more than one of the alternatives"),
            (_, true) => SchemaFit::Unsure,
            (1, false) => SchemaFit::Yes,
            (0, false) if schemas.len() == 1 => self.all(&schemas[0], value),
            (0, false) => self.problem("fits none of the alternatives"),
        }
    }

    fn conditional(
        &mut self,
        keywords: &'s Keywords,
        argument: &'s Value,
        value: &Value,
    ) -> SchemaFit {
        let branch = match self.quietly(|check| check.all(argument, value)) {
            SchemaFit::Yes => keywords.get("then"),
            SchemaFit::No => keywords.get("else"),
            SchemaFit::Unsure => return SchemaFit::Unsure,
        };
        branch.map_or(SchemaFit::Yes, |schema| self.all(schema, value))
    }

    fn members(&mut self, argument: &'s Value, value: &Value) -> SchemaFit {
        let Some(members) = value.as_object() else { return SchemaFit::Yes };
        let Some(schemas) = argument.as_object() else { return SchemaFit::Unsure };
        let mut fit = SchemaFit::Yes;
        for (name, member) in members {
            if let Some(schema) = schemas.get(name) {
                fit = fit.and(self.below(name.clone(), schema, member));
            }
        }
        fit
    }

    fn matching_members(&mut self, argument: &'s Value, value: &Value) -> SchemaFit {
        let Some(members) = value.as_object() else { return SchemaFit::Yes };
        let Some(schemas) = argument.as_object() else { return SchemaFit::Unsure };
        let mut fit = SchemaFit::Yes;
        for (expression, schema) in schemas {
            for (name, member) in members {
                fit = fit.and(match self.matches(expression, name) {
                    SchemaFit::Yes => self.below(name.clone(), schema, member),
                    SchemaFit::No => SchemaFit::Yes,
                    SchemaFit::Unsure => SchemaFit::Unsure,
                });
            }
        }
        fit
    }

    fn additional(
        &mut self,
        keywords: &'s Keywords,
        argument: &'s Value,
        value: &Value,
    ) -> SchemaFit {
        let Some(members) = value.as_object() else { return SchemaFit::Yes };
        let known = keywords.get("properties").and_then(Value::as_object);
        let mut fit = SchemaFit::Yes;
        for (name, member) in members {
            if known.is_some_and(|known| known.contains_key(name)) {
                continue;
            }
            fit = fit.and(match self.is_matching(keywords, name) {
                SchemaFit::Yes => SchemaFit::Yes,
                SchemaFit::Unsure => SchemaFit::Unsure,
                SchemaFit::No if argument == &Value::Bool(false) => {
                    self.unknown_member(known, name)
                }
                SchemaFit::No => self.below(name.clone(), argument, member),
            });
        }
        fit
    }

    fn is_matching(&mut self, keywords: &'s Keywords, name: &str) -> SchemaFit {
        let patterns = keywords.get("patternProperties").and_then(Value::as_object);
        let mut fit = SchemaFit::No;
        for expression in patterns.into_iter().flat_map(Map::keys) {
            match self.matches(expression, name) {
                SchemaFit::Yes => return SchemaFit::Yes,
                SchemaFit::Unsure => fit = SchemaFit::Unsure,
                SchemaFit::No => {}
            }
        }
        fit
    }

    fn unknown_member(&mut self, known: Option<&Keywords>, name: &str) -> SchemaFit {
        let known = known.into_iter().flat_map(Map::keys).map(String::as_str);
        let alike =
            nearest(name, known, 1).pop().map(|alike| visible::escaped(&alike, SHOWN_BYTES));
        let alike = alike.map_or(String::new(), |alike| format!("; did you mean `{alike}`?"));
        let name = visible::escaped(name, SHOWN_BYTES);
        self.problem(&format!("cannot have `{name}`{alike}"))
    }

    fn names(&mut self, argument: &'s Value, value: &Value) -> SchemaFit {
        let names = value.as_object().into_iter().flat_map(Map::keys);
        names.fold(SchemaFit::Yes, |fit, name| {
            fit.and(self.below(name.clone(), argument, &Value::String(name.clone())))
        })
    }

    fn dependent(&mut self, keyword: &str, argument: &'s Value, value: &Value) -> SchemaFit {
        let Some(members) = value.as_object() else { return SchemaFit::Yes };
        let Some(dependents) = argument.as_object() else { return SchemaFit::Unsure };
        let present = dependents.iter().filter(|(name, _)| members.contains_key(*name));
        present.fold(SchemaFit::Yes, |fit, (_, demanded)| {
            fit.and(if keyword == "dependentSchemas" {
                self.all(demanded, value)
            } else {
                self.asserted("required", demanded, value).unwrap_or(SchemaFit::Unsure)
            })
        })
    }

    fn first_elements(&mut self, argument: &'s Value, value: &Value) -> SchemaFit {
        let Some(elements) = value.as_array() else { return SchemaFit::Yes };
        let Some(schemas) = argument.as_array() else { return SchemaFit::Unsure };
        let pairs = schemas.iter().zip(elements).enumerate();
        pairs.fold(SchemaFit::Yes, |fit, (at, (schema, element))| {
            fit.and(self.below(format!("[{at}]"), schema, element))
        })
    }

    fn elements(&mut self, keywords: &Keywords, argument: &'s Value, value: &Value) -> SchemaFit {
        let Some(elements) = value.as_array() else { return SchemaFit::Yes };
        let first = keywords.get("prefixItems").and_then(Value::as_array).map_or(0, Vec::len);
        let mut fit = SchemaFit::Yes;
        for (at, element) in elements.iter().enumerate().skip(first) {
            if !self.step(1) {
                return fit.and(SchemaFit::Unsure);
            }
            fit = fit.and(self.below(format!("[{at}]"), argument, element));
        }
        fit
    }

    fn contains(&mut self, keywords: &Keywords, argument: &'s Value, value: &Value) -> SchemaFit {
        let Some(elements) = value.as_array() else { return SchemaFit::Yes };
        if keywords.contains_key("minContains") || keywords.contains_key("maxContains") {
            return SchemaFit::Unsure;
        }
        let mut found = SchemaFit::No;
        for element in elements {
            match self.quietly(|check| check.all(argument, element)) {
                SchemaFit::Yes => return SchemaFit::Yes,
                SchemaFit::Unsure => found = SchemaFit::Unsure,
                SchemaFit::No => {}
            }
        }
        if found == SchemaFit::No {
            self.problem("lacks an element that it must have")
        } else {
            found
        }
    }
}

pub(crate) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => equal_numbers(a, b),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let same = |(key, a): (&String, &Value)| b.get(key).is_some_and(|b| equal(a, b));
            a.len() == b.len() && a.iter().all(same)
        }
        _ => a == b,
    }
}

fn equal_numbers(a: &Number, b: &Number) -> bool {
    let both_integers = (a.is_i64() || a.is_u64()) && (b.is_i64() || b.is_u64());
    a == b || !both_integers && a.as_f64().is_some() && a.as_f64() == b.as_f64()
}

fn is_integer(number: &Number) -> bool {
    number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|n| n.fract() == 0.0)
}

/// Facts about a whole schema. If a part of the schema has an `$id`, references are not followed,
/// because they may refer to another schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SchemaFacts {
    has_parts_with_ids: bool,
}

impl SchemaFacts {
    pub(crate) fn of(schema: &Value) -> Option<Self> {
        let mut left = vec![(schema, 0)];
        let (mut seen, mut has_parts_with_ids) = (0, false);
        while let Some((value, depth)) = left.pop() {
            seen += 1;
            if seen > MAX_VALUES || depth > MAX_SCHEMA_DEPTH {
                return None;
            }
            has_parts_with_ids |= depth > 0 && value.get("$id").is_some_and(Value::is_string);
            match value {
                Value::Array(items) => left.extend(items.iter().map(|item| (item, depth + 1))),
                Value::Object(members) => {
                    left.extend(members.values().map(|member| (member, depth + 1)));
                }
                _ => {}
            }
        }
        Some(Self { has_parts_with_ids })
    }
}

#[cfg(test)]
mod tests;
