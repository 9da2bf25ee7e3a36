use crate::find::matcher::Hit;
use crate::find::term::Fit;

// Worst first.
const FITS: [Fit; 4] = [Fit::Inside, Fit::Begins, Fit::Form, Fit::Same];

/// A set of words, each with its best fit. `sets` has, for each of [`FITS`], the words that fit at
/// least that well, as bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Found {
    sets: [u64; 4],
}

impl Found {
    pub(super) fn of(hits: &[Hit]) -> Self {
        let mut found = Self::default();
        for hit in hits {
            found.add(hit);
        }
        found
    }

    pub(super) fn add(&mut self, hit: &Hit) {
        for (set, fit) in self.sets.iter_mut().zip(FITS) {
            *set |= u64::from(fit <= hit.fit) << hit.term;
        }
    }

    pub(super) fn join(&mut self, other: &Self) {
        self.sets.iter_mut().zip(other.sets).for_each(|(set, more)| *set |= more);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sets[0] == 0
    }

    /// Returns the numbers of the words as bits.
    pub(super) fn terms(&self) -> u64 {
        self.sets[0]
    }

    /// Returns the sum of the weights of the words, each multiplied by how well it fits.
    pub(super) fn value(&self, weights: &[f64]) -> f64 {
        let worth = |(number, weight): (usize, &f64)| {
            let fits = self.sets.iter().zip(FITS).rev();
            let fit = fits.clone().find(|(set, _)| *set >> number & 1 == 1);
            fit.map_or(0.0, |(_, fit)| weight * fit.factor())
        };
        if self.is_empty() {
            0.0
        } else {
            weights.iter().enumerate().map(|(n, w)| worth((n, w))).sum()
        }
    }
}
