//! Outputs of many kinds, 100 MB each. Measures the speed of the analysis and the time of the
//! views, compared with `wc` and `rg`. The slowest kind matters most.

mod samples;

use std::fs;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use ctxfs_core::materialize;

use crate::measures::seconds;
use crate::place::{Kind, Place};

/// Bytes of each output.
const SIZE: usize = 100_000_000;
/// Views that are read one after the other. `PROGRAMS` are the programs to compare them with.
const VIEWS: [&str; 5] =
    [".summary", ".errors", ".terms", ".grep/timeout", ".find/timeout of worker"];
const PROGRAMS: [&[&str]; 2] = [&["wc"], &["rg", "-n", "timeout"]];

/// Measures all kinds. Returns a Markdown table.
pub(crate) fn table(program: &Path, dir: &Path) -> String {
    let own = dir.join("kinds");
    fs::create_dir(&own).unwrap();
    let place = Place::over(&own.join("store"), program, &own, Kind::Passthrough);
    let mut table = String::from(
        "| 100 MB of | analysis, one thread | `.summary` after close | first `.errors` | `.terms` \
         | `.grep/timeout` | `.find/timeout of worker` | `wc` | `rg -n timeout` |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for (name, sample) in samples::ALL {
        table += &row(&place, name, &samples::of_size(sample, SIZE));
    }
    let memory = place.memory().unwrap();
    drop(place);
    fs::remove_dir_all(&own).unwrap();
    table + &format!("\nResident memory of the daemon, at most: {memory:.0} MB.\n")
}

fn row(place: &Place, name: &str, text: &[u8]) -> String {
    let analysis = seconds(|| drop(materialize::analyze(&text).unwrap()));
    let dir = place.fresh("kind");
    let path = dir.join("x.txt");
    File::create(&path).unwrap().write_all(text).unwrap();
    let mut cells = vec![format!("{:.0} MB/s", text.len() as f64 / 1e6 / analysis)];
    let views = VIEWS.iter().map(|view| format!("{}{view}", path.display()));
    cells.extend(views.map(|view| milliseconds(&["cat"], &view)));
    let plain = path.display().to_string();
    cells.extend(PROGRAMS.iter().map(|program| milliseconds(program, &plain)));
    place.clear("kind");
    format!("| {name} | {} |\n", cells.join(" | "))
}

/// Runs `program PATH`. A search may find nothing.
fn milliseconds(program: &[&str], path: &str) -> String {
    let mut command = Command::new(program[0]);
    command.args(&program[1..]).arg(path).stdin(Stdio::null());
    let time = seconds(|| assert!(command.output().unwrap().status.code() < Some(2)));
    format!("{:.0} ms", time * 1e3)
}
