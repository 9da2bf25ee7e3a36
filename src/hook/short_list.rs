//! Lists in events, of a bounded length: a server may send millions of empty blocks.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::Deserializer;
use serde::de::Error as _;
use serde::de::SeqAccess;
use serde::de::Visitor;

/// The most entries. A result has one for each text or image.
const MOST: usize = 10_000;

/// A list. One that is longer is an error.
#[derive(Debug)]
pub(super) struct ShortList<T>(pub(super) Vec<T>);

struct ListVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
    type Value = ShortList<T>;

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

impl<'de, T: Deserialize<'de>> Deserialize<'de> for ShortList<T> {
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
            serde_json::from_str::<ShortList<u8>>(&format!("[{list}]"))
        };
        assert_eq!(parse(MOST).unwrap().0.len(), MOST);
        assert!(parse(MOST + 1).unwrap_err().to_string().contains("at most 10000 entries"));
    }
}
