//! The gateway (`ctxfs mcp`), compared with direct use of its servers: small calls, long results,
//! the index of tools, the start, and a batch.
//!
//! Server (`server`) and client (`client`) are part of this program. Both are compiled, so their
//! cost does not hide the cost of the gateway.

mod client;
pub(crate) mod server;

use std::path::{Path, PathBuf};
use std::time::Instant;
use std::{env, fs, thread};

use ctxfs_core::materialize;
use serde_json::{Value, json};

use crate::gateway::client::{Client, HttpGateway};
use crate::measures::seconds;
use crate::table::median;

/// Bytes of a small result.
const SMALL: usize = 1000;
/// Number of small calls in a round.
const CALLS: usize = 2000;
/// Number of concurrent sessions. `UNDER_WAY` is the number of concurrent calls of each session.
const SESSIONS: usize = 8;
const UNDER_WAY: usize = 16;
/// Bytes of the long results. The last one is measured only with `--large`.
const LONG: [usize; 3] = [20_000_000, 200_000_000, 1_000_000_000];
/// Number of servers behind the index. `TOOLS` is the number of tools of each server.
const SERVERS: usize = 30;
const TOOLS: usize = 50;
/// Number of calls in a batch.
const BATCH: usize = 100;

/// Paths of the programs, and a directory for stores.
struct Bench<'a> {
    program: &'a Path,
    dir: PathBuf,
    rounds: usize,
}

/// Figures of a measurement without the gateway and with it.
#[derive(Default)]
struct Pair {
    direct: Vec<f64>,
    through: Vec<f64>,
}

/// Runs all measurements. Returns a Markdown table.
pub(crate) fn table(program: &Path, dir: &Path, rounds: usize, large: bool) -> String {
    let dir = dir.join("gateway");
    fs::create_dir(&dir).unwrap();
    let bench = Bench { program, dir, rounds };
    let mut table = "| | server | through the gateway | |\n|---|---:|---:|---|\n".to_owned();
    table += &bench.start();
    table += &bench.small_calls();
    table += &bench.many_calls();
    for size in LONG.into_iter().take(if large { 3 } else { 2 }) {
        table += &bench.long_result(size);
    }
    table += &bench.index();
    table += &bench.batch();
    fs::remove_dir_all(&bench.dir).unwrap();
    table
}

impl Bench<'_> {
    fn start(&self) -> String {
        let mut pair = Pair::default();
        for _ in 0..self.rounds {
            pair.direct.push(start(&server(&[])).0);
            pair.through.push(start(&self.gateway(&server(&[]))).0);
        }
        pair.row("start until the answer to `initialize`", "ms", 1e3, &pair.added(1e3, "ms"))
    }

    fn small_calls(&self) -> String {
        let mut pair = Pair::default();
        let mut direct = Client::start(&server(&[]));
        let mut through = Client::start(&self.gateway(&server(&[])));
        for _ in 0..self.rounds {
            for (client, times) in
                [(&mut direct, &mut pair.direct), (&mut through, &mut pair.through)]
            {
                times.extend((0..CALLS).map(|_| seconds(|| client.call_small(SMALL))));
            }
        }
        pair.row("a call of 1 KB", "us", 1e6, &pair.added(1e6, "us"))
    }

    fn many_calls(&self) -> String {
        let mut one = Pair::default();
        let mut several = Pair::default();
        let mut http = Vec::new();
        for _ in 0..self.rounds {
            let direct = || Client::start(&server(&[]));
            let through = || Client::start(&self.gateway(&server(&[])));
            for (pair, under_way) in [(&mut one, 1), (&mut several, UNDER_WAY)] {
                pair.direct.push(rate(|| stdio(direct(), under_way)));
                pair.through.push(rate(|| stdio(through(), under_way)));
            }
            let gateway = HttpGateway::start(&self.http_gateway());
            http.push(rate(|| {
                let mut session = gateway.session();
                Box::new(move || (0..CALLS).for_each(|_| session.call_text(SMALL)))
            }));
        }
        let http = format!("{:.0} /s by 8 sessions over HTTP", median(&http).unwrap());
        let more = format!("{UNDER_WAY} under way in each");
        one.row("calls of 1 KB a second, 8 sessions", "/s", 1.0, &http)
            + &several.row("the same", "/s", 1.0, &more)
    }

    fn long_result(&self, size: usize) -> String {
        let mut pair = Pair::default();
        let mut peak = 0.0_f64;
        for _ in 0..self.rounds {
            let mut direct = Client::start(&server(&[]));
            let mut told = 0;
            pair.direct.push(seconds(|| told = direct.call_text(size)));
            assert!(told > size, "{told} bytes");
            let mut through = Client::start(&self.gateway(&server(&[])));
            pair.through.push(seconds(|| told = through.call_text(size)));
            assert!(told < SMALL * 20, "{told} bytes");
            peak = peak.max(through.peak());
            drop(through);
            self.is_stored(size);
        }
        let what = format!("a result of {} MB", size / 1_000_000);
        pair.row(&what, "s", 1.0, &format!("{peak:.0} MB of memory at most"))
    }

    /// Asserts that the store has an output of `size` bytes, and removes all outputs.
    fn is_stored(&self, size: usize) {
        let tools = self.dir.join("store/context/bench/artifacts/tool");
        let sizes =
            fs::read_dir(&tools).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len());
        assert!(sizes.into_iter().any(|found| found == size as u64), "{}", tools.display());
        fs::remove_dir_all(self.dir.join("store")).unwrap();
    }

    fn index(&self) -> String {
        let file = self.servers();
        let (mut full, mut short) = (Vec::new(), Vec::new());
        let mut first = Vec::new();
        for _ in 0..self.rounds {
            for (mode, counts) in [("direct", &mut full), ("index", &mut short)] {
                let (time, mut client) = start(&self.several(&file, mode));
                first.push(time);
                counts.push(tokens(&client.told()));
            }
        }
        let (full, short) = (figure(&full), figure(&short));
        let share = format!("{:.2} % of the tokens", short / full * 100.0);
        let start = median(&first).unwrap() * 1e3;
        format!(
            "| tokens of the tools and instructions of {SERVERS} servers with {TOOLS} tools each, \
             and of the index | {full:.0} | {short:.0} | {share} |\n\
             | the same, start until the answer to `initialize` | | {start:.0} ms | |\n",
        )
    }

    fn batch(&self) -> String {
        let mut pair = Pair::default();
        let mut direct = Client::start(&server(&[]));
        let mut through = Client::start(&self.several(&self.servers(), "index"));
        let call = json!({"name": "s0__tool_0", "arguments": {"bytes": SMALL}});
        let calls = json!({"calls": vec![call; BATCH], "parallelLimit": 16});
        for _ in 0..self.rounds {
            pair.direct.push(seconds(|| (0..BATCH).for_each(|_| direct.call_small(SMALL))));
            pair.through.push(seconds(|| {
                let reply = through.call("run_tool_batch", &calls);
                assert!(reply.contains("\"100 ") || reply.contains("100 calls"), "{reply:.400}");
            }));
        }
        let what = format!("{BATCH} calls of 1 KB: one by one, and as a batch, all stored");
        pair.row(&what, "ms", 1e3, "")
    }

    /// Returns the command line of a gateway to `server`.
    fn gateway(&self, server: &[String]) -> Vec<String> {
        [&self.start_of(&[]), &["--".to_owned()][..], server].concat()
    }

    fn http_gateway(&self) -> Vec<String> {
        let options = self.start_of(&["--http", "0"]);
        [&options, &["--".to_owned()][..], &server(&[])].concat()
    }

    fn several(&self, file: &Path, mode: &str) -> Vec<String> {
        self.start_of(&["--servers", file.to_str().unwrap(), "--tools", mode])
    }

    fn start_of(&self, options: &[&str]) -> Vec<String> {
        let store = self.dir.join("store").display().to_string();
        let start = [self.program.to_str().unwrap(), "mcp", "--store", &store, "-c", "bench"];
        start.iter().chain(options).map(|word| (*word).to_owned()).collect()
    }

    /// Writes the file that lists the servers behind the index.
    fn servers(&self) -> PathBuf {
        let file = self.dir.join("servers.json");
        let server = |number: usize| {
            let argv = server(&[&TOOLS.to_string()]);
            let members = json!({"command": argv[0], "args": argv[1..], "trust": true});
            (format!("s{number}"), members)
        };
        let servers: serde_json::Map<String, Value> = (0..SERVERS).map(server).collect();
        fs::write(&file, json!({"mcpServers": servers}).to_string()).unwrap();
        file
    }
}

impl Pair {
    fn added(&self, factor: f64, unit: &str) -> String {
        let added = figure(&self.through) - figure(&self.direct);
        format!("{:.1} {unit} more", added * factor)
    }

    fn row(&self, what: &str, unit: &str, factor: f64, more: &str) -> String {
        let cell = |figures: &[f64]| {
            let figure = figure(figures) * factor;
            let digits = if figure < 100.0 { 2 } else { 0 };
            format!("{figure:.digits$} {unit}")
        };
        format!("| {what} | {} | {} | {more} |\n", cell(&self.direct), cell(&self.through))
    }
}

/// Starts a server. Returns the time until its first answer, in seconds.
fn start(argv: &[String]) -> (f64, Client) {
    let started = Instant::now();
    let client = Client::start(argv);
    (started.elapsed().as_secs_f64(), client)
}

fn figure(figures: &[f64]) -> f64 {
    median(figures).unwrap_or_default()
}

/// Returns the command line of the server.
fn server(arguments: &[&str]) -> Vec<String> {
    let program = env::current_exe().unwrap().display().to_string();
    let arguments = ["--mcp-server"].iter().chain(arguments);
    std::iter::once(program).chain(arguments.map(|word| (*word).to_owned())).collect()
}

/// Function that makes the calls of a session that is already open.
type Session = Box<dyn FnOnce() + Send>;

fn stdio(mut client: Client, under_way: usize) -> Session {
    Box::new(move || client.call_many(CALLS, under_way, SMALL))
}

/// Returns the number of calls per second of all concurrent sessions together.
fn rate(mut session: impl FnMut() -> Session) -> f64 {
    let sessions: Vec<Session> = (0..SESSIONS).map(|_| session()).collect();
    let time = seconds(|| {
        thread::scope(|scope| {
            for session in sessions {
                scope.spawn(session);
            }
        });
    });
    (SESSIONS * CALLS) as f64 / time
}

/// Returns the number of tokens of a text, as `.summary` estimates it.
fn tokens(text: &str) -> f64 {
    materialize::analyze(&text.as_bytes().to_vec()).unwrap().tokens as f64
}
