//! Equality of JSON values, as JSON Schema has it.

use serde_json::{Number, Value};

/// Returns true if both are the same value: 1 and 1.0 are.
pub(super) fn equal(a: &Value, b: &Value) -> bool {
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

/// Returns true if a number has no fraction.
pub(super) fn is_integer(number: &Number) -> bool {
    number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|n| n.fract() == 0.0)
}
