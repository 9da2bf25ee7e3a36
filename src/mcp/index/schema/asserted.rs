//! The keywords that say something of one value.

use serde_json::Value;

use crate::index::schema::check::{Check, Fit, SHOWN_BYTES};
use crate::index::schema::equal::{equal, is_integer};
use ctxfs_core::model::visible;

/// Bytes of the values that an enumeration allows.
const ENUM_BYTES: usize = 300;

impl<'s> Check<'s> {
    /// Compares `value` with a keyword. Returns `None` if it is none of these.
    pub(super) fn asserted(
        &mut self,
        keyword: &str,
        argument: &'s Value,
        value: &Value,
    ) -> Option<Fit> {
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

    fn demand(&mut self, holds: bool, what: &str) -> Fit {
        if holds { Fit::Yes } else { self.problem(what) }
    }

    fn is_of_type(&mut self, argument: &Value, value: &Value) -> Fit {
        let types: Vec<&str> = match argument {
            Value::String(name) => vec![name],
            Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
            _ => return Fit::Unsure,
        };
        if types.iter().any(|name| is_of_type(name, value)) {
            return Fit::Yes;
        }
        let wanted = visible::escaped(&types.join(" or "), SHOWN_BYTES);
        self.problem(&format!("must be {wanted}, not {}", shown(value)))
    }

    fn is_one_of(&mut self, argument: &Value, value: &Value) -> Fit {
        let Some(allowed) = argument.as_array() else { return Fit::Unsure };
        if !self.step(allowed.len()) {
            return Fit::Unsure;
        }
        if allowed.iter().any(|allowed| equal(allowed, value)) {
            return Fit::Yes;
        }
        let names: Vec<String> = allowed.iter().take(50).map(shown).collect();
        let names = visible::escaped(&names.join(", "), ENUM_BYTES);
        self.problem(&format!("must be one of {names}, not {}", shown(value)))
    }

    fn is_within(&mut self, keyword: &str, argument: &Value, value: &Value) -> Fit {
        let Value::Number(_) = value else { return Fit::Yes };
        let (Some(bound), Some(number)) = (argument.as_f64(), value.as_f64()) else {
            return Fit::Unsure;
        };
        let (holds, words) = match keyword {
            "minimum" => (number >= bound, "at least"),
            "maximum" => (number <= bound, "at most"),
            "exclusiveMinimum" => (number > bound, "more than"),
            _ => (number < bound, "less than"),
        };
        self.demand(holds, &format!("must be {words} {argument}, not {}", shown(value)))
    }

    /// What floating point makes doubtful is unsure.
    fn is_multiple(&mut self, argument: &Value, value: &Value) -> Fit {
        let Value::Number(_) = value else { return Fit::Yes };
        if let (Some(factor), Some(number)) = (argument.as_u64(), value.as_i64()) {
            let what = format!("must be a multiple of {argument}, not {}", shown(value));
            let is_multiple = factor != 0 && number.unsigned_abs() % factor == 0;
            return self.demand(is_multiple, &what);
        }
        Fit::Unsure
    }

    fn has_length(&mut self, keyword: &str, argument: &Value, value: &Value) -> Fit {
        let (length, what) = match (value, &keyword[3..]) {
            (Value::String(text), "Length") => (text.chars().count(), "characters"),
            (Value::Array(items), "Items") => (items.len(), "elements"),
            (Value::Object(members), "Properties") => (members.len(), "members"),
            _ => return Fit::Yes,
        };
        let Some(bound) = argument.as_f64() else { return Fit::Unsure };
        let (holds, words) = if keyword.starts_with("min") {
            (length as f64 >= bound, "at least")
        } else {
            (length as f64 <= bound, "at most")
        };
        self.demand(holds, &format!("must have {words} {argument} {what}, and has {length}"))
    }

    fn has_pattern(&mut self, argument: &'s Value, value: &Value) -> Fit {
        let Some(text) = value.as_str() else { return Fit::Yes };
        let Some(expression) = argument.as_str() else { return Fit::Unsure };
        match self.matches(expression, text) {
            Fit::No => {
                let expression = visible::escaped(expression, SHOWN_BYTES);
                self.problem(&format!("must match `{expression}`, not be {}", shown(value)))
            }
            fit => fit,
        }
    }

    fn is_unique(&mut self, argument: &Value, value: &Value) -> Fit {
        let Some(items) = value.as_array().filter(|_| argument == &Value::Bool(true)) else {
            return Fit::Yes;
        };
        if !self.step(items.len().saturating_mul(items.len())) {
            return Fit::Unsure;
        }
        let twice =
            |(at, item): (usize, &Value)| items[..at].iter().any(|other| equal(other, item));
        let repeated = items.iter().enumerate().any(twice);
        self.demand(!repeated, "must not hold an element twice")
    }

    fn has_required(&mut self, argument: &Value, value: &Value) -> Fit {
        let Some(members) = value.as_object() else { return Fit::Yes };
        let Some(required) = argument.as_array() else { return Fit::Unsure };
        let mut fit = Fit::Yes;
        for name in required.iter().filter_map(Value::as_str) {
            if !self.step(1) {
                return fit.and(Fit::Unsure);
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
        // What is no type of the specification: nothing is known.
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
