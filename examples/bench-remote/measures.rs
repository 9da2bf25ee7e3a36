//! Measurements, in parts that can be run alone.

mod far;
mod list;
mod visible;

use std::fs;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use crate::aws::Aws;
use crate::counts::Counts;
use crate::host::{Host, Mount};
use crate::program::Ran;
use crate::samples::{Lines, NEEDLE};
use crate::server::Server;
use crate::table::{Client, Table};
use crate::{Sizes, plain, program};

pub(crate) const PARTS: [&str; 4] = ["outputs", "log", "list", "visible"];

/// Common inputs of all measurements.
pub(crate) struct Bench<'a> {
    /// Path of `ctxfs`.
    pub(crate) program: &'a Path,
    /// Directory for stores and mounts.
    pub(crate) dir: &'a Path,
    pub(crate) server: &'a Server,
    /// `None` if the AWS command line is not installed.
    pub(crate) aws: Option<&'a Aws>,
    pub(crate) sizes: &'a Sizes,
}

/// Figures, and descriptions of failed measurements.
struct Report<'a> {
    table: &'a mut Table,
    failures: Vec<String>,
}

impl Bench<'_> {
    /// Measures all parts, or the part `only`. Returns descriptions of the failures.
    pub(crate) fn run(&self, rounds: usize, only: Option<&str>, table: &mut Table) -> Vec<String> {
        let mut report = Report { table, failures: Vec::new() };
        for part in PARTS.into_iter().filter(|part| only.is_none_or(|only| only == *part)) {
            eprintln!("measuring: {part}");
            let done = match part {
                "outputs" => self.outputs(rounds, &mut report),
                "log" => self.log(rounds, &mut report),
                "list" => self.list(rounds, &mut report),
                _ => self.visible(rounds, &mut report),
            };
            if let Err(why) = done {
                report.fail(part, &why);
            }
        }
        report.failures
    }

    /// Measures the push of many small outputs.
    fn outputs(&self, rounds: usize, report: &mut Report<'_>) -> Result<(), String> {
        let (count, lines) = (self.sizes.outputs, Lines::new());
        let host = Host::filled(self, "outputs", |dir| {
            (0..count).try_for_each(|number| {
                fs::write(dir.join(format!("{number:06}.txt")), lines.small(number))
            })
        })?;
        let what = format!("{} outputs of 20 KB, sent", thousands(count as u64));
        let dir = host.outputs("outputs");
        let dir = dir.to_str().unwrap();
        for round in 0..rounds {
            self.in_bucket(&format!("outputs-plain-{round}"), |bucket| {
                let mut command = plain::command(&["put-all", bucket, dir]);
                self.measure(&what, Client::Plain, &mut command, report);
            });
            self.in_bucket(&format!("outputs-ctxfs-{round}"), |bucket| {
                let mut command = host.ctxfs(Some(bucket), "push", &["outputs"]);
                self.measure(&what, Client::Ctxfs, &mut command, report);
            });
            let Some(aws) = self.aws else { continue };
            self.in_bucket(&format!("outputs-aws-{round}"), |bucket| {
                let to = format!("s3://{bucket}/");
                let mut command = aws.s3(&["cp", "--recursive", "--only-show-errors", dir, &to]);
                self.measure(&what, Client::Aws, &mut command, report);
            });
        }
        Ok(())
    }

    /// Measures the push of one large log, and reads of its views on other hosts.
    fn log(&self, rounds: usize, report: &mut Report<'_>) -> Result<(), String> {
        let mut count = 0;
        let host = Host::filled(self, "log", |dir| {
            count = write_log(&dir.join("log.txt"), self.sizes.log)?;
            Ok(())
        })?;
        let size = thousands(self.sizes.log / 1_000_000);
        let what = format!("a log of {size} MB, sent");
        let fetched = format!("all of the log of {size} MB fetched, as each sent it");
        let file = host.outputs("log").join("log.txt");
        let file = file.to_str().unwrap();
        for round in 0..rounds {
            self.in_bucket(&format!("log-plain-{round}"), |bucket| {
                let mut command = plain::command(&["put-one", bucket, file]);
                if self.measure(&what, Client::Plain, &mut command, report) {
                    self.fetch(&fetched, (bucket, ""), report);
                }
            });
            if let Some(aws) = self.aws {
                self.in_bucket(&format!("log-aws-{round}"), |bucket| {
                    let to = format!("s3://{bucket}/log.txt");
                    let mut command = aws.s3(&["cp", "--only-show-errors", file, &to]);
                    self.measure(&what, Client::Aws, &mut command, report);
                });
            }
            self.in_bucket(&format!("log-ctxfs-{round}"), |bucket| {
                let mut command = host.ctxfs(Some(bucket), "push", &["log"]);
                if self.measure(&what, Client::Ctxfs, &mut command, report) {
                    self.far(bucket, &size, count, report);
                }
            });
        }
        Ok(())
    }

    /// Creates a bucket, calls `work` with its name, and removes the bucket.
    fn in_bucket(&self, name: &str, work: impl FnOnce(&str)) {
        self.server.make_bucket(name);
        work(name);
        self.server.remove_bucket(name);
    }

    /// Runs a client and reports its figures. Returns false and reports a failure if the client
    /// fails.
    fn measure(
        &self,
        what: &str,
        client: Client,
        command: &mut Command,
        report: &mut Report<'_>,
    ) -> bool {
        command.envs(self.server.environment());
        let before = self.server.counts();
        match program::run(command) {
            Ok(Ran { seconds, memory }) => {
                report.add(what, client, seconds, self.server.counts() - before);
                report.table.add(&format!("{what}: memory at most"), "MB", client, memory);
                true
            }
            Err(why) => {
                report.fail(what, &why);
                false
            }
        }
    }

    /// Measures the time of `work` in a mount, and the resulting requests to the server.
    fn measure_mount(
        &self,
        what: &str,
        mount: &Mount,
        work: impl FnOnce() -> Result<(), String>,
        report: &mut Report<'_>,
    ) -> Result<(), String> {
        let (before, began) = (self.server.counts(), Instant::now());
        work()?;
        let seconds = began.elapsed().as_secs_f64();
        report.add(what, Client::Ctxfs, seconds, self.server.counts() - before);
        for (name, memory) in mount.memory() {
            let what = format!("{what}: memory of `{name}` at most");
            report.table.add(&what, "MB", Client::Ctxfs, memory);
        }
        Ok(())
    }
}

impl Report<'_> {
    /// Adds the figures of a client. Subtracts the time that the server took to join parts. This
    /// server copies all bytes to join them, while other servers do not.
    fn add(&mut self, what: &str, client: Client, seconds: f64, took: Counts) {
        let seconds = seconds - took.joining.as_secs_f64();
        self.table.add(what, "s", client, seconds);
        let kinds = [
            ("PUT", took.puts),
            ("GET", took.gets),
            ("LIST", took.lists),
            ("all", took.requests()),
        ];
        for (kind, count) in kinds {
            let what = format!("{what}: requests, {kind}");
            self.table.add(&what, "", client, count as f64);
        }
        let bytes = (took.sent + took.received) as f64;
        self.table.add(&format!("{what}: over the link"), "MB", client, bytes / 1e6);
    }

    fn fail(&mut self, what: &str, why: &str) {
        eprintln!("{what}: {why}");
        self.failures.push(format!("{what}: {why}"));
    }
}

/// Writes a log of about `bytes` bytes whose last line contains [`NEEDLE`]. Returns its number of
/// lines.
fn write_log(path: &Path, bytes: u64) -> std::io::Result<u64> {
    let lines = Lines::new();
    let block = lines.block();
    let lines_of_block = memchr::memchr_iter(b'\n', block).count() as u64;
    let blocks = (bytes / block.len() as u64).max(1);
    let mut file = BufWriter::with_capacity(1 << 20, File::create_new(path)?);
    for _ in 0..blocks {
        file.write_all(block)?;
    }
    writeln!(file, "2026-01-13T15:31:00.000000Z ERROR worker-0: {NEEDLE}")?;
    file.flush()?;
    Ok(blocks * lines_of_block + 1)
}

/// Formats a number with commas between groups of three digits.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
