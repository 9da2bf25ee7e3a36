//! Benchmark of sharing through a bucket, compared with a plain client of the crate `object_store`
//! and with the AWS command line. `scripts/bench-remote` runs it.
//!
//! The store is an S3 server in this process, behind a link with a round trip of 20 ms and 100 MB/s
//! in each direction. Clients are separate processes. Only one client runs at a time, and each has
//! a separate bucket. The figures of a row are from the same run. A row whose measurement failed is
//! left out, and the reason is printed at the end.
#![expect(clippy::unwrap_used, reason = "a measurement that fails is none")]
#![expect(clippy::print_stdout, reason = "the table is the output")]
#![expect(clippy::print_stderr, reason = "failures are told as they come")]

mod aws;
mod counts;
mod host;
mod link;
mod measures;
mod names;
mod plain;
mod program;
mod samples;
mod server;
mod table;

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::aws::Aws;
use crate::measures::Bench;
use crate::server::Server;
use crate::table::Table;

const USAGE: &str = "usage: bench-remote --ctxfs PROGRAM --dir DIRECTORY [--rounds N] \
                     [--only outputs|log|list|visible] [--short] [--outputs N] [--log BYTES] \
                     [--list N]";

/// Sizes of the measurements.
pub(crate) struct Sizes {
    /// Number of outputs of 20 KB.
    pub(crate) outputs: usize,
    /// Bytes of the log.
    pub(crate) log: u64,
    /// Number of listed artifacts.
    pub(crate) list: usize,
}

impl Sizes {
    const FULL: Self = Self { outputs: 10_000, log: 10_000_000_000, list: 100_000 };
    const SHORT: Self = Self { outputs: 500, log: 100_000_000, list: 2_000 };
}

struct Options {
    program: PathBuf,
    dir: PathBuf,
    rounds: usize,
    only: Option<String>,
    sizes: Sizes,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let Some((first, rest)) = arguments.split_first()
        && first == plain::FLAG
    {
        return plain::main(rest);
    }
    let Some(options) = options(&arguments) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let server = Server::start(&options.dir.join("server"));
    let aws = Aws::find();
    let mut table = Table::default();
    let bench = Bench {
        program: &options.program,
        dir: &options.dir,
        server: &server,
        aws: aws.as_ref().ok(),
        sizes: &options.sizes,
    };
    let failures = bench.run(options.rounds, options.only.as_deref(), &mut table);
    print!("{}", table.markdown(options.rounds));
    if let Err(why) = &aws {
        println!("\n`aws` was not measured: {why}");
    }
    for failure in &failures {
        println!("\nNot measured: {failure}");
    }
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn options(arguments: &[String]) -> Option<Options> {
    let mut options = Options {
        program: PathBuf::new(),
        dir: PathBuf::new(),
        rounds: 1,
        only: None,
        sizes: Sizes::FULL,
    };
    let mut arguments = arguments.iter();
    while let Some(name) = arguments.next() {
        if name == "--short" {
            options.sizes = Sizes::SHORT;
            continue;
        }
        let value = arguments.next()?;
        match name.as_str() {
            "--ctxfs" => options.program = std::path::absolute(value).ok()?,
            "--dir" => options.dir = std::path::absolute(value).ok()?,
            "--rounds" => options.rounds = value.parse().ok()?,
            "--only" if measures::PARTS.contains(&value.as_str()) => {
                options.only = Some(value.clone());
            }
            "--outputs" => options.sizes.outputs = value.parse().ok()?,
            "--log" => options.sizes.log = value.parse().ok()?,
            "--list" => options.sizes.list = value.parse().ok()?,
            _ => return None,
        }
    }
    (options.program.is_file() && options.dir.is_dir() && options.rounds > 0).then_some(options)
}
