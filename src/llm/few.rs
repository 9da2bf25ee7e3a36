//! A list that is short.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::Deserializer;
use serde::de::Error as _;
use serde::de::SeqAccess;
use serde::de::Visitor;

/// The most elements: more than any reply has, and few enough that a reply of empty ones takes no
/// more memory than its text.
const MOST: usize = 1024;

/// A list of at most 1024 elements, which is empty if it is `null`. A longer one is an error before
/// it takes memory.
pub(super) struct Few<T>(pub(super) Vec<T>);

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Few<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FewVisitor(PhantomData))
    }
}

struct FewVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for FewVisitor<T> {
    type Value = Few<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {MOST} elements")
    }

    fn visit_unit<E>(self) -> Result<Few<T>, E> {
        Ok(Few::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Few<T>, A::Error> {
        let mut few = Vec::new();
        while let Some(element) = list.next_element()? {
            if few.len() == MOST {
                return Err(A::Error::invalid_length(MOST + 1, &self));
            }
            few.push(element);
        }
        Ok(Few(few))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_is_an_error() {
        let of = |text: &str| serde_json::from_str::<Few<u8>>(text).map(|few| few.0);
        assert!(of("null").unwrap().is_empty());
        assert_eq!(of("[1, 2]").unwrap(), [1, 2]);
        assert!(of("{}").is_err());
        assert!(of(&format!("[{}0]", "0,".repeat(MOST - 1))).is_ok());
        assert!(of(&format!("[{}0]", "0,".repeat(MOST))).is_err());
    }
}
