//! Ids of writers, segments and origins, and the clock that orders concurrent changes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

const WRITER_DIGITS: usize = 16;
const NUMBER_DIGITS: usize = 12;
const DIGEST_DIGITS: usize = 32;
const MAX_NUMBER: u64 = 999_999_999_999;

/// Error for a text that is not a valid id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no {kind}")]
pub struct ParseIdError {
    text: String,
    kind: &'static str,
}

impl ParseIdError {
    fn new(text: &str, kind: &'static str) -> Self {
        Self { text: text.to_owned(), kind }
    }
}

/// Id of a writer. A writer publishes segments with consecutive numbers. A store is one writer
/// until it detects a copy of itself; then it chooses a new id. An id is a random number. The text
/// form is 16 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct WriterId(pub u64);

/// Name of a segment: its writer, and its number among the segments of that writer, starting with
/// 1. The text form is `<writer>-<12 digits>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
#[expect(missing_docs, reason = "described above")]
pub struct SegmentId {
    pub writer: WriterId,
    pub number: u64,
}

/// Digest that distinguishes two segments of the same name. Such segments exist if a store was
/// copied. The text form is 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct SegmentDigest(u128);

/// Permanent identity of an artifact or message. It consists of the segment that first published it
/// and the number of its line in the records of that segment, starting with 0. The text form is
/// `<segment>:<place>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
#[expect(missing_docs, reason = "described above")]
pub struct Origin {
    pub segment: SegmentId,
    pub place: u32,
}

impl SegmentId {
    #[must_use]
    pub(crate) fn next(self) -> Self {
        Self { number: self.number + 1, ..self }
    }
}

impl SegmentDigest {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let hash = blake3::hash(bytes);
        Self(u128::from_be_bytes(hash.as_bytes().first_chunk().copied().unwrap_or_default()))
    }
}

impl fmt::Display for WriterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:0width$x}", self.0, width = WRITER_DIGITS)
    }
}

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:0width$}", self.writer, self.number, width = NUMBER_DIGITS)
    }
}

impl fmt::Display for SegmentDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:0width$x}", self.0, width = DIGEST_DIGITS)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.segment, self.place)
    }
}

impl FromStr for WriterId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let number = hexadecimal(text, WRITER_DIGITS).and_then(|number| number.try_into().ok());
        number.map(Self).ok_or_else(|| ParseIdError::new(text, "writer"))
    }
}

impl FromStr for SegmentDigest {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let number = hexadecimal(text, DIGEST_DIGITS);
        number.map(Self).ok_or_else(|| ParseIdError::new(text, "digest of a segment"))
    }
}

impl FromStr for SegmentId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let wrong = || ParseIdError::new(text, "segment");
        let (writer, number) = text.split_once('-').ok_or_else(wrong)?;
        if number.len() != NUMBER_DIGITS {
            return Err(wrong());
        }
        let number = decimal(number).map_err(|_| wrong())?;
        let writer = writer.parse().map_err(|_| wrong())?;
        let valid = (1..=MAX_NUMBER).contains(&number);
        valid.then_some(Self { writer, number }).ok_or_else(wrong)
    }
}

impl FromStr for Origin {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        let wrong = || ParseIdError::new(text, "origin");
        let (segment, place) = text.split_once(':').ok_or_else(wrong)?;
        let place = decimal(place).ok().and_then(|place| u32::try_from(place).ok());
        let segment = segment.parse().map_err(|_| wrong())?;
        Ok(Self { segment, place: place.ok_or_else(wrong)? })
    }
}

fn hexadecimal(text: &str, digits: usize) -> Option<u128> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let fits = text.len() == digits && text.bytes().all(is_digit);
    fits.then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

fn decimal(digits: &str) -> Result<u64, std::num::ParseIntError> {
    if digits.starts_with('+') { "".parse() } else { digits.parse() }
}

/// Implements the conversions that `serde` needs for ids that are texts in JSON.
macro_rules! text_form {
    ($error:ty: $($id:ty),+) => {$(
        impl From<$id> for String {
            fn from(id: $id) -> Self {
                id.to_string()
            }
        }

        impl TryFrom<String> for $id {
            type Error = $error;

            fn try_from(text: String) -> Result<Self, $error> {
                text.parse()
            }
        }
    )+};
}

pub(crate) use text_form;

text_form!(ParseIdError: WriterId, SegmentId, SegmentDigest, Origin);

/// Time of a hybrid logical clock. It is the time of a host's clock in microseconds since the
/// epoch, or a later time if the host has seen a later stamp. Stamps are used only to order
/// concurrent changes, so a wrong clock affects nothing but that order.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Stamp(pub u64);

/// Hybrid clock of a host. Each new stamp is later than all stamps that the host has created or
/// seen, even if the wall clock goes back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Clock {
    last: Stamp,
}

/// Latest accepted stamp, about 292,000 years after the epoch. A later stamp, from a host with a
/// wrong clock, counts as this one, so that this host can still create later stamps.
const LATEST: Stamp = Stamp(u64::MAX / 2);

impl Clock {
    pub(crate) fn last(self) -> Stamp {
        self.last
    }

    pub(crate) fn see(&mut self, stamp: Stamp) {
        self.last = self.last.max(stamp.min(LATEST));
    }

    /// Returns a stamp that is later than all earlier ones and not before `now`, which is in
    /// microseconds since the epoch.
    pub(crate) fn stamp(&mut self, now: u64) -> Stamp {
        self.last = Stamp((self.last.0 + 1).max(now.min(LATEST.0)));
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_back() {
        let segment = SegmentId { writer: WriterId(0xab), number: 7 };
        let origin = Origin { segment, place: 3 };
        assert_eq!(origin.to_string(), "00000000000000ab-000000000007:3");
        assert_eq!(origin.to_string().parse(), Ok(origin));
        assert_eq!(segment.next().number, 8);
        let digest = SegmentDigest::of(b"");
        assert_eq!(digest.to_string(), "af1349b9f5f9a1a6a0404dea36dcc949");
        assert_eq!(digest.to_string().parse(), Ok(digest));
        let json = serde_json::to_string(&origin).unwrap();
        assert_eq!(serde_json::from_str::<Origin>(&json).unwrap(), origin);
    }

    #[test]
    fn what_is_no_id() {
        for text in ["", "ab", "00000000000000AB", "00000000000000ab0", "+0000000000000ab"] {
            assert!(text.parse::<WriterId>().is_err(), "{text}");
        }
        let digest = SegmentDigest::of(b"").to_string();
        for text in
            ["", &digest[1..], &digest.to_uppercase(), &format!("{digest}0"), &"g".repeat(32)]
        {
            assert!(text.parse::<SegmentDigest>().is_err(), "{text}");
        }
        let writer = "00000000000000ab";
        for rest in ["", "-", "-7", "-000000000000", "-+00000000007", "-0000000000007"] {
            assert!(format!("{writer}{rest}").parse::<SegmentId>().is_err(), "{rest}");
        }
        for rest in ["", ":", ":+1", ":-1", ":4294967296", ":1:"] {
            let text = format!("{writer}-000000000007{rest}");
            assert!(text.parse::<Origin>().is_err(), "{rest}");
        }
    }

    #[test]
    fn each_stamp_is_later_than_all_that_was_seen() {
        let mut clock = Clock::default();
        let first = clock.stamp(100);
        clock.see(Stamp(500));
        let second = clock.stamp(100);
        assert!(first == Stamp(100) && second == Stamp(501) && clock.stamp(900) == Stamp(900));
        clock.see(Stamp(u64::MAX));
        assert!(clock.stamp(0) > LATEST, "a stamp from nowhere must not stop the clock");
    }
}
