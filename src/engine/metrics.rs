//! `.ctxfs/metrics`: all counts in the text format of Prometheus.

use prometheus::core::Collector;
use prometheus::{Encoder as _, IntCounterVec, IntGauge, Opts, Registry, TextEncoder};

use ctxfs_core::model::{Amount, Counts, MOST_TOOLS, OTHER_TOOLS, Sums};

/// A metric that does not come from the counts: its name, its description and its value.
pub(crate) type Gauge = (&'static str, &'static str, u64);

/// Returns the page. Counts are labelled by tool, with one label for all beyond a number of them:
/// there are too many conversations for labels.
pub(crate) fn page(sums: &Sums, gauges: &[Gauge]) -> prometheus::Result<String> {
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
    gauge(&registry, saved.0, saved.1, sums.total.saved_tokens())?;
    for (name, about, value) in gauges {
        gauge(&registry, name, about, i64::try_from(*value).unwrap_or(i64::MAX))?;
    }
    let mut page = Vec::new();
    TextEncoder::new().encode(&registry.gather(), &mut page)?;
    String::from_utf8(page).map_err(|error| prometheus::Error::Msg(error.to_string()))
}

/// An amount that is counted: its name, its description, and a function that reads it.
type AmountColumn = (&'static str, &'static str, fn(&Counts) -> Amount);
/// A unit of an amount: its name, and a function that reads it.
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
