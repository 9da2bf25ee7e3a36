//! Looks at what tabs follow, a few times a second however many follow it.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::site::Site;
use crate::topics::{Change, Followed, Topic};

/// The time between two looks.
const TICK: Duration = Duration::from_millis(250);
/// The time between two looks at all that is known of a live output that does not grow.
const SETTLED: Duration = Duration::from_secs(1);

/// Looks at all topics, for as long as the page is served.
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
                let change = look(&shared, &topic, &followed)?;
                Some((topic, change))
            });
            Ok(looked.collect::<Vec<_>>())
        };
        for (topic, change) in site.work.wait(look).await.unwrap_or_default() {
            site.followers.tell(topic, change);
        }
        tokio::select! {
            () = sleep(TICK) => {}
            () = site.followers.wanted() => {}
        }
    }
}

/// Looks at a topic. Returns none if nothing of it can have changed.
fn look(site: &Arc<Site>, topic: &Topic, followed: &Followed) -> Option<Change> {
    match topic {
        Topic::Conversations => {
            Some(Change { size: None, is_live: false, number: site.catalog.version() })
        }
        Topic::Conversation(id) => {
            site.engine.others().ask_for_outputs_soon(id).ok()?;
            let number = site.engine.conversation(id).ok()?.state_number().ok()?;
            Some(Change { size: None, is_live: false, number })
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
            Some(Change { size: Some(look.size()), is_live: look.is_live(), number })
        }
    }
}
