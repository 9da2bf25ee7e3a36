//! The keywords that apply schemas: to the value itself, to its members, to its elements.

use serde_json::{Map, Value};

use crate::index::nearest::nearest;
use crate::index::schema::check::{Check, Fit, SHOWN_BYTES};
use ctxfs_core::model::visible;

type Keywords = Map<String, Value>;

impl<'s> Check<'s> {
    /// Compares `value` with a keyword among `keywords`. Returns `None` if it is none of these.
    pub(super) fn applied(
        &mut self,
        keywords: &'s Keywords,
        keyword: &str,
        argument: &'s Value,
        value: &Value,
    ) -> Option<Fit> {
        Some(match keyword {
            "$ref" => self.reference(argument, value),
            "allOf" => self.each(argument, |check, schema| check.all(schema, value)),
            "anyOf" => self.alternatives(argument, value, false),
            "oneOf" => self.alternatives(argument, value, true),
            "not" => match self.quietly(|check| check.all(argument, value)).negated() {
                Fit::No => self.problem("fits what it must not be"),
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
            // Keywords that assert something, and are not understood here.
            "$dynamicRef"
            | "$recursiveRef"
            | "unevaluatedProperties"
            | "unevaluatedItems"
            | "dependencies"
            | "additionalItems" => Fit::Unsure,
            _ => return None,
        })
    }

    fn reference(&mut self, argument: &Value, value: &Value) -> Fit {
        let target = argument.as_str().and_then(|reference| self.referenced(reference));
        target.map_or(Fit::Unsure, |schema| self.all(schema, value))
    }

    /// Demands that all of a list of schemas fit.
    fn each(&mut self, argument: &'s Value, one: impl Fn(&mut Self, &'s Value) -> Fit) -> Fit {
        let Some(schemas) = argument.as_array() else { return Fit::Unsure };
        schemas.iter().fold(Fit::Yes, |fit, schema| fit.and(one(self, schema)))
    }

    fn alternatives(&mut self, argument: &'s Value, value: &Value, only_one: bool) -> Fit {
        let schemas = argument.as_array().filter(|schemas| !schemas.is_empty());
        let Some(schemas) = schemas else { return Fit::Unsure };
        let (mut fitting, mut unsure) = (0_u32, false);
        for schema in schemas {
            match self.quietly(|check| check.all(schema, value)) {
                Fit::Yes => fitting += 1,
                Fit::No => {}
                Fit::Unsure => unsure = true,
            }
            if fitting > 0 && !only_one {
                return Fit::Yes;
            }
        }
        match (fitting, unsure) {
            (2.., _) => self.problem("fits more than one of the alternatives"),
            (_, true) => Fit::Unsure,
            (1, false) => Fit::Yes,
            (0, false) if schemas.len() == 1 => self.all(&schemas[0], value),
            (0, false) => self.problem("fits none of the alternatives"),
        }
    }

    fn conditional(&mut self, keywords: &'s Keywords, argument: &'s Value, value: &Value) -> Fit {
        let branch = match self.quietly(|check| check.all(argument, value)) {
            Fit::Yes => keywords.get("then"),
            Fit::No => keywords.get("else"),
            Fit::Unsure => return Fit::Unsure,
        };
        branch.map_or(Fit::Yes, |schema| self.all(schema, value))
    }

    fn members(&mut self, argument: &'s Value, value: &Value) -> Fit {
        let Some(members) = value.as_object() else { return Fit::Yes };
        let Some(schemas) = argument.as_object() else { return Fit::Unsure };
        let mut fit = Fit::Yes;
        for (name, member) in members {
            if let Some(schema) = schemas.get(name) {
                fit = fit.and(self.below(name.clone(), schema, member));
            }
        }
        fit
    }

    fn matching_members(&mut self, argument: &'s Value, value: &Value) -> Fit {
        let Some(members) = value.as_object() else { return Fit::Yes };
        let Some(schemas) = argument.as_object() else { return Fit::Unsure };
        let mut fit = Fit::Yes;
        for (expression, schema) in schemas {
            for (name, member) in members {
                fit = fit.and(match self.matches(expression, name) {
                    Fit::Yes => self.below(name.clone(), schema, member),
                    Fit::No => Fit::Yes,
                    Fit::Unsure => Fit::Unsure,
                });
            }
        }
        fit
    }

    fn additional(&mut self, keywords: &'s Keywords, argument: &'s Value, value: &Value) -> Fit {
        let Some(members) = value.as_object() else { return Fit::Yes };
        let known = keywords.get("properties").and_then(Value::as_object);
        let mut fit = Fit::Yes;
        for (name, member) in members {
            if known.is_some_and(|known| known.contains_key(name)) {
                continue;
            }
            fit = fit.and(match self.is_matching(keywords, name) {
                Fit::Yes => Fit::Yes,
                Fit::Unsure => Fit::Unsure,
                Fit::No if argument == &Value::Bool(false) => self.unknown_member(known, name),
                Fit::No => self.below(name.clone(), argument, member),
            });
        }
        fit
    }

    /// Says whether a member falls under `patternProperties`.
    fn is_matching(&mut self, keywords: &'s Keywords, name: &str) -> Fit {
        let patterns = keywords.get("patternProperties").and_then(Value::as_object);
        let mut fit = Fit::No;
        for expression in patterns.into_iter().flat_map(Map::keys) {
            match self.matches(expression, name) {
                Fit::Yes => return Fit::Yes,
                Fit::Unsure => fit = Fit::Unsure,
                Fit::No => {}
            }
        }
        fit
    }

    fn unknown_member(&mut self, known: Option<&Keywords>, name: &str) -> Fit {
        let known = known.into_iter().flat_map(Map::keys).map(String::as_str);
        let alike =
            nearest(name, known, 1).pop().map(|alike| visible::escaped(&alike, SHOWN_BYTES));
        let alike = alike.map_or(String::new(), |alike| format!("; did you mean `{alike}`?"));
        let name = visible::escaped(name, SHOWN_BYTES);
        self.problem(&format!("cannot have `{name}`{alike}"))
    }

    fn names(&mut self, argument: &'s Value, value: &Value) -> Fit {
        let names = value.as_object().into_iter().flat_map(Map::keys);
        names.fold(Fit::Yes, |fit, name| {
            fit.and(self.below(name.clone(), argument, &Value::String(name.clone())))
        })
    }

    fn dependent(&mut self, keyword: &str, argument: &'s Value, value: &Value) -> Fit {
        let Some(members) = value.as_object() else { return Fit::Yes };
        let Some(dependents) = argument.as_object() else { return Fit::Unsure };
        let present = dependents.iter().filter(|(name, _)| members.contains_key(*name));
        present.fold(Fit::Yes, |fit, (_, demanded)| {
            fit.and(if keyword == "dependentSchemas" {
                self.all(demanded, value)
            } else {
                self.asserted("required", demanded, value).unwrap_or(Fit::Unsure)
            })
        })
    }

    fn first_elements(&mut self, argument: &'s Value, value: &Value) -> Fit {
        let Some(elements) = value.as_array() else { return Fit::Yes };
        let Some(schemas) = argument.as_array() else { return Fit::Unsure };
        let pairs = schemas.iter().zip(elements).enumerate();
        pairs.fold(Fit::Yes, |fit, (at, (schema, element))| {
            fit.and(self.below(format!("[{at}]"), schema, element))
        })
    }

    fn elements(&mut self, keywords: &Keywords, argument: &'s Value, value: &Value) -> Fit {
        let Some(elements) = value.as_array() else { return Fit::Yes };
        let first = keywords.get("prefixItems").and_then(Value::as_array).map_or(0, Vec::len);
        let mut fit = Fit::Yes;
        for (at, element) in elements.iter().enumerate().skip(first) {
            if !self.step(1) {
                return fit.and(Fit::Unsure);
            }
            fit = fit.and(self.below(format!("[{at}]"), argument, element));
        }
        fit
    }

    fn contains(&mut self, keywords: &Keywords, argument: &'s Value, value: &Value) -> Fit {
        let Some(elements) = value.as_array() else { return Fit::Yes };
        if keywords.contains_key("minContains") || keywords.contains_key("maxContains") {
            return Fit::Unsure;
        }
        let mut found = Fit::No;
        for element in elements {
            match self.quietly(|check| check.all(argument, element)) {
                Fit::Yes => return Fit::Yes,
                Fit::Unsure => found = Fit::Unsure,
                Fit::No => {}
            }
        }
        if found == Fit::No { self.problem("lacks an element that it must have") } else { found }
    }
}
