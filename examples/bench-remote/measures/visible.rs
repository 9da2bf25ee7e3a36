//! Time from `close` on one host until another host can read the output.

use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, thread};

use crate::host::Host;
use crate::measures::{Bench, Report};
use crate::table::Client;

/// Interval at which the other host tries to read the output.
const OFTEN: Duration = Duration::from_millis(20);
/// Time after which an output counts as lost.
const PATIENCE: Duration = Duration::from_mins(1);
/// Number of outputs in a round.
const OUTPUTS: usize = 5;

impl Bench<'_> {
    /// Writes outputs on one host, one after the other, and waits for each on another host.
    pub(super) fn visible(&self, rounds: usize, report: &mut Report<'_>) -> Result<(), String> {
        let bucket = "visible-ctxfs";
        self.server.make_bucket(bucket);
        let (writer, reader) = (Host::new(self, "writer"), Host::new(self, "watcher"));
        let (here, there) = (writer.mount(Some(bucket))?, reader.mount(Some(bucket))?);
        let dir = here.outputs("seen");
        let conversation = dir.ancestors().nth(2).unwrap();
        fs::create_dir(conversation).map_err(|error| error.to_string())?;
        let there_dir = there.outputs("seen");
        // The first output makes the conversation known on the other host.
        pass(&dir, &there_dir, "first.txt")?;
        let what = "`close` here until it is read there, with `every` and `poll` of 2 s";
        for number in 0..rounds * OUTPUTS {
            let before = self.server.counts();
            let seconds = pass(&dir, &there_dir, &format!("{number}.txt"))?;
            report.add(what, Client::Ctxfs, seconds, self.server.counts() - before);
        }
        for (side, mount) in [("written", &here), ("read", &there)] {
            for (name, memory) in mount.memory() {
                let what = format!("the same: memory of `{name}` at most, where it is {side}");
                report.table.add(&what, "MB", Client::Ctxfs, memory);
            }
        }
        drop((here, there));
        self.server.remove_bucket(bucket);
        Ok(())
    }
}

/// Writes an output in the directory `here` and waits until it can be read in `there`. Returns the
/// time in seconds.
fn pass(here: &Path, there: &Path, name: &str) -> Result<f64, String> {
    let text = format!("the output {name}\n");
    fs::write(here.join(name), &text).map_err(|error| error.to_string())?;
    let closed = Instant::now();
    while !fs::read_to_string(there.join(name)).is_ok_and(|found| found == text) {
        if closed.elapsed() > PATIENCE {
            return Err(format!("`{name}` was not seen there within {PATIENCE:?}"));
        }
        thread::sleep(OFTEN);
    }
    Ok(closed.elapsed().as_secs_f64())
}
