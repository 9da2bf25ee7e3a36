//! Benchmark of a mount, compared with a plain directory on the same disk and with a minimal FUSE
//! filesystem. Also compares the gateway with direct use of its servers. `scripts/bench` runs it.
//!
//! Each figure is the median of interleaved rounds. The plain directory is measured in the same
//! rounds. Loops are compiled code, so that the client does not hide the difference. If a program
//! reads the plain directory, a program (`cat`) also reads the mount.
#![expect(clippy::unwrap_used, reason = "a measurement that fails is none")]
#![expect(clippy::print_stdout, reason = "the table is the output")]

mod bare;
mod gateway;
mod json;
mod kinds;
mod logs;
mod looks;
mod measures;
mod outputs;
mod place;
mod scale;
mod searches;
mod table;

use std::env;
use std::path::PathBuf;

use crate::place::Place;
use crate::scale::Scale;
use crate::table::Table;

const USAGE: &str =
    "usage: bench --ctxfs PROGRAM --dir DIRECTORY [--rounds N] [--only PART] [--large]";

/// Arguments of the benchmark.
struct Options {
    program: PathBuf,
    dir: PathBuf,
    rounds: usize,
    /// Part of `PARTS` to run. If it is `None`, all parts run.
    only: Option<String>,
    /// True to run long parts too: a log of 10 GB, 100,000 artifacts, and a result of 1 GB. This
    /// needs 11 GB of disk space.
    large: bool,
}

/// Parts that can be run alone.
const PARTS: [&str; 12] = [
    "outputs", "files", "logs", "json", "listing", "looks", "search", "scale", "kinds", "searches",
    "gateway", "huge",
];

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [serve, dir, mountpoint, passthrough] = arguments.as_slice()
        && serve == "--serve"
    {
        return bare::serve(dir.as_ref(), mountpoint.as_ref(), passthrough == "auto").unwrap();
    }
    if let Some((serve, tools)) = arguments.split_first()
        && serve == "--mcp-server"
    {
        let tools = tools.first().map_or(1, |count| count.parse().unwrap());
        return gateway::server::serve(tools).unwrap();
    }
    let options = options().expect(USAGE);
    let is_wanted = |part: &&&str| options.only.as_ref().is_none_or(|only| only == **part);
    if is_wanted(&&"kinds") {
        println!("{}", kinds::table(&options.program, &options.dir));
    }
    if is_wanted(&&"searches") {
        println!("{}", searches::table(&options.program, &options.dir, options.rounds));
    }
    if is_wanted(&&"gateway") {
        let Options { program, dir, rounds, large, .. } = &options;
        println!("{}", gateway::table(program, dir, *rounds, *large));
    }
    if matches!(options.only.as_deref(), Some("kinds" | "searches" | "gateway")) {
        return;
    }
    let mut table = Table::default();
    let places = Place::all(&options.program, &options.dir);
    for part in PARTS.iter().filter(is_wanted) {
        match *part {
            "scale" => scale(&options, &mut table),
            "huge" if options.large => logs::huge(&options.program, &options.dir, &mut table),
            "kinds" | "searches" | "gateway" | "huge" => {}
            part => measure(part, &places, options.rounds, &mut table),
        }
    }
    for place in &places {
        measures::memory(place, &mut table);
    }
    print!("{}", table.markdown(options.rounds));
}

fn measure(part: &str, places: &[Place], rounds: usize, table: &mut Table) {
    let fill = match part {
        "listing" => Some(measures::fill as fn(&Place)),
        "search" => Some(measures::fill_conversation as fn(&Place)),
        _ => None,
    };
    if let Some(fill) = fill {
        places.iter().for_each(fill);
    }
    let rounds = if part == "json" { 1 } else { rounds };
    for round in 0..rounds {
        for place in places {
            match part {
                "outputs" => outputs::outputs(place, round, table),
                "files" => {
                    outputs::small_writes(place, round, table);
                    measures::large_file(place, round, table);
                }
                "logs" => logs::logs(place, round, table),
                "json" => json::document(place, table),
                "listing" => measures::listing(place, table),
                "looks" => looks::looks(place, round, table),
                _ => measures::conversation(place, table),
            }
        }
    }
}

fn scale(options: &Options, table: &mut Table) {
    let Options { program, dir, rounds, large, .. } = options;
    let scale = Scale { program, dir, rounds: *rounds, large: *large };
    scale.artifacts(table);
    scale.conversations(table);
}

fn options() -> Option<Options> {
    let mut options = Options {
        program: PathBuf::new(),
        dir: PathBuf::new(),
        rounds: 5,
        only: None,
        large: false,
    };
    let mut arguments = env::args().skip(1);
    while let Some(name) = arguments.next() {
        if name == "--large" {
            options.large = true;
            continue;
        }
        let value = arguments.next()?;
        match name.as_str() {
            "--ctxfs" => options.program = std::path::absolute(value).ok()?,
            "--dir" => options.dir = std::path::absolute(value).ok()?,
            "--only" if PARTS.contains(&value.as_str()) => options.only = Some(value),
            "--rounds" => options.rounds = value.parse().ok()?,
            _ => return None,
        }
    }
    (options.program.is_file() && options.dir.is_dir() && options.rounds > 0).then_some(options)
}
