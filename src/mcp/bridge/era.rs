//! The two ways in which revisions of the protocol work.

use std::sync::atomic::{AtomicU8, Ordering};

/// The revision without `initialize` that the gateway speaks.
pub(crate) const MODERN: &str = "2026-07-28";

/// A way, by the words of the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    /// Up to 2025-11-25: `initialize` begins a session, and servers send requests.
    Legacy,
    /// Since 2026-07-28: each request says all that is needed, and results ask for input.
    Modern,
}

/// The era of a peer, once it is known.
#[derive(Debug, Default)]
pub(crate) struct KnownEra(AtomicU8);

/// Peers that speak different revisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Between {
    /// A client that speaks the older one.
    OldClient,
    /// A client that speaks the newer one.
    NewClient,
}

impl KnownEra {
    pub(crate) fn get(&self) -> Option<Era> {
        match self.0.load(Ordering::Relaxed) {
            1 => Some(Era::Legacy),
            2 => Some(Era::Modern),
            _ => None,
        }
    }

    pub(crate) fn set(&self, era: Era) {
        let number = match era {
            Era::Legacy => 1,
            Era::Modern => 2,
        };
        self.0.store(number, Ordering::Relaxed);
    }
}

impl Between {
    /// Returns `None` for peers that speak the same, or of whom one has not said what.
    pub(crate) fn of(client: Option<Era>, server: Option<Era>) -> Option<Self> {
        match (client?, server?) {
            (Era::Legacy, Era::Modern) => Some(Self::OldClient),
            (Era::Modern, Era::Legacy) => Some(Self::NewClient),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_different_eras_are_bridged() {
        let known = KnownEra::default();
        assert_eq!(known.get(), None);
        for era in [Era::Modern, Era::Legacy] {
            known.set(era);
            assert_eq!(known.get(), Some(era));
            assert_eq!(Between::of(Some(era), Some(era)), None);
            assert_eq!(Between::of(Some(era), None), None);
            assert_eq!(Between::of(None, Some(era)), None);
        }
        let between = |client, server| Between::of(Some(client), Some(server));
        assert_eq!(between(Era::Legacy, Era::Modern), Some(Between::OldClient));
        assert_eq!(between(Era::Modern, Era::Legacy), Some(Between::NewClient));
    }
}
