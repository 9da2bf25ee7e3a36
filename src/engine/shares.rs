//! The shares of clients in scarce resources of a server, such as memory and descriptors.
//!
//! A conversation may hold at most as much as it leaves free. A single conversation may hold half
//! of the resource. While it holds half, a second conversation may hold a quarter. There is thus
//! always room for one more client, no part of the resource is reserved for idle clients, and a
//! client that holds little is rarely refused.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use crate::sync::Mutex;
use ctxfs_core::model::Component;

/// Number of units that a user may hold for each unit that is left free. The corresponding factor
/// of a conversation is 1. The factor of a user is larger because it covers all conversations of
/// the user.
const USERS_SHARE: u64 = 7;

/// The client to which a share is charged.
///
/// - `conversation`: `None` for a resource that belongs to no conversation, such as the root's
///   listing
/// - `user`: `None` if users are not told apart
#[derive(Debug, Clone, Default)]
pub struct Client {
    pub conversation: Option<Component>,
    pub user: Option<u32>,
}

/// A resource that clients share, in bytes or pieces.
#[derive(Debug)]
pub struct Shares {
    most: u64,
    held: Mutex<HeldAmounts>,
}

#[derive(Debug, Default)]
struct HeldAmounts {
    all: u64,
    by_conversation: HashMap<Option<Component>, u64>,
    by_user: HashMap<u32, u64>,
}

/// An amount that a client holds. Dropping the share releases the amount.
#[derive(Debug)]
pub struct Share {
    shares: Arc<Shares>,
    by: Arc<Client>,
    amount: u64,
}

impl Shares {
    /// Creates a resource of `most` units.
    pub fn new(most: u64) -> Arc<Self> {
        Arc::new(Self { most, held: Mutex::default() })
    }

    pub fn holder(self: &Arc<Self>, by: impl Into<Arc<Client>>) -> Share {
        Share { shares: Arc::clone(self), by: by.into(), amount: 0 }
    }

    /// Returns a share of `amount` for the client `by`. Returns `None` if the client may not hold
    /// that much.
    pub fn claim(self: &Arc<Self>, by: impl Into<Arc<Client>>, amount: u64) -> Option<Share> {
        let mut share = self.holder(by);
        share.try_resize(amount).then_some(share)
    }

    pub(crate) fn held(&self) -> u64 {
        self.held.lock().all
    }
}

impl Share {
    /// Changes the amount. If `amount` is larger than before and the client may not hold that much,
    /// returns false and changes nothing.
    pub(crate) fn try_resize(&mut self, amount: u64) -> bool {
        let mut held = self.shares.held.lock();
        if amount > self.amount && !held.fits(self, amount) {
            return false;
        }
        held.set(&self.by, self.amount, amount);
        drop(held);
        self.amount = amount;
        true
    }

    /// Changes the amount without a check. Used where a refusal would cost more than exceeding the
    /// share.
    pub(crate) fn resize(&mut self, amount: u64) {
        self.shares.held.lock().set(&self.by, self.amount, amount);
        self.amount = amount;
    }

    pub(crate) fn another(&self) -> Self {
        self.shares.holder(Arc::clone(&self.by))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.resize(0);
    }
}

impl HeldAmounts {
    fn fits(&self, share: &Share, amount: u64) -> bool {
        let with = |held: u64| (held - share.amount).saturating_add(amount);
        let left = share.shares.most.saturating_sub(with(self.all));
        let mine =
            self.by_conversation.get(&share.by.conversation).map_or(amount, |held| with(*held));
        let users = |user| self.by_user.get(&user).map_or(amount, |held| with(*held));
        mine <= left
            && share.by.user.is_none_or(|user| users(user) <= left.saturating_mul(USERS_SHARE))
    }

    fn set(&mut self, by: &Client, before: u64, after: u64) {
        if before == after {
            return;
        }
        self.all = self.all - before + after;
        change(&mut self.by_conversation, &by.conversation, before, after);
        if let Some(user) = by.user {
            change(&mut self.by_user, &user, before, after);
        }
    }
}

fn change<K: Clone + Eq + Hash>(held: &mut HashMap<K, u64>, by: &K, before: u64, after: u64) {
    let mine = held.entry(by.clone()).or_default();
    *mine = *mine - before + after;
    if *mine == 0 {
        held.remove(by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u64 = 1 << 20;

    fn client(conversation: &str, user: Option<u32>) -> Arc<Client> {
        Arc::new(Client { conversation: Component::new(conversation).ok(), user })
    }

    /// Claims single units for `by` until a claim is refused.
    fn all(shares: &Arc<Shares>, by: &Arc<Client>) -> Vec<Share> {
        std::iter::from_fn(|| shares.claim(Arc::clone(by), 1)).collect()
    }

    #[test]
    fn there_is_always_room_for_one_more() {
        let shares = Shares::new(1000);
        let greedy: Vec<_> =
            (0..6).map(|number| all(&shares, &client(&format!("c{number}"), None))).collect();
        assert_eq!(greedy.iter().map(Vec::len).collect::<Vec<_>>(), [500, 250, 125, 62, 31, 16]);
        assert_eq!(all(&shares, &Arc::default()).len(), 8);
        drop(greedy);
        assert_eq!(all(&shares, &client("c0", None)).len(), 500);
        assert_eq!(shares.held(), 0);
        assert!(shares.held.lock().by_conversation.is_empty());
    }

    #[test]
    fn a_user_of_many_conversations_leaves_some_to_others() {
        let shares = Shares::new(1000);
        let greedy: Vec<_> =
            (0..20).map(|number| all(&shares, &client(&format!("c{number}"), Some(7)))).collect();
        assert_eq!(greedy.iter().map(Vec::len).sum::<usize>(), 875);
        assert_eq!(all(&shares, &client("d", Some(8))).len(), 62);
        drop(greedy);
        assert!(shares.held.lock().by_user.is_empty());
    }

    #[test]
    fn several_are_claimed_at_once_or_none() {
        let shares = Shares::new(9);
        let held = shares.claim(client("c", None), 3).unwrap();
        assert!(shares.claim(client("c", None), 2).is_none());
        drop(held);
        assert!(shares.claim(client("c", None), 4).is_some());
    }

    #[test]
    fn each_gets_as_much_as_is_left() {
        let shares = Shares::new(ALL);
        let mut first = shares.holder(client("a", None));
        assert!(first.try_resize(ALL / 2));
        assert!(!first.try_resize(ALL / 2 + 1));
        assert!(!first.another().try_resize(1), "another one has no share of its own");
        let mut second = shares.holder(client("b", None));
        assert!(second.try_resize(ALL / 4));
        assert!(!second.try_resize(ALL / 4 + 1));
        let mut third = shares.holder(Client::default());
        assert!(third.try_resize(ALL / 8), "there is room for one more");
        assert!(first.try_resize(ALL / 3), "less is always granted");
        assert!(second.try_resize(ALL / 4 + 1));
    }

    #[test]
    fn all_is_given_back() {
        let shares = Shares::new(ALL);
        let held: Vec<Share> = (0..100)
            .map(|number| {
                let mut held = shares.holder(client(&format!("c{}", number % 7), None));
                held.resize(ALL);
                held
            })
            .collect();
        assert_eq!(shares.held(), 100 * ALL);
        assert!(!shares.holder(client("new", None)).try_resize(1));
        drop(held);
        assert_eq!((shares.held(), shares.held.lock().by_conversation.len()), (0, 0));
        assert!(shares.holder(client("c1", None)).try_resize(ALL / 2));
    }
}
