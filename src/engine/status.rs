//! `.ctxfs/status.json`, `.ctxfs/metrics`: what a server is and has counted.

use serde_json::Value;
use serde_json::json;

use crate::engine::Engine;
use crate::engine::Result;
use crate::engine::metrics;
use crate::engine::metrics::Gauge;
use crate::model::Component;
use crate::model::Sums;

impl Engine {
    /// Returns the sums of all conversations that this door shows, up to now.
    pub fn sums(&self) -> Result<Sums> {
        self.counting.save(&self.store);
        let mut sums = Sums::default();
        let shown = match &self.options.only {
            Some(id) => vec![id.clone()],
            None => self.store.conversations()?,
        };
        for id in shown {
            if let Some(conversation) = self.store.conversation(&id)? {
                sums.add(&conversation.counted()?);
            }
        }
        Ok(sums)
    }

    /// Returns the page for Prometheus, with the numbers that the door adds.
    pub(crate) fn metrics(&self, gauges: &[Gauge]) -> Result<String> {
        let uptime = self.started.elapsed().as_secs();
        let uptime = ("ctxfs_uptime_seconds", "Since the server started.", uptime);
        let gauges = [&[uptime], gauges].concat();
        let page = metrics::page(&self.sums()?, &gauges);
        Ok(page.map_err(std::io::Error::other)?)
    }

    /// Returns the status page, with the members that the door adds.
    pub(crate) fn status(&self, door: &Value) -> Result<String> {
        let Sums { total, .. } = self.sums()?;
        let mut status = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
            "store": self.store.root(),
            "prefix": self.options.prefix,
            "only": self.options.only.as_ref().map(Component::to_text),
            "uptimeSeconds": self.started.elapsed().as_secs(),
            "keptViewBytes": self.texts.weight(),
            "counters": self.counters.to_json(),
            "counted": total,
            "savedBytes": total.saved_bytes(),
            "savedTokens": total.saved_tokens(),
        });
        if let (Value::Object(status), Value::Object(door)) = (&mut status, door) {
            status.extend(door.clone());
        }
        Ok(format!("{status:#}\n"))
    }
}
