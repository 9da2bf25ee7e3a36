//! `.ctxfs/status.json`, `metrics` and `version`: what a server is and has counted.

use serde_json::{Value, json};

use crate::metrics::Gauge;
use crate::{Engine, Result, listing, metrics, others};
use ctxfs_core::model::{Component, Sums};

/// Returns the sums of the counts of all conversations that this door shows, up to now.
pub(super) fn sums(engine: &Engine) -> Result<Sums> {
    Ok(listing::counts(engine, &listing::shown(engine)?)?.sums)
}

/// Returns the page `.ctxfs/version`.
pub fn version_page() -> String {
    format!("{}\n", env!("CARGO_PKG_VERSION"))
}

/// Returns the page for Prometheus, with the gauges that the door adds.
pub(super) fn metrics(engine: &Engine, gauges: &[Gauge]) -> Result<String> {
    let uptime = engine.started.elapsed().as_secs();
    let uptime = ("ctxfs_uptime_seconds", "Since the server started.", uptime);
    let others = engine.options.other_hosts.as_ref().map(|others| others.report());
    let others = others.map(|report| others::gauges(&report)).unwrap_or_default();
    let gauges = [&[uptime], gauges, &others[..]].concat();
    let page = metrics::page(&engine.sums()?, &gauges);
    Ok(page.map_err(std::io::Error::other)?)
}

/// Returns the status page, with the members that the door adds.
pub(super) fn status(engine: &Engine, door: &Value) -> Result<String> {
    let Sums { total, .. } = sums(engine)?;
    let mut status = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "store": engine.store.root(),
        "prefix": engine.options.prefix,
        "only": engine.options.only.as_ref().map(Component::to_text),
        "uptimeSeconds": engine.started.elapsed().as_secs(),
        "keptViewBytes": engine.texts.weight(),
        "heldBytes": engine.memory.held(),
        "counters": engine.counters.to_json(),
        "remote": engine.options.other_hosts.as_ref().map(|others| others.report()),
        "counted": total,
        "savedBytes": total.saved_bytes(),
        "savedTokens": total.saved_tokens(),
    });
    if let (Value::Object(status), Value::Object(door)) = (&mut status, door) {
        status.extend(door.clone());
    }
    Ok(format!("{status:#}\n"))
}
