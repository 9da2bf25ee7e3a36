//! Giving a complete file its name, without replacing what somebody else has put there meanwhile.

use std::ffi::OsStr;
use std::fs::File;
use std::io;

use rustix::fs::OFlags;
use rustix::fs::RenameFlags;
use rustix::io::Errno;

use crate::store::dir::Dir;
use crate::store::lease;
use crate::store::lease::Lease;
use crate::store::stat::Stat;
use crate::store::stat::stat_file;

/// Renames `from` to `to` in `dir`. A file of that name is replaced if `may_replace` says so and
/// nobody writes it; else nothing is done, and this returns false.
pub(super) fn take_name(
    dir: &Dir,
    (from, to): (&OsStr, &OsStr),
    may_replace: &dyn Fn(&Stat) -> bool,
) -> io::Result<bool> {
    loop {
        match dir.rename(from, dir, to, RenameFlags::NOREPLACE) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            // The disk lacks NOREPLACE.
            Err(error) if is_unknown(&error) => match dir.stat(to) {
                Ok(_) => {}
                Err(_) => return dir.rename(from, dir, to, RenameFlags::empty()).map(|()| true),
            },
            renamed => return renamed.map(|()| true),
        }
        match dir.open_file(to, OFlags::RDONLY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            old => {
                if let Some(replaced) = replace(dir, (from, to), &old?, may_replace)? {
                    return Ok(replaced);
                }
            }
        }
    }
}

/// Replaces the file `old`. Nobody can begin to write it meanwhile, as this has a lease of it,
/// where the disk has leases. Returns `None` if somebody has just removed it.
fn replace(
    dir: &Dir,
    (from, to): (&OsStr, &OsStr),
    old: &File,
    may_replace: &dyn Fn(&Stat) -> bool,
) -> io::Result<Option<bool>> {
    let stat = stat_file(old)?;
    if !may_replace(&stat) || lease::settled(old) == Lease::Held || lease::take(old) == Lease::Held
    {
        return Ok(Some(false));
    }
    match dir.rename(from, dir, to, RenameFlags::EXCHANGE) {
        // The disk lacks EXCHANGE.
        Err(error) if is_unknown(&error) => {
            return dir.rename(from, dir, to, RenameFlags::empty()).map(|()| Some(true));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && dir.stat(from).is_ok() => {
            return Ok(None);
        }
        exchanged => exchanged?,
    }
    if dir.stat(from)?.same_file(&stat) {
        return dir.unlink(from).map(|()| Some(true));
    }
    // Somebody has renamed another file over it, which gets its name back.
    dir.rename(from, dir, to, RenameFlags::EXCHANGE).map(|()| Some(false))
}

fn is_unknown(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::INVAL.raw_os_error())
}
