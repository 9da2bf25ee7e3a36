//! Times a mount beside the plain directory on the same disk, and beside a FUSE filesystem that
//! does nothing else; `scripts/bench` runs it.
//!
//! Each figure is the median of interleaved rounds, and stands beside the plain yardstick of the
//! same rounds. Loops are compiled code, so that the client does not hide the difference; where
//! the yardstick is a program, so is the client (`cat`).
#![expect(clippy::unwrap_used, reason = "a measurement that fails is none")]
#![expect(clippy::print_stdout, reason = "the table is the output")]

mod bare;
mod json;
mod measures;
mod place;
mod table;

use std::env;
use std::path::PathBuf;

use crate::place::Place;
use crate::table::Table;

const USAGE: &str = "usage: bench --ctxfs PROGRAM --dir DIRECTORY [--rounds N]";

/// What to run, where, and how often.
struct Options {
    program: PathBuf,
    dir: PathBuf,
    rounds: usize,
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [serve, dir, mountpoint, passthrough] = arguments.as_slice()
        && serve == "--serve"
    {
        return bare::serve(dir.as_ref(), mountpoint.as_ref(), passthrough == "auto").unwrap();
    }
    let options = options().expect(USAGE);
    let places = Place::all(&options.program, &options.dir);
    let mut table = Table::default();
    for round in 0..options.rounds {
        for place in &places {
            measures::outputs(place, round, &mut table);
        }
        for place in &places {
            measures::small_writes(place, round, &mut table);
        }
        for place in &places {
            measures::large_file(place, round, &mut table);
        }
        for place in &places {
            measures::large_log(place, round, &mut table);
        }
    }
    for place in &places {
        json::document(place, &mut table);
    }
    for place in &places {
        measures::fill(place);
    }
    for _ in 0..options.rounds {
        for place in &places {
            measures::listing(place, &mut table);
        }
    }
    for place in &places {
        measures::fill_conversation(place);
    }
    for _ in 0..options.rounds {
        for place in &places {
            measures::conversation(place, &mut table);
        }
    }
    for place in &places {
        measures::memory(place, &mut table);
    }
    print!("{}", table.markdown(options.rounds));
}

fn options() -> Option<Options> {
    let mut options = Options { program: PathBuf::new(), dir: PathBuf::new(), rounds: 5 };
    let mut arguments = env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next()?;
        match name.as_str() {
            "--ctxfs" => options.program = std::path::absolute(value).ok()?,
            "--dir" => options.dir = std::path::absolute(value).ok()?,
            "--rounds" => options.rounds = value.parse().ok()?,
            _ => return None,
        }
    }
    (options.program.is_file() && options.dir.is_dir() && options.rounds > 0).then_some(options)
}
