//! The topics that browser tabs follow, and their changes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::broadcast::{Receiver, Sender};
use tokio::sync::{Notify, broadcast};

use crate::{Result, WebError};
use ctxfs_core::model::{Component, RelPath};

// Maximum number of followed topics.
const TOPICS: usize = 512;
// Maximum number of changes that a slow tab may lag behind. A tab that lags further loads
// everything again.
const BEHIND: usize = 256;

/// A topic that a tab follows: the list of conversations, the messages and outputs of one
/// conversation, or one output.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Topic {
    Conversations,
    Conversation(Component),
    Output(Component, RelPath),
}

/// The state of a topic. `number` changes with the state. For an output, `size` is its size, and
/// `is_live` is true while the output is live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TopicChange {
    pub(super) size: Option<u64>,
    pub(super) is_live: bool,
    pub(super) number: u64,
}

pub(super) struct Followers {
    topics: Arc<Mutex<HashMap<Topic, Followed>>>,
    changes: Sender<(Topic, TopicChange)>,
    wanted: Arc<Notify>,
}

// If `known` is `None`, the next check reports the state even if it has not changed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Followed {
    followers: usize,
    pub(super) known: Option<TopicChange>,
    pub(super) at: Instant,
}

/// The topics that one tab follows. When this value is dropped, the tab stops following them.
#[derive(Debug)]
pub(super) struct Following {
    all: Arc<Mutex<HashMap<Topic, Followed>>>,
    pub(super) topics: Vec<Topic>,
    pub(super) changes: Receiver<(Topic, TopicChange)>,
}

impl Topic {
    // Parses `/`, `c/ID` or `o/ID/PATH`.
    pub(super) fn parse(text: &str) -> Result<Self> {
        if text == "/" {
            return Ok(Self::Conversations);
        }
        let (kind, rest) = text.split_once('/').ok_or(WebError::Missing)?;
        match kind {
            "c" => Ok(Self::Conversation(Component::from_text(rest)?)),
            "o" => {
                let (id, path) = rest.split_once('/').ok_or(WebError::Missing)?;
                Ok(Self::Output(Component::from_text(id)?, RelPath::from_text(path)?))
            }
            _ => Err(WebError::Missing),
        }
    }

    pub(super) fn conversation(&self) -> Option<&Component> {
        match self {
            Self::Conversations => None,
            Self::Conversation(id) | Self::Output(id, _) => Some(id),
        }
    }
}

impl std::fmt::Display for Topic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Conversations => f.write_str("/"),
            Self::Conversation(id) => write!(f, "c/{id}"),
            Self::Output(id, path) => write!(f, "o/{id}/{path}"),
        }
    }
}

impl Default for Followers {
    fn default() -> Self {
        let (changes, _) = broadcast::channel(BEHIND);
        Self { topics: Arc::default(), changes, wanted: Arc::default() }
    }
}

impl Followers {
    // Follows topics. The state of each topic is reported at once and after each change.
    pub(super) fn follow(&self, topics: Vec<Topic>) -> Result<Following> {
        let mut all = self.topics.lock();
        let new = topics.iter().filter(|topic| !all.contains_key(topic)).count();
        if all.len() + new > TOPICS {
            return Err(WebError::Busy);
        }
        // Subscribes before the first check, so that no change is missed.
        let changes = self.changes.subscribe();
        for topic in &topics {
            let fresh = Followed { followers: 0, known: None, at: Instant::now() };
            let followed = all.entry(topic.clone()).or_insert(fresh);
            followed.followers += 1;
            followed.known = None;
        }
        drop(all);
        self.wanted.notify_one();
        Ok(Following { all: Arc::clone(&self.topics), topics, changes })
    }

    pub(super) fn all(&self) -> Vec<(Topic, Followed)> {
        self.topics.lock().iter().map(|(topic, followed)| (topic.clone(), *followed)).collect()
    }

    pub(super) async fn wanted(&self) {
        self.wanted.notified().await;
    }

    // Reports a state to the followers if it has changed.
    pub(super) fn tell(&self, topic: Topic, change: TopicChange) {
        if let Some(followed) = self.topics.lock().get_mut(&topic) {
            let is_new = followed.known != Some(change);
            followed.known = Some(change);
            followed.at = Instant::now();
            if !is_new {
                return;
            }
        }
        // There may be no receivers.
        drop(self.changes.send((topic, change)));
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let mut all = self.all.lock();
        for topic in &self.topics {
            let Some(followed) = all.get_mut(topic) else { continue };
            followed.followers -= 1;
            if followed.followers == 0 {
                all.remove(topic);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topics_come_back_from_their_text() {
        for text in ["/", "c/c7", "o/c7/artifacts/tool/x y.txt", "c/a\\xffb"] {
            assert_eq!(Topic::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "c", "x/y", "o/c7", "c/..", "o/c7/../x", "c/a/b"] {
            assert!(Topic::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_nobody_follows_is_forgotten() {
        let followers = Followers::default();
        let topic = Topic::parse("c/c7").unwrap();
        let one = followers.follow(vec![topic.clone()]).unwrap();
        let two = followers.follow(vec![topic.clone(), Topic::Conversations]).unwrap();
        assert_eq!(followers.topics.lock()[&topic].followers, 2);
        drop(one);
        drop(two);
        assert!(followers.topics.lock().is_empty());
        let many = (0..=TOPICS).map(|n| Topic::parse(&format!("c/{n}")).unwrap()).collect();
        assert!(followers.follow(many).is_err());
    }

    #[test]
    fn a_change_is_told_once() {
        let followers = Followers::default();
        let topic = Topic::parse("c/c7").unwrap();
        let mut following = followers.follow(vec![topic.clone()]).unwrap();
        let change = TopicChange { size: Some(3), is_live: true, number: 1 };
        followers.tell(topic.clone(), change);
        followers.tell(topic.clone(), change);
        assert_eq!(following.changes.try_recv().unwrap(), (topic, change));
        assert!(following.changes.try_recv().is_err());
    }
}
