//! `.ctxfs/status.json` and `.ctxfs/metrics`: the settings and the counters of a server.

use prometheus::core::Collector;
use prometheus::{Encoder as _, IntCounterVec, IntGauge, Opts, Registry, TextEncoder};
use serde_json::json;

use crate::{DoorStatus, Engine, Result};
use ctxfs_core::model::{Amount, Component, Counts, HostsReport, MOST_TOOLS, OTHER_TOOLS, Sums};

/// A metric other than the counts: its name, its description and its value.
type Gauge = (&'static str, &'static str, u64);

impl Engine {
    /// Returns the metrics page for Prometheus.
    pub(crate) fn metrics(&self, door: &DoorStatus) -> Result<String> {
        let gauges = [
            ("ctxfs_nodes", "Nodes that the kernel knows.", door.nodes as u64),
            ("ctxfs_open_handles", "Open files and directories.", door.open_handles as u64),
            ("ctxfs_waiting_to_seal", "Outputs to be sealed.", door.waiting_to_seal as u64),
        ];
        let uptime = self.started.elapsed().as_secs();
        let uptime = ("ctxfs_uptime_seconds", "Since the server started.", uptime);
        let hosts = self.options.other_hosts.as_ref().map(|others| others.report());
        let hosts = hosts.map(|report| host_gauges(&report)).unwrap_or_default();
        let gauges = [&[uptime], &gauges[..], &hosts[..]].concat();
        let page = page(&self.counts(None)?.sums, &gauges);
        Ok(page.map_err(std::io::Error::other)?)
    }

    pub(crate) fn status(&self, door: &DoorStatus) -> Result<String> {
        let Sums { total, .. } = self.counts(None)?.sums;
        let status = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
            "store": self.store.root(),
            "prefix": self.options.root.path(),
            "only": self.options.only.as_ref().map(Component::to_text),
            "uptimeSeconds": self.started.elapsed().as_secs(),
            "keptViewBytes": self.texts.weight(),
            "heldBytes": self.memory.held(),
            "counters": self.counters.to_json(door),
            "remote": self.options.other_hosts.as_ref().map(|others| others.report()),
            "counted": total,
            "savedBytes": total.saved(|amount| amount.bytes),
            "savedTokens": total.saved(|amount| amount.tokens),
            "writeOnce": self.options.write_once,
            "passthrough": door.passthrough,
            "confinement": &door.confinement,
            "nodes": door.nodes,
            "openHandles": door.open_handles,
            "waitingToSeal": door.waiting_to_seal,
        });
        Ok(format!("{status:#}\n"))
    }
}

/// The metrics of requests to the bucket: the kind of request, and the names of the metrics for the
/// number of requests and for bytes.
const REQUESTS: [(&str, &str, &str); 5] = [
    ("get", "ctxfs_remote_get_requests", "ctxfs_remote_get_bytes"),
    ("put", "ctxfs_remote_put_requests", "ctxfs_remote_put_bytes"),
    ("list", "ctxfs_remote_list_requests", "ctxfs_remote_list_bytes"),
    ("delete", "ctxfs_remote_delete_requests", "ctxfs_remote_delete_bytes"),
    ("head", "ctxfs_remote_head_requests", "ctxfs_remote_head_bytes"),
];

fn host_gauges(report: &HostsReport) -> Vec<Gauge> {
    let oldest = report.oldest_seconds.unwrap_or_default();
    let lag = report.lag_millis.unwrap_or_default();
    let mut gauges = vec![
        ("ctxfs_remote_waiting", "Outputs that are not sent yet.", report.waiting),
        ("ctxfs_remote_waiting_bytes", "Their bytes.", report.waiting_bytes),
        ("ctxfs_remote_oldest_seconds", "Since when the oldest change waits.", oldest),
        ("ctxfs_remote_lag_milliseconds", "How long what was sent last had waited.", lag),
        ("ctxfs_remote_failing", "1 if the last request failed.", report.error.is_some().into()),
    ];
    for count in &report.requests {
        let names = REQUESTS.iter().find(|(kind, ..)| *kind == count.kind);
        let Some((_, requests, bytes)) = names else { continue };
        gauges.push((*requests, "Requests to the bucket.", count.requests));
        gauges.push((*bytes, "Bytes of objects that came or were sent.", count.bytes));
    }
    gauges
}

/// Returns the page in the text format of Prometheus. Counts are labelled by tool; beyond a fixed
/// number of tools, the remaining ones share a label. Conversations are not labels because there
/// are too many of them.
fn page(sums: &Sums, gauges: &[Gauge]) -> prometheus::Result<String> {
    let registry = Registry::new();
    for (name, about, amount) in AMOUNTS {
        for (unit, of) in UNITS {
            let by_tool = sums.by_tool.iter().map(|(tool, counts)| (tool, of(&amount(counts))));
            let name = format!("ctxfs_{name}_{unit}_total");
            let about = format!(
                "{about}: {unit}. Of more than {MOST_TOOLS} tools the rarer are \"{OTHER_TOOLS}\"."
            );
            let counter = IntCounterVec::new(Opts::new(name, about), &["tool"])?;
            for (tool, value) in by_tool {
                counter.with_label_values(&[tool]).inc_by(value);
            }
            add(&registry, counter)?;
        }
    }
    let views = Opts::new("ctxfs_views_total", "Views that were read, by kind.");
    let views = IntCounterVec::new(views, &["view"])?;
    for (view, times) in &sums.total.views {
        views.with_label_values(&[view]).inc_by(*times);
    }
    add(&registry, views)?;
    let saved =
        ("ctxfs_saved_tokens", "Tokens that models were spared; negative where they read more.");
    gauge(&registry, saved.0, saved.1, sums.total.saved(|amount| amount.tokens))?;
    for (name, about, value) in gauges {
        gauge(&registry, name, about, i64::try_from(*value).unwrap_or(i64::MAX))?;
    }
    let mut page = Vec::new();
    TextEncoder::new().encode(&registry.gather(), &mut page)?;
    String::from_utf8(page).map_err(|error| prometheus::Error::Msg(error.to_string()))
}

/// An amount that is counted: its name, its description, and a function that reads it from the
/// counts.
type AmountColumn = (&'static str, &'static str, fn(&Counts) -> Amount);
/// A unit of an amount: its name, and a function that reads it from the amount.
type UnitColumn = (&'static str, fn(&Amount) -> u64);

const AMOUNTS: [AmountColumn; 5] = [
    ("stored", "Outputs stored", |counts| counts.stored),
    ("handed", "Stand-ins handed out", |counts| counts.handed),
    ("read", "Read back through views", |counts| counts.read),
    ("expired", "Outputs removed by a rule", |counts| counts.expired),
    ("deleted", "Outputs removed by somebody", |counts| counts.deleted),
];

const UNITS: [UnitColumn; 3] = [
    ("times", |amount| amount.times),
    ("bytes", |amount| amount.bytes),
    ("tokens", |amount| amount.tokens),
];

fn gauge(registry: &Registry, name: &str, about: &str, value: i64) -> prometheus::Result<()> {
    let gauge = IntGauge::new(name, about)?;
    gauge.set(value);
    add(registry, gauge)
}

fn add(registry: &Registry, collector: impl Collector + 'static) -> prometheus::Result<()> {
    registry.register(Box::new(collector))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctxfs_core::model::DailyCounts;

    #[test]
    fn the_page_is_in_the_format() {
        let mut counts = Counts { stored: Amount::once(1000, 300), ..Counts::default() };
        counts.read = Amount::once(4000, 1200);
        counts.views.insert("tail".into(), 2);
        let tool = "a\"b\\c\nd".to_owned();
        let mut sums = Sums::default();
        sums.add(&[DailyCounts { day: "2026-01-13".into(), tool, counts }]);
        let page = page(&sums, &[("ctxfs_open_handles", "Open files.", 7)]).unwrap();
        for line in [
            "# TYPE ctxfs_stored_bytes_total counter",
            "ctxfs_stored_bytes_total{tool=\"a\\\"b\\\\c\\nd\"} 1000",
            "ctxfs_views_total{view=\"tail\"} 2",
            "# TYPE ctxfs_saved_tokens gauge",
            "ctxfs_saved_tokens -900",
            "# HELP ctxfs_open_handles Open files.",
            "ctxfs_open_handles 7",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} is not in\n{page}");
        }
        assert!(page.ends_with('\n'));
    }
}
