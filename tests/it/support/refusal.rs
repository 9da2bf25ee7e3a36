//! The errors of calls that must fail.

use std::io;
use std::path::Path;

use rustix::io::Errno;

use crate::support::Command;

/// Returns the error number of a call that must fail.
pub(crate) fn errno<T>(result: io::Result<T>) -> Errno {
    match result {
        Ok(_) => panic!("it succeeded"),
        Err(error) => Errno::from_io_error(&error).unwrap_or_else(|| panic!("{error}")),
    }
}

/// Truncates a file by its path, which must fail, and returns the error number.
pub(crate) fn truncate_errno(path: &Path) -> Errno {
    let script = "
import os, sys
try:
    os.truncate(sys.argv[1], 0)
except OSError as error:
    print(error.errno)
";
    let said = Command::python(script, &[path]).text();
    Errno::from_raw_os_error(said.trim().parse().expect("it succeeded"))
}
