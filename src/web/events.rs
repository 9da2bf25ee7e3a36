//! Server-sent events: the changes of what a tab follows.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream::unfold;
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;

use crate::error::WebError;
use crate::site::Site;
use crate::topics::{Change, Following, Topic};

/// The most topics of one connection.
const TOPICS: usize = 128;
/// The time after which an idle connection shows that it is alive.
const ALIVE: Duration = Duration::from_secs(15);

/// Answers with the changes of the topics in `watched`. Those of conversations that are not there, or
/// not shown, are passed over, as the other tabs of a browser share the connection.
pub(super) fn answer(site: &Arc<Site>, watched: &[String]) -> Result<Response, WebError> {
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
            // The tab looks at everything again.
            Err(RecvError::Lagged(_)) => return Some(Event::default().event("missed").data("{}")),
            Err(RecvError::Closed) => return None,
        }
    }
}

fn event(topic: &Topic, change: Change) -> Event {
    let data = json!({"topic": topic.to_string(), "size": change.size, "live": change.is_live});
    Event::default().event("changed").data(data.to_string())
}
