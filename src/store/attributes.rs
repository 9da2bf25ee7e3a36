//! Extended attributes: provenance that a writer stores with its file.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;

use rustix::buffer::spare_capacity;
use rustix::fs::{Mode, Timespec, Timestamps, UTIME_OMIT, XattrFlags};
use rustix::io::Errno;

use ctxfs_core::model::Provenance;

const USER: &[u8] = b"user.";
const PREFIX: &str = "user.ctx.";
/// Maximum length of an attribute value in bytes, as set by the kernel.
const MAX_BYTES: usize = 64 * 1024;

/// Reads the provenance from the attributes of `file`. Skips invalid values. The provenance is
/// empty if the disk does not support attributes.
pub fn provenance_of(file: &File) -> io::Result<Provenance> {
    let mut provenance = Provenance::default();
    for name in attributes(file)? {
        let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else { continue };
        if let Some(value) = attribute(file, OsStr::new(name))? {
            parse_attribute(name, &value, &mut provenance);
        }
    }
    Ok(provenance)
}

/// Writes `provenance` to the attributes of `file`. Does not change other attributes.
///
/// Does not fail if the disk does not support attributes or has no room for a long value. The
/// manifest has the full provenance in any case.
pub fn set_provenance(file: &File, provenance: &Provenance) -> io::Result<()> {
    let exit_code = provenance.exit_code.map(|code| code.to_string());
    let duration_ms = provenance.duration_ms.map(|duration| duration.to_string());
    let pairs = [
        ("call", &provenance.call),
        ("agent", &provenance.agent),
        ("agent_type", &provenance.agent_type),
        ("tool", &provenance.tool),
        ("server", &provenance.server),
        ("args", &provenance.args),
        ("exit_code", &exit_code),
        ("duration_ms", &duration_ms),
        ("mime", &provenance.mime),
        ("directory", &provenance.directory),
    ];
    let given = pairs.into_iter().filter_map(|(key, value)| Some((key, value.as_ref()?)));
    let all =
        given.map(|(key, value)| (format!("{PREFIX}{key}").into(), value.clone().into_bytes()));
    set_attributes(file, &all.collect::<Vec<_>>())
}

/// Stores the value of the attribute `name` in `provenance`. Returns false and changes nothing if
/// `name` is not an attribute of ctxfs or the value is invalid.
///
/// A value must be non-empty UTF-8 without control characters; only arguments may contain control
/// characters. An exit code and a duration must be numbers.
pub fn parse_attribute(name: &str, value: &[u8], provenance: &mut Provenance) -> bool {
    let Some(key) = name.strip_prefix(PREFIX) else { return false };
    let Some(value) = std::str::from_utf8(value).ok().filter(|value| !value.is_empty()) else {
        return false;
    };
    if key != "args" && value.chars().any(char::is_control) {
        return false;
    }
    let field = match key {
        "call" => &mut provenance.call,
        "agent" => &mut provenance.agent,
        "agent_type" => &mut provenance.agent_type,
        "tool" => &mut provenance.tool,
        "server" => &mut provenance.server,
        "args" => &mut provenance.args,
        "mime" => &mut provenance.mime,
        "directory" => &mut provenance.directory,
        "exit_code" => return parse_number(value, &mut provenance.exit_code),
        "duration_ms" => return parse_number(value, &mut provenance.duration_ms),
        _ => return false,
    };
    *field = Some(value.to_owned());
    true
}

fn parse_number<N: std::str::FromStr>(value: &str, field: &mut Option<N>) -> bool {
    let Ok(number) = value.parse() else { return false };
    *field = Some(number);
    true
}

/// Returns the names of all attributes of `file`, or an empty list if the disk does not support
/// attributes.
pub fn attributes(file: &File) -> io::Result<Vec<OsString>> {
    let mut list = Vec::with_capacity(1024);
    match rustix::fs::flistxattr(file, spare_capacity(&mut list)) {
        Ok(_) => {}
        Err(Errno::NOTSUP | Errno::NOSYS) => return Ok(Vec::new()),
        Err(Errno::RANGE) => {
            list.reserve(MAX_BYTES);
            rustix::fs::flistxattr(file, spare_capacity(&mut list))?;
        }
        Err(error) => return Err(error.into()),
    }
    let names = list.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(|name| OsStr::from_bytes(name).to_owned()).collect())
}

/// Returns the value of the attribute `name`, or `None` if the file does not have it or the disk
/// does not support attributes.
pub fn attribute(file: &File, name: &OsStr) -> io::Result<Option<Vec<u8>>> {
    let mut value = Vec::with_capacity(256);
    let mut got = rustix::fs::fgetxattr(file, name, spare_capacity(&mut value));
    if got == Err(Errno::RANGE) {
        value.reserve(MAX_BYTES);
        got = rustix::fs::fgetxattr(file, name, spare_capacity(&mut value));
    }
    match got {
        Ok(_) => Ok(Some(value)),
        Err(Errno::NODATA | Errno::NOTSUP | Errno::NOSYS) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns the `user.*` attributes of `file`, sorted by name. Attributes with other prefixes belong
/// to the disk and not to the file.
pub fn user_attributes(file: &File) -> io::Result<Vec<(OsString, Vec<u8>)>> {
    let mut found = Vec::new();
    for name in attributes(file)? {
        if name.as_bytes().starts_with(USER)
            && let Some(value) = attribute(file, &name)?
        {
            found.push((name, value));
        }
    }
    found.sort_unstable();
    Ok(found)
}

pub(super) fn users_among(all: &[(OsString, Vec<u8>)]) -> Vec<(OsString, Vec<u8>)> {
    all.iter().filter(|(name, _)| name.as_bytes().starts_with(USER)).cloned().collect()
}

/// Sets attributes that were read from another file. An attribute that the disk does not support or
/// has no room for is dropped without an error; see [`set_provenance`].
pub(super) fn set_attributes(file: &File, all: &[(OsString, Vec<u8>)]) -> io::Result<()> {
    for (name, value) in all {
        match rustix::fs::fsetxattr(file, name, value, XattrFlags::empty()) {
            Ok(()) | Err(Errno::NOTSUP | Errno::NOSPC | Errno::TOOBIG | Errno::RANGE) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

pub(super) fn set_mode_and_time(
    file: impl std::os::fd::AsFd + Copy,
    mode: u32,
    modified: crate::Time,
) -> io::Result<()> {
    rustix::fs::fchmod(file, Mode::from_raw_mode(mode))?;
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: modified.seconds, tv_nsec: modified.nanos.into() },
    };
    Ok(rustix::fs::futimens(file, &times)?)
}

/// Returns the total size in bytes of the names and values of all `user.` attributes of the file at
/// `path`. Does not follow links. Returns 0 if the disk does not support attributes or the file is
/// gone.
pub(super) fn bytes_at(path: &OsStr) -> u64 {
    // Most files have no attributes, and the kernel reports that without a buffer.
    let length = rustix::fs::llistxattr(path, &mut [0_u8; 0]).unwrap_or(0);
    if length == 0 {
        return 0;
    }
    let mut list = vec![0; MAX_BYTES];
    let length = rustix::fs::llistxattr(path, &mut list[..]).unwrap_or(0);
    let names = list[..length].split(|byte| *byte == 0);
    let ours = names.filter(|name| name.starts_with(USER));
    ours.map(|name| {
        let value = rustix::fs::lgetxattr(path, OsStr::from_bytes(name), &mut [0_u8; 0]);
        (name.len() + value.unwrap_or(0)) as u64
    })
    .sum()
}

/// Sets the attribute `name`. `flags` can require that the attribute exists, or that it is new.
pub fn set_attribute(file: &File, name: &OsStr, value: &[u8], flags: XattrFlags) -> io::Result<()> {
    Ok(rustix::fs::fsetxattr(file, name, value, flags)?)
}

/// Removes the attribute `name`. Fails with ENODATA if the file does not have it.
pub fn remove_attribute(file: &File, name: &OsStr) -> io::Result<()> {
    Ok(rustix::fs::fremovexattr(file, name)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said() -> Provenance {
        Provenance {
            call: Some("9f3k".into()),
            agent: Some("a1b2".into()),
            agent_type: Some("Explore".into()),
            tool: Some("exec".into()),
            server: Some("shell".into()),
            args: Some("{\n  \"command\": \"make\"\n}".into()),
            exit_code: Some(-1),
            duration_ms: Some(1250),
            mime: Some("text/plain".into()),
            directory: Some("/src/app".into()),
            ..Provenance::default()
        }
    }

    #[test]
    fn what_is_said_stays_with_the_file() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(provenance_of(&file).unwrap(), Provenance::default());
        set_provenance(&file, &said()).unwrap();
        assert_eq!(provenance_of(&file).unwrap(), said());
        set_attribute(&file, OsStr::new("user.other"), &[0; 500], XattrFlags::empty()).unwrap();
        assert_eq!(attribute(&file, OsStr::new("user.other")).unwrap(), Some(vec![0; 500]));
        remove_attribute(&file, OsStr::new("user.ctx.mime")).unwrap();
        assert_eq!(attribute(&file, OsStr::new("user.ctx.mime")).unwrap(), None);
        assert_eq!(provenance_of(&file).unwrap(), Provenance { mime: None, ..said() });
    }

    #[test]
    fn a_value_without_room_is_left_out() {
        let file = tempfile::tempfile().unwrap();
        let long = Provenance { args: Some("x".repeat(200_000)), ..said() };
        set_provenance(&file, &long).unwrap();
        assert_eq!(provenance_of(&file).unwrap(), Provenance { args: None, ..said() });
    }

    #[test]
    fn attributes_that_make_no_sense_are_refused() {
        let mut provenance = Provenance::default();
        for (name, value) in [
            ("user.ctx.colour", &b"red"[..]),
            ("user.tool", b"exec"),
            ("user.ctx.", b"exec"),
            ("trusted.ctx.tool", b"exec"),
            ("user.ctx.tool", b""),
            ("user.ctx.tool", b"\xff"),
            ("user.ctx.tool", b"two\nlines"),
            ("user.ctx.exit_code", b"one"),
            ("user.ctx.exit_code", b"99999999999"),
        ] {
            assert!(!parse_attribute(name, value, &mut provenance), "{name}");
        }
        assert_eq!(provenance, Provenance::default());
        assert!(parse_attribute("user.ctx.exit_code", b"-1", &mut provenance));
        assert_eq!(provenance.exit_code, Some(-1));
    }
}
