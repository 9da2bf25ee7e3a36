
use std::time::Duration;

use super::Inner;
use crate::bucket::{RequestCounts, Tally};
use ctxfs_core::model::{HostsReport, RequestReport};

impl Inner {
    pub(super) fn report(&self) -> HostsReport {
        let (totals, lag) = {
            let backlog = self.backlog.lock();
            (backlog.totals(), backlog.lag)
        };
        let known = self.access.known().ok().flatten();
        let age = totals.oldest.map(|oldest| (self.now)().saturating_duration_since(oldest));
        HostsReport {
            url: self.access.options.url.clone(),
            bucket: known.as_ref().map(|known| known.id.to_string()),
            writer: known
                .and_then(|known| known.home.writer().ok())
                .map(|writer| writer.to_string()),
            waiting: totals.outputs,
            waiting_bytes: totals.bytes,
            oldest_seconds: age.as_ref().map(Duration::as_secs),
            lag_millis: lag.map(|lag| lag.as_millis() as u64),
            error: self.trouble(),
            requests: requests(&self.access.bucket.requests()),
        }
    }

    fn trouble(&self) -> Option<String> {
        let of_looks = || self.looker.as_ref()?.trouble();
        self.access.bucket.trouble().or_else(of_looks).or_else(|| self.weather.error())
    }
}

fn requests(counts: &RequestCounts) -> Vec<RequestReport> {
    let RequestCounts { get, put, list, delete, head } = *counts;
    let kinds = [("get", get), ("put", put), ("list", list), ("delete", delete), ("head", head)];
    kinds.map(|(kind, Tally { requests, bytes })| RequestReport { kind, requests, bytes }).into()
}
