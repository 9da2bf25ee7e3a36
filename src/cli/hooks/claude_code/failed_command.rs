//! The whole output of a command that failed. While the hook runs, the host still has it in a file
//! that no event names.

use std::io::{Read as _, Seek as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{fs, io};

use crate::hooks::machine::Machine;
use crate::hooks::tool_result::Spill;

/// The bytes of the beginning by which a file is recognised.
const BEGINNING: usize = 1000;
/// The most files that are looked at, the newest first.
const FILES: usize = 8;

/// Finds the output of the command that `error` shows a part of, and its exit code. `None` if the
/// model has seen all of it.
pub(super) fn find(
    error: &str,
    transcript: &Path,
    session: &str,
    machine: &Machine,
) -> Option<(i32, Spill)> {
    let (code, shown) = error.strip_prefix("Exit code ")?.split_once('\n')?;
    let code = code.parse().ok()?;
    let project = transcript.parent()?.file_name()?;
    let user = machine.claude_code_tmp.join(format!("claude-{}", machine.uid));
    let dir = user.join(project).join(session).join("tasks");
    let beginning = &shown.as_bytes()[..shown.len().min(BEGINNING)];
    let spills = newest(&dir).into_iter().filter_map(|path| of_user(&path, machine.uid));
    let mut longer = spills.filter(|spill| spill.length > shown.len() as u64);
    let spill = longer.find_map(|spill| begins_with(spill, beginning.trim_ascii()))?;
    Some((code, spill))
}

/// Returns the newest files of a directory that end in `.output`.
fn newest(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut found: Vec<(SystemTime, PathBuf)> = entries
        .flatten()
        .filter(|entry| entry.path().extension().is_some_and(|end| end == "output"))
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    found.sort_unstable_by(|a, b| b.cmp(a));
    found.into_iter().take(FILES).map(|(_, path)| path).collect()
}

/// Opens a file that belongs to the user: anybody may have made the directories in `/tmp`.
fn of_user(path: &Path, uid: u32) -> Option<Spill> {
    let spill = Spill::open(path).ok()?;
    (spill.file.metadata().ok()?.uid() == uid).then_some(spill)
}

/// Returns a file whose text, without blanks before it, is `beginning` and more.
fn begins_with(mut spill: Spill, beginning: &[u8]) -> Option<Spill> {
    let mut start = vec![0; 2 * BEGINNING];
    let read = read_up_to(&mut spill, &mut start).ok()?;
    start[..read].trim_ascii_start().starts_with(beginning).then_some(spill)
}

fn read_up_to(spill: &mut Spill, buffer: &mut [u8]) -> io::Result<usize> {
    let mut taken = Vec::with_capacity(buffer.len());
    spill.file.by_ref().take(buffer.len() as u64).read_to_end(&mut taken)?;
    buffer[..taken.len()].copy_from_slice(&taken);
    spill.file.rewind()?;
    Ok(taken.len())
}
