
use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;

use crate::bucket::BucketError;
use crate::replica::SegmentId;

///+ Maximum gap between two artifacts that are fetched with one request.
const GAP: u64 = 64 << 10;
///+ Maximum bytes of a request for several artifacts.
const MOST: u64 = 4 << 20;

///+ Ranges of segments by segment and start, each with its end or, once fetched, its bytes.
#[derive(Debug, Default)]
pub(super) struct Together<T = Bytes>(BTreeMap<(SegmentId, u64), T>);

impl Together<u64> {
    ///+ Coalesces the wanted ranges.
    pub(super) fn of(wanted: impl Iterator<Item = (SegmentId, Range<u64>)>) -> Self {
        let mut wanted: Vec<_> = wanted.map(|(id, range)| (id, range.start, range.end)).collect();
        wanted.sort_unstable();
        let mut pieces: Vec<(SegmentId, u64, u64)> = Vec::new();
        for (id, start, end) in wanted {
            match pieces.last_mut() {
                Some((last, begin, stop))
                    if *last == id && start <= stop.saturating_add(GAP) && end - *begin <= MOST =>
                {
                    *stop = end.max(*stop);
                }
                _ => pieces.push((id, start, end)),
            }
        }
        Self(pieces.into_iter().map(|(id, start, end)| ((id, start), end)).collect())
    }

    ///+ Fetches the ranges, and drops those that failed.
    pub(super) fn fetched(
        self,
        fetch: impl FnOnce(Vec<(SegmentId, Range<u64>)>) -> Vec<Result<Bytes, BucketError>>,
    ) -> Together {
        if self.0.is_empty() {
            return Together::default();
        }
        let wanted = self.0.iter().map(|((id, start), end)| (*id, *start..*end)).collect();
        let fetched = self.0.keys().copied().zip(fetch(wanted));
        // A range that failed is requested alone later, which reports the error.
        Together(fetched.filter_map(|(at, bytes)| Some((at, bytes.ok()?))).collect())
    }
}

impl Together {
    pub(super) fn get(&self, id: SegmentId, range: &Range<u64>) -> Option<Bytes> {
        let ((_, start), bytes) = self.0.range((id, 0)..=(id, range.start)).next_back()?;
        let within = range.start - start..range.end - start;
        (within.end <= bytes.len() as u64)
            .then(|| bytes.slice(within.start as usize..within.end as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> SegmentId {
        format!("00000000000000ab-{number:012}").parse().unwrap()
    }

    #[test]
    fn what_is_near_comes_with_one_request() {
        let wanted = [
            (id(2), 0..10),
            (id(1), 200..300),
            (id(1), 100..150),
            (id(1), 300 + GAP + 1..300 + GAP + 9),
            (id(2), 10..MOST),
            (id(2), MOST..MOST + 1),
        ];
        let together = Together::of(wanted.iter().cloned());
        let fetched = together.fetched(|asked| {
            let far = 300 + GAP + 1;
            let expected = [
                (id(1), 100..300),
                (id(1), far..far + 8),
                (id(2), 0..MOST),
                (id(2), MOST..MOST + 1),
            ];
            assert_eq!(asked, expected);
            let bytes =
                |range: &Range<u64>| Bytes::from(vec![7; (range.end - range.start) as usize]);
            asked.iter().map(|(_, range)| Ok(bytes(range))).collect()
        });
        for (id, range) in wanted {
            let length = (range.end - range.start) as usize;
            assert_eq!(fetched.get(id, &range).unwrap().len(), length);
        }
        assert_eq!(fetched.get(id(1), &(90..110)), None);
        assert_eq!(fetched.get(id(1), &(290..310)), None);
        assert_eq!(fetched.get(id(3), &(0..1)), None);
    }

    #[test]
    fn what_does_not_come_is_not_there() {
        let together = Together::of([(id(1), 0..9)].into_iter());
        let away = BucketError::Away { what: "get".to_owned(), why: "test".to_owned() };
        assert_eq!(together.fetched(|_| vec![Err(away)]).get(id(1), &(0..9)), None);
        let nothing = Together::of(std::iter::empty()).fetched(|_| unreachable!("no request"));
        assert_eq!(nothing.get(id(1), &(0..9)), None);
    }
}
