//! Divides the byte budget of a reply fairly among its results.

/// The space that a result needs in a reply, in bytes. `size` is its full size. `min` is the size
/// of its shortest stand-in: a reference and one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SizeRequest {
    pub(crate) size: usize,
    pub(crate) min: usize,
}

impl SizeRequest {
    fn at(self, level: usize) -> usize {
        self.size.min(level.max(self.min))
    }
}

/// Returns the number of bytes that each result may use in a reply of `budget` bytes.
///
/// A small result gets its full size, and the others share the rest equally. Every result gets at
/// least its `min`, so the sum exceeds `budget` only if every result is at its minimum.
pub(crate) fn shares(wanted: &[SizeRequest], budget: usize) -> Vec<usize> {
    let level = highest_level(wanted, budget);
    wanted.iter().map(|one| one.at(level)).collect()
}

fn highest_level(wanted: &[SizeRequest], budget: usize) -> usize {
    let fits = |level: usize| {
        let all = wanted.iter().try_fold(0_usize, |sum, one| sum.checked_add(one.at(level)));
        all.is_some_and(|all| all <= budget)
    };
    let largest = wanted.iter().map(|one| one.size).max().unwrap_or(0);
    let (mut low, mut high) = (0, largest);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if fits(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn wanted(pairs: &[(usize, usize)]) -> Vec<SizeRequest> {
        pairs.iter().map(|&(size, min)| SizeRequest { size, min }).collect()
    }

    #[test]
    fn small_ones_are_whole_and_the_rest_is_shared_equally() {
        type Row<'a> = (&'a [(usize, usize)], usize, &'a [usize]);
        let table: &[Row<'_>] = &[
            (&[], 100, &[]),
            (&[(10, 5)], 100, &[10]),
            (&[(10, 5), (1000, 5), (1000, 5)], 100, &[10, 45, 45]),
            (&[(50, 5), (50, 5)], 100, &[50, 50]),
            (&[(51, 5), (50, 5)], 100, &[50, 50]),
            (&[(1000, 70), (1000, 5), (1000, 5)], 100, &[70, 15, 15]),
            // The budget only covers the minimums, or not even those.
            (&[(1000, 60), (1000, 60)], 100, &[60, 60]),
            (&[(1000, 60), (20, 60)], 0, &[60, 20]),
            (&[(usize::MAX, 5), (usize::MAX, 5)], 100, &[50, 50]),
        ];
        for (sizes, budget, expected) in table {
            assert_eq!(shares(&wanted(sizes), *budget), *expected, "{sizes:?} in {budget}");
        }
    }

    fn any_wanted() -> impl Strategy<Value = Vec<SizeRequest>> {
        let one = (0..3000_usize, 0..300_usize);
        prop::collection::vec(one.prop_map(|(size, min)| SizeRequest { size, min }), 0..12)
    }

    proptest! {
        #[test]
        fn the_sum_is_within_the_budget_where_it_can_be(all in any_wanted(), budget in 0..9000_usize) {
            let shares = shares(&all, budget);
            let min: usize = all.iter().map(|one| one.min.min(one.size)).sum();
            prop_assert!(shares.iter().sum::<usize>() <= budget.max(min));
        }

        #[test]
        fn nothing_that_could_be_shared_is_left(all in any_wanted(), budget in 0..9000_usize) {
            let shares = shares(&all, budget);
            let cut = all.iter().zip(&shares).filter(|(one, share)| **share < one.size).count();
            let sum: usize = shares.iter().sum();
            prop_assert!(cut == 0 || sum + cut > budget);
        }

        #[test]
        fn none_gets_less_than_its_least_or_more_than_it_wants(
            all in any_wanted(), budget in 0..9000_usize,
        ) {
            for (one, share) in all.iter().zip(shares(&all, budget)) {
                prop_assert!(one.min.min(one.size) <= share && share <= one.size);
            }
        }

        #[test]
        fn who_wants_more_gets_no_less(all in any_wanted(), budget in 0..9000_usize) {
            let shares = shares(&all, budget);
            for (a, share) in all.iter().zip(&shares) {
                for (b, other) in all.iter().zip(&shares) {
                    prop_assert!(a.size > b.size || a.min > b.min || share <= other);
                }
            }
        }

        #[test]
        fn a_larger_budget_takes_nothing_from_anyone(
            all in any_wanted(), budget in 0..9000_usize, more in 0..500_usize,
        ) {
            let (before, after) = (shares(&all, budget), shares(&all, budget + more));
            prop_assert!(before.iter().zip(&after).all(|(before, after)| before <= after));
        }

        #[test]
        fn the_order_does_not_matter(all in any_wanted(), budget in 0..9000_usize) {
            let mut turned = all.clone();
            turned.reverse();
            let mut back = shares(&turned, budget);
            back.reverse();
            prop_assert_eq!(back, shares(&all, budget));
        }
    }
}
