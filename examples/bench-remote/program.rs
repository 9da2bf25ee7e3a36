//! Runs of programs, with their time and peak memory.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

/// Interval at which the peak memory of a program is read. The kernel keeps the peak, so only a
/// rise after the last read is missed.
const OFTEN: Duration = Duration::from_millis(20);
/// Maximum number of characters of standard error in an error message.
const SHOWN: usize = 500;

/// Cost of a run.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) seconds: f64,
    /// Peak memory in MB.
    pub(crate) memory: f64,
}

/// Runs a program to its end. Fails if the program fails.
pub(crate) fn run(command: &mut Command) -> Result<Ran, String> {
    let name = format!("{command:?}");
    let began = Instant::now();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("{name}: {error}"))?;
    let mut complaints = child.stderr.take().unwrap();
    let reading = thread::spawn(move || {
        let mut text = Vec::new();
        // After a read error, show the text so far.
        let _ended = complaints.read_to_end(&mut text);
        String::from_utf8_lossy(&text).chars().take(SHOWN).collect::<String>()
    });
    let mut memory = 0.0_f64;
    let status = loop {
        memory = memory.max(peak(child.id()).unwrap_or(0.0));
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None => thread::sleep(OFTEN),
        }
    };
    let seconds = began.elapsed().as_secs_f64();
    let complaints = reading.join().unwrap();
    if status.success() {
        Ok(Ran { seconds, memory })
    } else {
        Err(format!("{name} ends with {status}: {}", complaints.trim()))
    }
}

/// Returns the peak memory in MB of a process and its descendants, by program name.
pub(crate) fn peaks(process: u32) -> BTreeMap<String, f64> {
    let parents = parents();
    let mut family = vec![process];
    let mut place = 0;
    while let Some(&parent) = family.get(place) {
        family.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(child, _)| *child));
        place += 1;
    }
    let mut peaks = BTreeMap::new();
    for process in family {
        if let (Some(name), Some(memory)) = (name(process), peak(process)) {
            let largest: &mut f64 = peaks.entry(name).or_default();
            *largest = largest.max(memory);
        }
    }
    peaks
}

/// Returns the ids of all processes and of their parents.
fn parents() -> Vec<(u32, u32)> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let processes = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let parent = |process: u32| {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // The name is in brackets and may contain any characters.
        let (_, rest) = stat.rsplit_once(')')?;
        Some((process, rest.split_whitespace().nth(1)?.parse().ok()?))
    };
    processes.filter_map(parent).collect()
}

fn name(process: u32) -> Option<String> {
    let line = fs::read(format!("/proc/{process}/cmdline")).ok()?;
    let first = String::from_utf8_lossy(line.split(|byte| *byte == 0).next()?).into_owned();
    Some(Path::new(&first).file_name()?.to_string_lossy().into_owned())
}

fn peak(process: u32) -> Option<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kilobytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes / 1024.0)
}
