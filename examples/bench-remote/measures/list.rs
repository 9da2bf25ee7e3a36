//! Listing of many artifacts on a host without local state.

use std::fs;

use crate::host::Host;
use crate::measures::{Bench, Report, thousands};
use crate::table::Client;
use crate::{names, plain, program};

impl Bench<'_> {
    /// Measures the listing of many artifacts. Other clients list the same number of objects.
    pub(super) fn list(&self, rounds: usize, report: &mut Report<'_>) -> Result<(), String> {
        let count = self.sizes.list;
        let writer = Host::filled(self, "listed", |dir| {
            (0..count).try_for_each(|number| {
                let text = format!("a short output, which is number {number:06}\n");
                fs::write(dir.join(format!("{number:06}.txt")), text)
            })
        })?;
        let bucket = "listed-ctxfs";
        self.server.make_bucket(bucket);
        program::run(&mut writer.ctxfs(Some(bucket), "push", &["listed"]))?;
        self.server.make_up(count);
        let what = format!("list of {} artifacts (others: objects)", thousands(count as u64));
        for _ in 0..rounds {
            let mut command = plain::command(&["list", names::BUCKET]);
            self.measure(&what, Client::Plain, &mut command, report);
            if let Some(aws) = self.aws {
                let mut command =
                    aws.s3(&["ls", "--recursive", &format!("s3://{}/", names::BUCKET)]);
                self.measure(&what, Client::Aws, &mut command, report);
            }
            self.list_far(&what, bucket, report)?;
        }
        self.server.remove_bucket(bucket);
        Ok(())
    }

    fn list_far(&self, what: &str, bucket: &str, report: &mut Report<'_>) -> Result<(), String> {
        let host = Host::new(self, "lister");
        let mount = host.mount(Some(bucket))?;
        let dir = mount.outputs("listed");
        let list = || {
            let entries = fs::read_dir(&dir).map_err(|error| error.to_string())?;
            let names = entries.flatten().map(|entry| entry.file_name());
            let found = names.filter(|name| name.to_str().is_some_and(is_artifact)).count();
            if found == self.sizes.list {
                return Ok(());
            }
            Err(format!("{found} of {} were listed", self.sizes.list))
        };
        self.measure_mount(what, &mount, list, report)
    }
}

/// Returns true for the name of an artifact, and false for the name of a view.
fn is_artifact(name: &str) -> bool {
    name.strip_suffix(".txt").is_some_and(|number| number.parse::<usize>().is_ok())
}
