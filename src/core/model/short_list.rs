//! Lists in JSON of others, of a bounded length: a server may send millions of empty blocks.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A list of at most `MOST` entries. A longer one is an error, before it takes memory.
#[derive(Debug)]
pub struct ShortList<T, const MOST: usize>(pub Vec<T>);

struct ListVisitor<T, const MOST: usize>(PhantomData<T>);

impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for ListVisitor<T, MOST> {
    type Value = ShortList<T, MOST>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {MOST} entries")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut taken = Vec::new();
        while let Some(entry) = list.next_element()? {
            if taken.len() == MOST {
                return Err(A::Error::invalid_length(MOST + 1, &self));
            }
            taken.push(entry);
        }
        Ok(ShortList(taken))
    }
}

impl<'de, T: Deserialize<'de>, const MOST: usize> Deserialize<'de> for ShortList<T, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ListVisitor(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_is_refused() {
        let parse = |count: usize| {
            let list = vec!["0"; count].join(",");
            serde_json::from_str::<ShortList<u8, 10_000>>(&format!("[{list}]"))
        };
        assert_eq!(parse(10_000).unwrap().0.len(), 10_000);
        assert!(parse(10_001).unwrap_err().to_string().contains("at most 10000 entries"));
        assert!(serde_json::from_str::<ShortList<u8, 9>>("{}").is_err());
    }
}
