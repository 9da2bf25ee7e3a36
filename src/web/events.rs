//! Server-sent events about changes of the topics that a browser tab follows.
//!
//! One task checks all topics a few times per second, regardless of the number of tabs.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream::unfold;
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;

use crate::{Followed, Following, Result, Site, Topic, TopicChange, WebError};

const TOPICS: usize = 128;
const ALIVE: Duration = Duration::from_secs(15);

/// Streams the changes of the topics in `watched`. Topics of missing or hidden conversations are
/// skipped instead of failing the request, because all tabs of a browser share the connection.
pub(super) fn answer(site: &Arc<Site>, watched: &[String]) -> Result<Response> {
    if watched.is_empty() || watched.len() > TOPICS {
        return Err(WebError::Bad(format!("give 1 to {TOPICS} topics as `watch`")));
    }
    let topics = watched.iter().map(|text| Topic::parse(text)).collect::<Result<Vec<_>, _>>()?;
    let is_there = |topic: &Topic| {
        topic.conversation().is_none_or(|id| site.conversation(&id.to_text()).is_ok())
    };
    let topics: Vec<_> = topics.into_iter().filter(is_there).collect();
    if topics.is_empty() {
        return Err(WebError::Missing);
    }
    let permit = Arc::clone(&site.streams).try_acquire_owned().map_err(|_| WebError::Busy)?;
    let following = site.followers.follow(topics)?;
    let events = unfold((following, permit), |(mut following, permit)| async {
        let event = next(&mut following).await?;
        Some((Ok::<_, Infallible>(event), (following, permit)))
    });
    let alive = KeepAlive::new().interval(ALIVE);
    Ok(Sse::new(events).keep_alive(alive).into_response())
}

async fn next(following: &mut Following) -> Option<Event> {
    loop {
        match following.changes.recv().await {
            Ok((topic, change)) if following.topics.contains(&topic) => {
                return Some(event(&topic, change));
            }
            Ok(_) => {}
            // The tab loads everything again.
            Err(RecvError::Lagged(_)) => return Some(Event::default().event("missed").data("{}")),
            Err(RecvError::Closed) => return None,
        }
    }
}

fn event(topic: &Topic, change: TopicChange) -> Event {
    let data = json!({"topic": topic.to_string(), "size": change.size, "live": change.is_live});
    Event::default().event("changed").data(data.to_string())
}

const TICK: Duration = Duration::from_millis(250);
// Time after which a live output that does not grow is examined completely.
const SETTLED: Duration = Duration::from_secs(1);

pub(super) async fn watch(site: &Arc<Site>) {
    loop {
        let topics = site.followers.all();
        if topics.is_empty() {
            site.followers.wanted().await;
            continue;
        }
        let shared = Arc::clone(site);
        let look = move || {
            let looked = topics.into_iter().filter_map(|(topic, followed)| {
                let change = look_at(&shared, &topic, &followed)?;
                Some((topic, change))
            });
            Ok(looked.collect::<Vec<_>>())
        };
        for (topic, change) in site.work.wait(look).await.unwrap_or_default() {
            site.followers.tell(topic, change);
        }
        tokio::select! {
            () = tokio::time::sleep(TICK) => {}
            () = site.followers.wanted() => {}
        }
    }
}

// Returns the state of a topic, or `None` if it cannot have changed or cannot be read.
fn look_at(site: &Arc<Site>, topic: &Topic, followed: &Followed) -> Option<TopicChange> {
    match topic {
        Topic::Conversations => {
            Some(TopicChange { size: None, is_live: false, number: site.catalog.version() })
        }
        Topic::Conversation(id) => {
            site.engine.others().ask_for_outputs_soon(id).ok()?;
            let number = site.engine.conversation(id).ok()?.state_number().ok()?;
            Some(TopicChange { size: None, is_live: false, number })
        }
        Topic::Output(id, path) => {
            let stat = site.engine.conversation(id).ok()?.dir().stat_at(path).ok()?;
            let number = stat.mtime.as_nanos().cast_unsigned();
            if let Some(known) = followed.known
                && (known.size, known.number) == (Some(stat.size), number)
                && (!known.is_live || followed.at.elapsed() < SETTLED)
            {
                return None;
            }
            let look = site.look(id, &path.to_text()).ok()?;
            Some(TopicChange { size: Some(look.size()), is_live: look.is_live(), number })
        }
    }
}
