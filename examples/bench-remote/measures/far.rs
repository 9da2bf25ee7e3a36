//! Reads of a log that only the bucket has, on hosts without local state.

use std::fs;

use crate::host::Host;
use crate::measures::{Bench, Report};
use crate::plain;
use crate::samples::NEEDLE;
use crate::table::Client;

/// Prefix of the objects of the conversation.
const OBJECTS: &str = "hosts/conversations/log/objects";

impl Bench<'_> {
    /// Reads views of a log of `lines` lines, each view on a new host.
    pub(super) fn far(&self, bucket: &str, size: &str, lines: u64, report: &mut Report<'_>) {
        let searched = format!(
            "`.grep` of the log of {size} MB, on a host that knows nothing of it \
             (others: fetch the same bytes)"
        );
        self.fetch(&searched, (bucket, OBJECTS), report);
        let middle = lines / 2;
        let views = [
            (format!("log.txt.grep/{NEEDLE}"), searched),
            ("log.txt.summary".to_owned(), "`.summary` of it, on another".to_owned()),
            ("log.txt.tail".to_owned(), "`.tail` of it, on another".to_owned()),
            (
                format!("log.txt.lines/{middle}+10"),
                "`.lines/` in the middle of it, on another".to_owned(),
            ),
        ];
        for (view, what) in views {
            if let Err(why) = self.view(&what, bucket, &view, report) {
                report.fail(&what, &why);
            }
        }
    }

    /// Measures how other clients fetch the log from a folder of a bucket.
    pub(super) fn fetch(
        &self,
        what: &str,
        (bucket, folder): (&str, &str),
        report: &mut Report<'_>,
    ) {
        let Some((key, _)) = self.server.largest(bucket, folder) else {
            return report.fail(what, "the bucket has no object of it");
        };
        let mut command = plain::command(&["get", bucket, &key]);
        self.measure(what, Client::Plain, &mut command, report);
        if let Some(aws) = self.aws {
            let mut command = aws.s3(&["cp", &format!("s3://{bucket}/{key}"), "-"]);
            self.measure(what, Client::Aws, &mut command, report);
        }
    }

    fn view(
        &self,
        what: &str,
        bucket: &str,
        view: &str,
        report: &mut Report<'_>,
    ) -> Result<(), String> {
        let host = Host::new(self, "reader");
        let mount = host.mount(Some(bucket))?;
        let path = mount.outputs("log").join(view);
        let read = || match fs::read(&path) {
            Ok(text) if text.is_empty() => Err("it is empty".to_owned()),
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        };
        self.measure_mount(what, &mount, read, report)
    }
}
